import assert from "node:assert/strict";
import { afterAll, test } from "vitest";
import { startTestGateway } from "../support/gateway/house.ts";
import { startPetsUpstream } from "../support/gateway/pets.ts";
import { errorOf, rateLimitFieldsOf, sendRequest } from "../support/wire/client.ts";
import { onlyValue } from "../support/wire/response.ts";

const upstream = await startPetsUpstream();
const one = { listen: "127.0.0.1:0", basePath: "/v1", upstreams: [upstream.origin] };
const api = new URL("../../config/pets.openapi.yaml", import.meta.url).pathname;
const house = await startTestGateway({
  upstream,
  config: {
    environments: {
      production: { ...one, keyTag: "live", api },
      staging: { ...one, keyTag: "test", api },
    },
  },
});
afterAll(() => house[Symbol.asyncDispose]());

const { key } = await house.issue({ plan: "pro" });
const staging = await house.issue({ environment: "staging" });
const { port } = house;
const stagingPort = Number(new URL(house.gateway.urls.staging ?? "").port);
const newPet = JSON.stringify({ name: "Ada", categoryId: 7, status: "available" });

test("1 clients list animals, add an animal, and read a single animal by identifier", async () => {
  const made = await sendRequest(port, { method: "POST", key, body: newPet });
  assert.equal(made.status, 201);
  const { id } = JSON.parse(made.body.toString()) as { id: number };
  const read = await sendRequest(port, { key, path: `/v1/pets/${id}` });
  assert.deepEqual([read.status, read.body], [200, made.body]);
  const listed = await sendRequest(port, { key });
  assert.equal(listed.status, 200);
  assert.ok((JSON.parse(listed.body.toString()) as { id: number }[]).some((pet) => pet.id === id));
  await house.law();
});

test("1 requests and responses use application/json, refusals of the gateway too", async () => {
  const wrong = [["Content-Type", "text/plain"]] as const;
  const answers = [
    await sendRequest(port, { key }),
    await sendRequest(port, { method: "POST", key, body: newPet }),
    await sendRequest(port, { key, path: "/v1/pets/1" }),
    await sendRequest(port, { key, path: "/v1/pets/999999" }),
    await sendRequest(port, { method: "POST", key, body: "{}" }),
    await sendRequest(port, { key, path: "/v1/nothing" }),
    await sendRequest(port),
  ];
  assert.deepEqual(
    answers.map(({ status }) => status),
    [200, 201, 200, 404, 400, 404, 401],
  );
  for (const answer of answers) {
    assert.match(onlyValue(answer, "Content-Type"), /^application\/json(; charset=utf-8)?$/);
    assert.doesNotThrow(() => JSON.parse(answer.body.toString()));
  }
  const refused = await sendRequest(port, { method: "POST", key, body: newPet, fields: wrong });
  assert.equal(refused.status, 415);
});

test("1 every operation needs a bearer API key", async () => {
  const before = upstream.seen.length;
  for (const wanted of [
    { path: "/v1/pets" },
    { method: "POST", body: newPet },
    { path: "/v1/pets/1" },
  ]) {
    const answer = await sendRequest(port, wanted);
    assert.deepEqual([answer.status, errorOf(answer).code], [401, "key_missing"]);
  }
  assert.equal(upstream.seen.length, before, "nothing of it came to the backend");
});

test("1 production and staging each have a base address, and keys of their own", async () => {
  assert.notEqual(port, stagingPort);
  assert.equal((await sendRequest(port, { key })).status, 200);
  assert.equal((await sendRequest(stagingPort, { key: staging.key })).status, 200);
  for (const answer of [
    await sendRequest(port, { key: staging.key }),
    await sendRequest(stagingPort, { key }),
  ]) {
    assert.deepEqual([answer.status, errorOf(answer).code], [401, "key_invalid"]);
  }
});

test("1 both base addresses end in the path prefix /v1: nothing is served beside it", async () => {
  for (const path of ["/pets", "/", "/v2/pets", "/v1pets", "/healthz", "/V1/pets"]) {
    const live = await sendRequest(port, { key, path });
    assert.deepEqual([path, live.status, errorOf(live).code], [path, 404, "not_found"]);
  }
  const { remaining } = rateLimitFieldsOf(
    await sendRequest(stagingPort, { key: staging.key, path: "/pets" }),
  );
  const next = rateLimitFieldsOf(await sendRequest(stagingPort, { key: staging.key })).remaining;
  assert.equal(next, remaining - 1, "charged like the others");
});

test("1 operations of other resource groups are not there", async () => {
  for (const path of ["/v1/store/orders", "/v1/orders/1", "/v1/categories", "/v1/domains"]) {
    assert.equal((await sendRequest(port, { key, path })).status, 404, path);
  }
  await house.law();
});
