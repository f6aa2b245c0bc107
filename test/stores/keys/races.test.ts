import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, it } from "vitest";
import { suspendAccount, updateAccounts } from "../../../src/core/keys/edit-accounts.ts";
import { issueKeys, rotateKey } from "../../../src/core/keys/edit-keys.ts";
import { openFileKeyStore } from "../../../src/stores/keys/file/file-key-store.ts";
import { applyKeyEdit, type KeyStore } from "../../../src/stores/keys/key-store.ts";
import { openRedisKeyStore } from "../../../src/stores/keys/redis/redis-key-store.ts";
import { ring } from "../../core/keys/ring.ts";
import { startRedis, type TestRedis } from "../../support/redis/redis.ts";

let directory: string;
let redis: TestRedis;
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "tollgate-races-"));
  redis = await startRedis();
});
afterAll(async () => {
  await redis.close();
  await rm(directory, { recursive: true, force: true });
});

const places: readonly (readonly [string, () => Promise<KeyStore>])[] = [
  ["a file", () => openFileKeyStore({ path: join(directory, "keys.json"), report, watch: false })],
  [
    "Redis",
    () => openRedisKeyStore({ address: redis.address, prefix: "tg", report, watch: false }),
  ],
];
function report(): void {}

describe("An account that is changed, suspended and given keys at once by several writers", () => {
  for (const [name, open] of places) {
    it(`loses nothing of that in ${name}`, async () => {
      const stores = await Promise.all([open(), open(), open(), open()]);
      const [one, two, three, four] = stores as [KeyStore, KeyStore, KeyStore, KeyStore];
      const dice = ring();
      const free = { environment: "production", plan: "free", account: "acme" };
      const made = await applyKeyEdit(one, (records) => issueKeys(records, free, dice));
      assert.ok(made.ok);
      let id = made.issued[0]?.record.id ?? "";
      const rotate = async () => {
        for (let i = 0; i < 10; i++) {
          const options = { ...dice, graceMs: 1_000 };
          const edited = await applyKeyEdit(one, (records) => rotateKey(records, id, options));
          assert.ok(edited.ok);
          id = edited.issued.record.id;
        }
      };
      const set = async (store: KeyStore, meta: string) => {
        for (let i = 0; i < 8; i++) {
          const change = { meta: { [`${meta}-${i}`]: String(i) } };
          const edited = await applyKeyEdit(store, (all) =>
            updateAccounts(all, ["acme"], change, dice),
          );
          assert.ok(edited.ok);
        }
      };
      const suspend = () =>
        applyKeyEdit(four, (all) => suspendAccount(all, "acme", { reason: "unpaid" }, dice.nowMs));
      await Promise.all([rotate(), set(two, "a"), set(three, "b"), suspend()]);
      const fresh = await open();
      const account = fresh.account("acme");
      assert.equal(fresh.records().keys.length, 11);
      assert.equal(Object.keys(account?.meta ?? {}).length, 16);
      assert.equal(account?.suspended?.reason, "unpaid");
      for (const store of [...stores, fresh]) await store.close();
    });
  }
});
