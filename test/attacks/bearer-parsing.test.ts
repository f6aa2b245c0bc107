import assert from "node:assert/strict";
import { afterAll, test } from "vitest";
import { parseBearer } from "../../src/core/keys/credentials.ts";
import { checkKeyFormat, digestKey } from "../../src/core/keys/key.ts";
import { KEY } from "../support/gateway/served.ts";
import { errorOf, sendRequest } from "../support/wire/client.ts";
import { lawHolds, openAttacked } from "./attacked.ts";

const house = await openAttacked();
afterAll(() => house[Symbol.asyncDispose]());

const GOOD = [`Bearer ${KEY}`, `bearer ${KEY}`, `BEARER ${KEY}`, `BeArEr    ${KEY}`];
for (const value of GOOD) {
  test(`${value.slice(0, 12)}… is a key`, async () => {
    const fields = [["Authorization", value]] as const;
    assert.equal((await sendRequest(house.port, { fields })).status, 200);
  });
}

/** Each with its answer: no credentials of ours at all, or wrong ones. */
const BAD: readonly (readonly [value: string, code: string])[] = [
  ["", "key_missing"],
  ["Basic YTpi", "key_invalid"],
  [KEY, "key_invalid"],
  [`Bearer${KEY}`, "key_invalid"],
  [`Bearer\t${KEY}`, "key_invalid"],
  [`Token ${KEY}`, "key_invalid"],
  ["Bearer", "key_invalid"],
  [`Bearer ${KEY} `.trimEnd().concat(" x"), "key_invalid"],
  [`Bearer ${KEY},`, "key_invalid"],
  [`Bearer ${KEY}, Bearer ${KEY}`, "key_invalid"],
  [`Bearer "${KEY}"`, "key_invalid"],
  [`Bearer ${KEY}=`, "key_invalid"],
  [`Bearer =${KEY}`, "key_invalid"],
  [`Bearer ${KEY}\xa0`, "key_invalid"],
  [`Bearer ${KEY.slice(0, -1)}\xe9`, "key_invalid"],
  [`Bearer ${KEY.toUpperCase()}`, "key_invalid"],
  [`Bearer ${KEY.toLowerCase()}`, "key_invalid"],
  [`Bearer ${"a".repeat(15)}`, "key_invalid"],
  [`Bearer ${"a".repeat(16)}`, "key_invalid"],
  [`Bearer ${"a".repeat(512)}`, "key_invalid"],
  [`Bearer ${"a".repeat(513)}`, "key_invalid"],
  [`Bearer ${"a".repeat(8_192)}`, "key_invalid"],
  [`Bearer ${KEY.replace("live", "test")}`, "key_invalid"],
  [`Bearer ${KEY.replace("pets", "cats")}`, "key_invalid"],
];
for (const [value, code] of BAD) {
  test(`${JSON.stringify(value.slice(0, 70))} of ${value.length} characters is 401 ${code}`, async () => {
    const fields = [["Authorization", value]] as const;
    const answer = await sendRequest(house.port, { fields });
    assert.deepEqual([answer.status, errorOf(answer).code], [401, code]);
  });
}

test("two Authorization fields are 400, the same or not, and neither is looked at", async () => {
  for (const second of [`Bearer ${KEY}`, "Basic YTpi", ""]) {
    const fields = [["authorization", second]] as const;
    assert.equal((await sendRequest(house.port, { key: KEY, fields })).status, 400);
  }
});

test("nothing longer than 512 is ever a token: there is nothing to hash or to look up", () => {
  for (const length of [513, 8_192, 15_000]) {
    assert.ok(!parseBearer(`Bearer ${"a".repeat(length)}`).ok);
  }
  const longest = parseBearer(`Bearer ${"a".repeat(512)}`);
  assert.ok(
    longest.ok && !checkKeyFormat(longest.value, "pets", "live").ok,
    "not even this is hashed",
  );
});

test("the worst of 15 KiB is judged in under a millisecond", () => {
  const worst = ["=", " ", "a", "a=", "Bearer "].map(
    (unit) => `Bearer ${unit.repeat(15_000 / unit.length)}x`,
  );
  for (const value of worst) {
    const runs = Array.from({ length: 50 }, () => {
      const startMs = performance.now();
      parseBearer(value);
      return performance.now() - startMs;
    });
    assert.ok(Math.min(...runs) < 1, `${Math.min(...runs)} ms for ${value.slice(0, 20)}`);
  }
});

test("a key is found by its digest alone, and a near miss has nothing in common with it", () => {
  const near = `${KEY.slice(0, -1)}x`;
  const [one, other] = [digestKey(KEY), digestKey(near)];
  const same = [...one].filter((digit, i) => digit === other[i]).length;
  assert.ok(same < 20, `${same} of 64 digits`);
  assert.match(one, /^[0-9a-f]{64}$/);
});

test("the law holds after all of it", () => lawHolds(house));
