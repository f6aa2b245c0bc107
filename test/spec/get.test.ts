import assert from "node:assert/strict";
import { afterAll, test } from "vitest";
import { startPetsGateway } from "../support/gateway/pets.ts";
import { errorOf, sendRequest } from "../support/wire/client.ts";
import { onlyValue } from "../support/wire/response.ts";

const house = await startPetsGateway({ now: () => Date.UTC(2026, 5, 1, 12) });
afterAll(() => house[Symbol.asyncDispose]());
const { key } = await house.issue({ plan: "pro" });
const body = '{"name":"Ada","categoryId":9007199254740993}';
await sendRequest(house.port, { method: "POST", key, body });

test("4.3 GET /pets/{petId} answers 200 with the Animal", async () => {
  const answer = await sendRequest(house.port, { key, path: "/v1/pets/1" });
  assert.equal(answer.status, 200);
  assert.equal(answer.body.toString(), '{"id":1,"name":"Ada","categoryId":9007199254740993}');
});

test("4.3 an animal that cannot be found is 404 with an Error", async () => {
  for (const id of ["2", "0", "-1", "9223372036854775807"]) {
    const answer = await sendRequest(house.port, { key, path: `/v1/pets/${id}` });
    assert.deepEqual([id, errorOf(answer).status], [id, 404]);
  }
});

test("4.3 petId is an int64: anything else is 400 with an Error", async () => {
  for (const id of ["abc", "1.0", "01", "9223372036854775808", "1e3", "%31x"]) {
    const answer = await sendRequest(house.port, { key, path: `/v1/pets/${id}` });
    assert.deepEqual([id, errorOf(answer).status], [id, 400]);
  }
});

test("4.3 a missing or invalid key is 401 with an Error", async () => {
  assert.equal(errorOf(await sendRequest(house.port, { path: "/v1/pets/1" })).status, 401);
});

test("4.3 it is deprecated: the answer says so, when it goes and what to use instead", async () => {
  const answer = await sendRequest(house.port, { key, path: "/v1/pets/1" });
  assert.equal(onlyValue(answer, "Sunset"), "Thu, 05 Dec 2030 00:00:00 GMT");
  assert.equal(onlyValue(answer, "Deprecation"), `@${Date.UTC(2025, 11, 5) / 1000}`);
  assert.match(onlyValue(answer, "Link"), /^<\/v1\/pets\?status=\w+>; rel="successor-version"$/);
});

test("4.3 the replacement, GET /pets with a status filter, is there and is not deprecated", async () => {
  const deprecated = await sendRequest(house.port, { key, path: "/v1/pets/1" });
  const path = /<([^>]+)>/.exec(onlyValue(deprecated, "Link"))?.[1] ?? "";
  const answer = await sendRequest(house.port, { key, path });
  assert.equal(answer.status, 200);
  const names = answer.fields.map(([name]) => name.toLowerCase());
  assert.ok(!names.includes("sunset") && !names.includes("deprecation"));
  await house.law();
});
