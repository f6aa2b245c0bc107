import assert from "node:assert/strict";
import { test } from "vitest";
import { KEY } from "../support/gateway/served.ts";
import { errorOf, sendRequest } from "../support/wire/client.ts";
import { onlyValue, valuesOf } from "../support/wire/response.ts";
import { lawHolds, openAttacked } from "./attacked.ts";

const SUNSET_MS = Date.UTC(2030, 11, 5);

test("from its sunset on no spelling of the operation is served: 410, charged, announced, by the clock", async () => {
  let nowMs = SUNSET_MS - 1;
  await using house = await openAttacked({ now: () => nowMs });
  assert.equal((await sendRequest(house.port, { key: KEY, path: "/v1/pets/1" })).status, 200);
  nowMs = SUNSET_MS;
  const before = house.backend.seen.length;
  const spellings = [
    "/v1/pets/1",
    "/v1/pets/%31",
    "/v1/pets/1?a=b",
    "/v1/pets/a;b",
    "http://gw.test/v1/pets/1",
  ];
  for (const path of spellings) {
    const answer = await sendRequest(house.port, { key: KEY, path });
    assert.equal(errorOf(answer).code, "gone", path);
    assert.equal(onlyValue(answer, "Sunset"), "Thu, 05 Dec 2030 00:00:00 GMT");
    assert.equal(valuesOf(answer, "Deprecation").length, 1);
  }
  const head = await sendRequest(house.port, { key: KEY, method: "HEAD", path: "/v1/pets/1" });
  assert.equal(head.status, 410);
  for (const path of ["/v1/pets/1/", "/v1//pets/1", "/v1/pets/./1", "/V1/pets/1"]) {
    assert.ok(
      [400, 404].includes((await sendRequest(house.port, { key: KEY, path })).status),
      path,
    );
  }
  assert.equal(house.backend.seen.length, before, "nothing of it reached the backend");
  assert.equal((await sendRequest(house.port, { key: KEY })).status, 200, "the others are served");
  assert.equal(
    (await sendRequest(house.port, { path: "/v1/pets/1" })).status,
    401,
    "the key comes first",
  );
  await lawHolds(house);
});

test("a client's own Date decides nothing", async () => {
  await using house = await openAttacked({ now: () => SUNSET_MS });
  const fields = [
    ["Date", "Wed, 04 Dec 2030 23:59:59 GMT"],
    ["If-Modified-Since", "Wed, 04 Dec 2030 23:59:59 GMT"],
  ] as const;
  assert.equal(
    (await sendRequest(house.port, { key: KEY, path: "/v1/pets/1", fields })).status,
    410,
  );
  await lawHolds(house);
});
