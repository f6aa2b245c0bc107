import assert from "node:assert/strict";
import { afterAll, test } from "vitest";
import { startPetsGateway } from "../support/gateway/pets.ts";
import { errorOf, sendRequest } from "../support/wire/client.ts";

const house = await startPetsGateway();
afterAll(() => house[Symbol.asyncDispose]());
const { key } = await house.issue({ plan: "pro" });
const post = (body: string | undefined, withKey: string | undefined = key) =>
  sendRequest(house.port, {
    method: "POST",
    ...(withKey === undefined ? {} : { key: withKey }),
    ...(body === undefined ? {} : { body }),
  });

test("4.2 POST /pets answers 201 with the created Animal, the assigned id included", async () => {
  const made = await post('{"name":"Ada","categoryId":7}');
  assert.equal(made.status, 201);
  const { id, ...rest } = JSON.parse(made.body.toString()) as Record<string, unknown>;
  assert.ok(Number.isInteger(id));
  assert.deepEqual(rest, { name: "Ada", categoryId: 7 });
});

test("4.2 a missing name or categoryId is 400 with an Error", async () => {
  for (const body of ["{}", '{"name":"Ada"}', '{"categoryId":7}', "[]", "null"]) {
    const answer = await post(body);
    assert.deepEqual([body, answer.status, errorOf(answer).status], [body, 400, 400]);
  }
});

test("4.2 invalid values are 400 with an Error, and nothing is added", async () => {
  const count = async () => {
    const { body } = await sendRequest(house.port, { key, path: "/v1/pets?limit=100" });
    return (JSON.parse(body.toString()) as unknown[]).length;
  };
  const before = await count();
  for (const body of [
    '{"name":"","categoryId":1}',
    '{"name":"a","categoryId":1.5}',
    '{"name":"a","categoryId":1,"status":"gone"}',
    '{"name":"a","categoryId":1,"status":null}',
    "{",
  ]) {
    assert.equal(errorOf(await post(body)).status, 400, body);
  }
  assert.equal(await count(), before);
});

test("4.2 the request body is required", async () => {
  assert.equal(errorOf(await post(undefined)).status, 400);
});

test("4.2 without a key it is 401 with an Error, and nothing is added", async () => {
  const before = house.upstream.seen.length;
  const answer = await sendRequest(house.port, {
    method: "POST",
    body: '{"name":"a","categoryId":1}',
  });
  assert.equal(errorOf(answer).status, 401);
  assert.equal(house.upstream.seen.length, before);
  await house.law();
});
