import assert from "node:assert/strict";
import { afterAll, test } from "vitest";
import { each } from "../support/each.ts";
import { startPetsGateway } from "../support/gateway/pets.ts";
import { sendRequest } from "../support/wire/client.ts";

const house = await startPetsGateway();
afterAll(() => house[Symbol.asyncDispose]());
const { key } = await house.issue({ plan: "pro" });
const STATUSES = ["available", "pending", "sold", undefined];

test("3.1 an animal can be created with any of the three status values or with none", async () => {
  for (const status of STATUSES) {
    const body = JSON.stringify({ name: "Ada", categoryId: 1, status });
    const made = await sendRequest(house.port, { method: "POST", key, body });
    assert.equal(made.status, 201);
    const pet = JSON.parse(made.body.toString()) as { status?: string };
    assert.equal(pet.status, status);
    assert.equal(Object.hasOwn(pet, "status"), status !== undefined, "omitted stays absent");
  }
});

test("3.2 the list operation can filter on any of the three values", async () => {
  for (const status of each(STATUSES.filter((it) => it !== undefined))) {
    const answer = await sendRequest(house.port, { key, path: `/v1/pets?status=${status}` });
    const pets = JSON.parse(answer.body.toString()) as { status?: string }[];
    assert.deepEqual(
      pets.map((pet) => pet.status),
      [status],
    );
  }
  await house.law();
});

test("3 transitions are not shown: an animal can be neither changed nor deleted", async () => {
  for (const method of ["PUT", "PATCH", "DELETE"]) {
    const answer = await sendRequest(house.port, { method, key, path: "/v1/pets/1" });
    assert.equal(answer.status, 405, method);
  }
});
