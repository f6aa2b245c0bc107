import assert from "node:assert/strict";
import { afterAll, test } from "vitest";
import { startPetsGateway } from "../support/gateway/pets.ts";
import { errorOf, sendRequest } from "../support/wire/client.ts";
import { onlyValue } from "../support/wire/response.ts";

const house = await startPetsGateway();
afterAll(() => house[Symbol.asyncDispose]());
const { key } = await house.issue({ plan: "business" });
const STATUSES = ["available", "pending", "sold", undefined];
for (let i = 0; i < 24; i++) {
  const body = JSON.stringify({ name: `a${i}`, categoryId: i, status: STATUSES[i % 4] });
  assert.equal((await sendRequest(house.port, { method: "POST", key, body })).status, 201);
}

type Pet = { id: number; status?: string };

async function list(query: string) {
  const answer = await sendRequest(house.port, { key, path: `/v1/pets${query}` });
  assert.equal(answer.status, 200, answer.body.toString());
  return { answer, pets: JSON.parse(answer.body.toString()) as Pet[] };
}

test("4.1 GET /pets answers 200 with a JSON array of Animal objects", async () => {
  const { answer, pets } = await list("");
  assert.match(onlyValue(answer, "Content-Type"), /^application\/json/);
  assert.ok(pets.every(({ id }) => Number.isInteger(id)));
});

test("4.1 limit is the maximum number of animals returned", async () => {
  for (const limit of [1, 2, 23, 24]) {
    assert.equal((await list(`?limit=${limit}`)).pets.length, limit);
  }
  assert.equal((await list("?limit=100")).pets.length, 24);
});

test("4.1 when status is given, only animals with that status are returned; else all", async () => {
  for (const status of ["available", "pending", "sold"]) {
    const { pets } = await list(`?status=${status}`);
    assert.deepEqual([...new Set(pets.map((pet) => pet.status))], [status]);
    assert.equal(pets.length, 6);
  }
  const { pets } = await list("?limit=100");
  assert.equal(pets.filter((pet) => pet.status === undefined).length, 6);
});

test("4.1 status and limit hold together", async () => {
  const { pets } = await list("?status=sold&limit=2");
  assert.deepEqual(
    pets.map((pet) => pet.status),
    ["sold", "sold"],
  );
});

test("4.1 the Link of a page leads through the gateway over every animal once", async () => {
  const ids: number[] = [];
  let query = "?limit=10";
  for (let pages = 0; pages < 3; pages++) {
    const { answer, pets } = await list(query);
    ids.push(...pets.map(({ id }) => id));
    const link = answer.fields.find(([name]) => name.toLowerCase() === "link")?.[1];
    assert.equal(link !== undefined, pages < 2, "there is a further page until the last");
    query = /^<\/v1\/pets(\?[^>]+)>; rel="next"$/.exec(link ?? "")?.[1] ?? "";
  }
  assert.deepEqual(
    ids,
    Array.from({ length: 24 }, (_, i) => i + 1),
  );
});

test("4.1 a missing or invalid API key is 401 with an Error", async () => {
  assert.equal(errorOf(await sendRequest(house.port)).status, 401);
  assert.equal(
    errorOf(await sendRequest(house.port, { key: "pets_live_wrong0wrong0" })).status,
    401,
  );
  await house.law();
});
