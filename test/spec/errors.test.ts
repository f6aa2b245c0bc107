import assert from "node:assert/strict";
import { afterAll, test } from "vitest";
import { startPetsGateway } from "../support/gateway/pets.ts";
import { errorOf, sendRequest } from "../support/wire/client.ts";

const house = await startPetsGateway();
afterAll(() => house[Symbol.asyncDispose]());
const { key } = await house.issue({ plan: "pro" });

test("7 400: the request body lacks required fields or has invalid values", async () => {
  for (const body of ['{"name":"a"}', '{"name":"a","categoryId":"1"}']) {
    const answer = await sendRequest(house.port, { method: "POST", key, body });
    assert.deepEqual([answer.status, errorOf(answer).status], [400, 400]);
  }
});

test("7 401: the API key is missing or invalid, on all three operations", async () => {
  for (const wanted of [{}, { method: "POST", body: "{}" }, { path: "/v1/pets/1" }]) {
    assert.equal(errorOf(await sendRequest(house.port, wanted)).status, 401);
    assert.equal(errorOf(await sendRequest(house.port, { ...wanted, key: `${key}0` })).status, 401);
  }
});

test("7 404: the requested animal cannot be found", async () => {
  assert.equal(errorOf(await sendRequest(house.port, { key, path: "/v1/pets/4711" })).status, 404);
});

test("7 429: the rate limit is exceeded, on any rate-limited request", async () => {
  for (const wanted of [
    { path: "/v1/pets" },
    { path: "/v1/pets/1" },
    { path: "/v1/none" },
    { method: "POST", body: '{"name":"a","categoryId":1}' },
    { method: "DELETE" },
  ]) {
    const { key: small } = await house.issue({ limits: { day: 1 } });
    const first = await sendRequest(house.port, { ...wanted, key: small });
    assert.notEqual(first.status, 429);
    const second = await sendRequest(house.port, { ...wanted, key: small });
    assert.deepEqual([second.status, errorOf(second).code], [429, "rate_limited"]);
  }
});

test("7 status repeats the HTTP status code, whoever answers", async () => {
  const { key: small } = await house.issue({ limits: { day: 1 } });
  const answers = [
    await sendRequest(house.port, { key: small, path: "/v1/pets?limit=0" }),
    await sendRequest(house.port, { key: small }),
    await sendRequest(house.port, { key, method: "PATCH" }),
    await sendRequest(house.port, { key, method: "GET", path: "/v1/pets/../x" }),
  ];
  assert.deepEqual(
    answers.map((answer) => errorOf(answer).status),
    [400, 429, 405, 400],
  );
  await house.law();
});
