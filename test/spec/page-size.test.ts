import assert from "node:assert/strict";
import { afterAll, test } from "vitest";
import { startPetsGateway } from "../support/gateway/pets.ts";
import { errorOf, sendRequest } from "../support/wire/client.ts";

const house = await startPetsGateway();
afterAll(() => house[Symbol.asyncDispose]());
const { key } = await house.issue({ plan: "business" });
const body = '{"name":"Ada","categoryId":1}';
for (let i = 0; i < 101; i++) await sendRequest(house.port, { method: "POST", key, body });

const list = (query: string) => sendRequest(house.port, { key, path: `/v1/pets${query}` });

async function count(query: string): Promise<number> {
  const answer = await list(query);
  assert.equal(answer.status, 200, query);
  return (JSON.parse(answer.body.toString()) as unknown[]).length;
}

test("8 page size: limit is 20 by default", async () => {
  assert.equal(await count(""), 20);
});

test("8 page size: limit is at least 1 and at most 100", async () => {
  assert.equal(await count("?limit=1"), 1);
  assert.equal(await count("?limit=100"), 100);
  for (const limit of ["0", "101", "-1", "1.5", "", "x", "1e1", "020"]) {
    const answer = await list(`?limit=${limit}`);
    assert.deepEqual([limit, errorOf(answer).status], [limit, 400]);
  }
});

test("8 page size: an unknown status or a repeated parameter is 400", async () => {
  for (const query of ["?status=gone", "?limit=1&limit=2", "?status=sold&status=sold"]) {
    const answer = await list(query);
    assert.deepEqual([query, errorOf(answer).status], [query, 400]);
  }
  await house.law();
});
