import assert from "node:assert/strict";
import { setTimeout as delay } from "node:timers/promises";
import { it } from "vitest";
import { digestKey, makeKey } from "../../../src/core/keys/key.ts";
import type { KeyRecord } from "../../../src/core/keys/records.ts";
import { WrongEnvironmentKeys } from "../../../src/gateway/client/wrong-environment-keys.ts";
import { eventually } from "../../support/poll.ts";

const DAY_MS = 86_400_000;
const PRODUCTION = { name: "production", keyPrefix: "pets", foreignKeys: [] };

function house() {
  let next = 0;
  const records = new Map<string, KeyRecord>();
  const found: string[] = [];
  const times = { nowMs: 10 * DAY_MS, looks: 0 };
  const wrongEnvironmentKeys = new WrongEnvironmentKeys({
    keys: {
      find: (digest) => {
        times.looks += 1;
        return records.get(digest);
      },
    },
    now: () => times.nowMs,
    onFound: ({ id }, usedIn, day) => found.push(`${id} ${usedIn} ${day}`),
  });
  /** A key with its record. */
  const issue = (id: string, more: Partial<KeyRecord> = {}, tag = "test") => {
    const token = makeKey("pets", tag, (max) => next++ % max);
    const digest = digestKey(token);
    const own = { id, digest, name: "", environment: "staging", account: "a", createdMs: 1 };
    records.set(digest, { ...own, scopes: [], from: [], ...more });
    return token;
  };
  return { wrongEnvironmentKeys, found, times, issue };
}

it("a working key of another environment is found once a day, and no other key is", async () => {
  const { wrongEnvironmentKeys, found, times, issue } = house();
  const key = issue("k1");
  wrongEnvironmentKeys.note(issue("revoked", { revokedMs: 5 }), PRODUCTION);
  wrongEnvironmentKeys.note(issue("expired", { expiresMs: 10 * DAY_MS }), PRODUCTION);
  wrongEnvironmentKeys.note(issue("at home", { environment: "production" }), PRODUCTION);
  wrongEnvironmentKeys.note("pets_test_unknown", PRODUCTION);
  wrongEnvironmentKeys.note("nothing at all", PRODUCTION);
  wrongEnvironmentKeys.note(key, PRODUCTION);
  wrongEnvironmentKeys.note(key, PRODUCTION);
  await eventually(() => assert.deepEqual(found, ["k1 production 10"]));
  times.nowMs += DAY_MS;
  wrongEnvironmentKeys.note(key, PRODUCTION);
  await eventually(() => assert.deepEqual(found, ["k1 production 10", "k1 production 11"]));
});

it("a foreign key is found by the shapes of the environment that refused it", async () => {
  const { wrongEnvironmentKeys, found, issue } = house();
  issue("ours");
  const foreignKeys = [{ prefix: "pets", min: 5 }];
  const key = issue("k2");
  wrongEnvironmentKeys.note(`${key}x`, { ...PRODUCTION, foreignKeys });
  wrongEnvironmentKeys.note(key, { ...PRODUCTION, keyPrefix: "other", foreignKeys });
  await eventually(() => assert.deepEqual(found, ["k2 production 10"]));
});

it("whoever sends many tokens has a hundred of them looked at in a tenth of a second", async () => {
  const { wrongEnvironmentKeys, times, issue } = house();
  const key = issue("k3");
  for (let i = 0; i < 5_000; i++) wrongEnvironmentKeys.note(key, PRODUCTION);
  await eventually(() => assert.equal(times.looks, 100));
  await delay(250);
  assert.equal(times.looks, 100, "those that came on top are not looked at later");
});
