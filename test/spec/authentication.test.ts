import assert from "node:assert/strict";
import { afterAll, test } from "vitest";
import { each } from "../support/each.ts";
import { startPetsGateway } from "../support/gateway/pets.ts";
import { errorOf, sendRequest } from "../support/wire/client.ts";
import { onlyValue } from "../support/wire/response.ts";

const house = await startPetsGateway({ config: { unauthenticated: { minute: 1000 } } });
afterAll(() => house[Symbol.asyncDispose]());
const { key } = await house.issue({ plan: "pro" });
const OPERATIONS = [
  { method: "GET", path: "/v1/pets", wanted: 200 },
  { method: "POST", path: "/v1/pets", body: '{"name":"a","categoryId":1}', wanted: 201 },
  { method: "GET", path: "/v1/pets/1", wanted: 200 },
];

function withField(value: string) {
  return sendRequest(house.port, { fields: [["Authorization", value]] });
}

test("5.1 the key is a bearer token in Authorization; the scheme's case does not matter", async () => {
  for (const scheme of ["Bearer", "bearer", "BEARER"]) {
    assert.equal((await withField(`${scheme} ${key}`)).status, 200, scheme);
  }
  for (const value of [`Basic ${key}`, key, `Bearer${key}`, `Token ${key}`, "Bearer", ""]) {
    assert.equal(errorOf(await withField(value)).status, 401, value);
  }
});

test("5.1 nowhere else is it taken for a key: not in the query, a cookie or another field", async () => {
  const elsewhere = [
    { path: `/v1/pets?access_token=${key}` },
    { path: `/v1/pets?api_key=${key}` },
    { fields: [["X-API-Key", key]] as const },
    { fields: [["Cookie", `key=${key}`]] as const },
    { fields: [["Proxy-Authorization", `Bearer ${key}`]] as const },
  ];
  for (const wanted of elsewhere) {
    const answer = await sendRequest(house.port, wanted);
    assert.equal(errorOf(answer).code, "key_missing", JSON.stringify(wanted));
  }
});

test("5.2 the scheme applies to every operation", async () => {
  for (const { wanted, ...operation } of OPERATIONS) {
    assert.equal((await sendRequest(house.port, { ...operation, key })).status, wanted);
    assert.equal(errorOf(await sendRequest(house.port, operation)).status, 401);
    assert.equal(
      errorOf(await sendRequest(house.port, { ...operation, key: `${key}0` })).status,
      401,
    );
  }
});

test("5.3 a missing key yields 401 with an Error and a challenge", async () => {
  const answer = await sendRequest(house.port);
  assert.equal(answer.status, 401);
  assert.equal(errorOf(answer).code, "key_missing");
  assert.equal(onlyValue(answer, "WWW-Authenticate"), 'Bearer realm="tollgate"');
});

test("5.3 an invalid key yields 401 with an Error, and the client does not learn why", async () => {
  const revoked = await house.issue();
  await house.admin(`/api/keys/${revoked.id}/revoke`, { method: "POST", body: "{}" });
  const flipped = key.slice(0, -1) + (key.endsWith("0") ? "1" : "0");
  const tokens = [flipped, revoked.key, key.replace("_live_", "_test_"), "x".repeat(600), "short"];
  const answers = await Promise.all(tokens.map((token) => sendRequest(house.port, { key: token })));
  const [first] = answers;
  for (const answer of each(answers)) {
    assert.equal(answer.status, 401);
    assert.equal(errorOf(answer).code, "key_invalid");
    assert.deepEqual(answer.body, first?.body);
    assert.equal(
      onlyValue(answer, "WWW-Authenticate"),
      'Bearer realm="tollgate", error="invalid_token"',
    );
  }
});

test("5.3 a 401 costs nothing", async () => {
  const before = house.upstream.seen.length;
  await sendRequest(house.port);
  assert.equal(house.upstream.seen.length, before);
  await house.law();
});
