import assert from "node:assert/strict";
import { afterAll, test } from "vitest";
import { startPetsGateway } from "../support/gateway/pets.ts";
import { KEY } from "../support/gateway/served.ts";
import { sendRequest } from "../support/wire/client.ts";

const limits = [{ window: "day", limit: 10 ** 6 }] as const;
const house = await startPetsGateway({
  keys: { [KEY]: { plan: "enterprise", id: "json", limits } },
});
afterAll(() => house[Symbol.asyncDispose]());

const post = (body: string) => sendRequest(house.port, { key: KEY, method: "POST", body });
const wrap = (name: string) => `{"name":${name},"categoryId":1}`;

const BOMBS: Readonly<Record<string, string>> = {
  "30,000 open brackets": "[".repeat(30_000),
  "30,000 brackets, closed": `${"[".repeat(30_000)}${"]".repeat(30_000)}`,
  "a name 10,000 deep": wrap(`${'{"a":'.repeat(10_000)}1${"}".repeat(10_000)}`),
  "a number of 60,000 digits": `{"name":"a","categoryId":${"9".repeat(60_000)}}`,
  "a huge exponent": '{"name":"a","categoryId":1e999999}',
  "10,000 members": `{${Array.from({ length: 6_000 }, (_, i) => `"${i}":1`).join()}}`,
  "an unfinished string": `{"name":"${"a".repeat(60_000)}`,
  "60,000 escapes": wrap(`"${"\\u0041".repeat(10_000)}"`),
};
for (const [name, body] of Object.entries(BOMBS)) {
  test(`${name}: 400, in a moment, and the backend lives`, async () => {
    const before = process.cpuUsage();
    const answer = await post(body);
    assert.equal(answer.status, 400, answer.body.toString());
    // Not by the clock, by which a busy machine takes longer: all of it is in this process.
    const { user, system } = process.cpuUsage(before);
    assert.ok(user + system < 2_000_000, `${user + system} us`);
    assert.equal((await sendRequest(house.port, { key: KEY })).status, 200);
  });
}

test("over 64 KiB: 413", async () => {
  assert.equal((await post(wrap(`"${"a".repeat(66_000)}"`))).status, 413);
});

test("a member __proto__ or constructor is an unknown one: ignored, and it pollutes nothing", async () => {
  for (const name of ["__proto__", "constructor", "prototype"]) {
    const answer = await post(
      `{"name":"a","categoryId":1,"${name}":{"status":"sold","polluted":1}}`,
    );
    assert.equal(answer.status, 201);
    const pet = JSON.parse(answer.body.toString()) as Record<string, unknown>;
    assert.deepEqual(Object.keys(pet).sort(), ["categoryId", "id", "name"]);
  }
  assert.equal(({} as Record<string, unknown>).polluted, undefined);
});

test("the gateway parses no body: what is no JSON at all reaches the backend, and the law holds", async () => {
  assert.equal((await post("\0\xff not json")).status, 400);
  await house.law();
});
