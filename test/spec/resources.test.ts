import assert from "node:assert/strict";
import { afterAll, test } from "vitest";
import { startPetsGateway } from "../support/gateway/pets.ts";
import { errorOf, sendRequest } from "../support/wire/client.ts";

const house = await startPetsGateway();
afterAll(() => house[Symbol.asyncDispose]());
const { key } = await house.issue({ plan: "business" });

async function add(body: string) {
  const answer = await sendRequest(house.port, { method: "POST", key, body });
  return { answer, text: answer.body.toString() };
}

async function added(body: string): Promise<Record<string, unknown>> {
  const { answer, text } = await add(body);
  assert.equal(answer.status, 201, text);
  return JSON.parse(text) as Record<string, unknown>;
}

test("2 Animal: it has every field of NewPet plus id, an integer assigned by the service", async () => {
  const sent = { name: "Ada", categoryId: 7, status: "sold" };
  const { id, ...rest } = await added(JSON.stringify(sent));
  assert.ok(Number.isSafeInteger(id), `${id}`);
  assert.deepEqual(rest, sent);
  const other = await added(JSON.stringify(sent));
  assert.notEqual(other.id, id);
});

test("2 Animal: id and categoryId are int64, exact beyond what a double holds", async () => {
  for (const categoryId of ["9007199254740993", "9223372036854775807", "-9223372036854775808"]) {
    const { answer, text } = await add(`{"name":"Ada","categoryId":${categoryId}}`);
    assert.equal(answer.status, 201);
    assert.ok(text.includes(`"categoryId":${categoryId}`), text);
    const id = /"id":(\d+)/.exec(text)?.[1];
    const read = await sendRequest(house.port, { key, path: `/v1/pets/${id}` });
    assert.equal(read.body.toString(), text);
  }
  for (const categoryId of ["9223372036854775808", "1.5", '"7"']) {
    const { answer } = await add(`{"name":"Ada","categoryId":${categoryId}}`);
    assert.deepEqual([answer.status, errorOf(answer).status], [400, 400], categoryId);
  }
});

test("2 NewPet: name and categoryId are required, status is not", async () => {
  assert.equal((await add('{"name":"Ada","categoryId":1}')).answer.status, 201);
  for (const body of ['{"categoryId":1}', '{"name":"Ada"}', '{"status":"sold"}', "{}"]) {
    assert.equal((await add(body)).answer.status, 400, body);
  }
});

test("2 NewPet: name is a string", async () => {
  for (const name of ["7", "null", "true", "[]", "{}"]) {
    assert.equal((await add(`{"name":${name},"categoryId":1}`)).answer.status, 400, name);
  }
});

test("2 NewPet: id is not sent on creation, and one that is does not become the animal's", async () => {
  const pet = await added('{"id":424242,"name":"Ada","categoryId":1}');
  assert.notEqual(pet.id, 424242);
});

test("2 PetStatus: available, pending and sold, and nothing else", async () => {
  for (const status of ["available", "pending", "sold"]) {
    assert.equal(
      (await added(JSON.stringify({ name: "a", categoryId: 1, status }))).status,
      status,
    );
  }
  for (const status of ["Available", "gone", "", null, 1]) {
    const { answer } = await add(JSON.stringify({ name: "a", categoryId: 1, status }));
    assert.equal(answer.status, 400, String(status));
  }
});

test("2 Pets: an array of Animal objects", async () => {
  const answer = await sendRequest(house.port, { key, path: "/v1/pets?limit=100" });
  const pets = JSON.parse(answer.body.toString()) as Record<string, unknown>[];
  assert.ok(Array.isArray(pets) && pets.length > 0);
  for (const { id, name, categoryId, status, ...others } of pets) {
    assert.deepEqual([typeof id, typeof name, typeof categoryId], ["number", "string", "number"]);
    assert.ok([undefined, "available", "pending", "sold"].includes(status as string | undefined));
    assert.deepEqual(others, {});
  }
});

test("2 Error: code and message are strings, status is the HTTP status code", async () => {
  const answers = [
    await sendRequest(house.port),
    await sendRequest(house.port, { key, path: "/v1/pets?limit=0" }),
    await sendRequest(house.port, { key, path: "/v1/pets/999999" }),
    await sendRequest(house.port, { key, path: "/v1/other" }),
    await sendRequest(house.port, { key, method: "PUT", path: "/v1/pets", body: "{}" }),
  ];
  const statuses = answers.map((answer) => errorOf(answer).status);
  assert.deepEqual(statuses, [401, 400, 404, 404, 405]);
  await house.law();
});
