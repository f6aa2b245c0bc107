import assert from "node:assert/strict";
import { afterAll, test } from "vitest";
import { KEY } from "../support/gateway/served.ts";
import { sendRequest } from "../support/wire/client.ts";
import { valuesOf } from "../support/wire/response.ts";
import { lawHolds, openAttacked } from "./attacked.ts";

const house = await openAttacked();
afterAll(() => house[Symbol.asyncDispose]());

test("there is no cache: each request is the backend's, whatever it says of keeping its answers", async () => {
  house.backend.answer((_seen, response) => {
    response.setHeader("Cache-Control", "public, max-age=31536000");
    response.setHeader("ETag", '"1"');
    response.end(`answer ${house.backend.seen.length}`);
  });
  const before = house.backend.seen.length;
  for (let i = 1; i <= 3; i++) {
    const answer = await sendRequest(house.port, { key: KEY });
    assert.equal(answer.body.toString(), `answer ${before + i}`);
    assert.deepEqual(valuesOf(answer, "Cache-Control"), ["public, max-age=31536000"]);
  }
  assert.equal(
    (await sendRequest(house.port, { path: "/v1/pets" })).status,
    401,
    "nor for one without a key",
  );
});

test("no refusal may be kept by anybody: no-store on each", async () => {
  const small = await house.issue({ limits: { minute: 1, hour: 1, day: 1 } });
  await sendRequest(house.port, { key: small.key });
  const refused = [
    {},
    { key: `${KEY}x` },
    { key: small.key },
    { key: KEY, path: "/v1/none" },
    { key: KEY, method: "PATCH", body: "{}" },
    { key: KEY, path: "/v1/../x" },
    { key: KEY, path: `/v1/${"a".repeat(8_200)}` },
    { key: KEY, fields: [["Expect", "a"]] as const },
    { key: KEY, fields: Array.from({ length: 101 }, (_, i) => [`X-${i}`, "a"] as const) },
    { key: KEY, method: "PURGE" },
    { key: KEY, version: "2.0" },
  ];
  for (const wanted of refused) {
    const answer = await sendRequest(house.port, wanted);
    assert.ok(answer.status >= 400, `${answer.status}`);
    assert.deepEqual(valuesOf(answer, "Cache-Control"), ["no-store"], `${answer.status}`);
  }
});

test("nothing that a cache in front might key by is reflected in an answer", async () => {
  const fields = [
    ["X-Forwarded-Host", "evil.test"],
    ["X-Forwarded-Proto", "canary"],
    ["X-Original-URL", "/canary"],
  ] as const;
  for (const key of [KEY, "canary"]) {
    const answer = await sendRequest(house.port, { key, fields, path: "/v1/none?canary" });
    assert.ok(!/evil|canary/.test(JSON.stringify(answer.fields) + answer.body.toString()));
  }
});

test("the law holds after all of it", () => lawHolds(house));
