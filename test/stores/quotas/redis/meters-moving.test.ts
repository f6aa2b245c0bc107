import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { afterAll, beforeAll, describe, it } from "vitest";
import type { QuotaRequest } from "../../../../src/core/quota/decide.ts";
import { meterPart } from "../../../../src/core/quota/meters.ts";
import type { Limit } from "../../../../src/core/quota/windows.ts";
import { type AccountRef, bucketOf } from "../../../../src/stores/quotas/account-ref.ts";
import type { QuotaStore } from "../../../../src/stores/quotas/quota-store.ts";
import { accountKey } from "../../../../src/stores/quotas/redis/account-key.ts";
import { bucketSlot } from "../../../../src/stores/redis/hash-slots.ts";
import { each } from "../../../support/each.ts";
import { startRedis } from "../../../support/redis/redis.ts";
import { startCluster, type TestCluster } from "../../../support/redis/redis-engines.ts";
import { account, open, spend } from "./redis-kit.ts";

const LIMIT = 20;
const PLAN: Limit = { window: "day", limit: 1_000 };
const APART = {
  meter: { window: "year", limit: LIMIT, part: meterPart("tokens"), hold: 1 },
  cap: { window: "year", limit: LIMIT, part: { id: "@1", name: "key" } },
} satisfies Record<string, Limit>;

/** Twelve accounts whose keys are in one slot. */
function namesIn(bucket: number, tag: string) {
  const accountRefs = Array.from({ length: 1_000 }, (_, i) => account(`${tag}${i}`));
  return accountRefs.filter((accountRef) => bucketOf(accountRef) === bucket).slice(0, 12);
}

describe("while a slot moves, an account whose hashes are on both nodes", () => {
  let cluster: TestCluster;
  beforeAll(async () => {
    cluster = await startCluster(3);
  });
  afterAll(() => cluster.close());

  const sourceOf = (slot: number) => cluster.clients[cluster.ownerOf(slot)];
  const targetOf = (slot: number) => (cluster.ownerOf(slot) + 1) % 3;

  /** A slot gives its newest key first: in half of the accounts that is the account's own. */
  async function mixAges(slot: number, accountRefs: readonly AccountRef[]): Promise<void> {
    for (const [i, accountRef] of accountRefs.entries()) {
      const key = accountKey("tg", accountRef);
      if (i % 2 === 0) continue;
      await sourceOf(slot)?.rename(key, `${key}!`);
      await sourceOf(slot)?.rename(`${key}!`, key);
    }
  }

  const seen = async (store: QuotaStore, accountRef: AccountRef, quotaRequest: QuotaRequest) => {
    return (await store.peek(accountRef, quotaRequest)).windows.map(({ used }) => used);
  };

  for (const [i, [how, apart]] of each(Object.entries(APART)).entries()) {
    it(`is charged nothing by a refused call, and its ${how} never counts from 0 again`, async () => {
      const { store, failures } = await open(cluster.address);
      const bucket = 3 + i;
      const slot = bucketSlot(bucket);
      const accountRefs = namesIn(bucket, how);
      assert.equal(accountRefs.length, 12);
      const quotaRequest: QuotaRequest = { limits: [apart, PLAN], bans: undefined, requests: 1 };
      const admitted = accountRefs.map(() => 0);
      const charge = async (at: number) => {
        const answer = await store.charge(accountRefs[at] as AccountRef, quotaRequest);
        if ("decision" in answer && answer.admitted) admitted[at] = (admitted[at] ?? 0) + 1;
        return "decision" in answer;
      };
      const chargeAll = () => Promise.all(accountRefs.map((_, at) => charge(at)));
      await chargeAll();
      await mixAges(slot, accountRefs);
      let answered = 0;
      let unanswered = 0;
      await cluster.move(slot, targetOf(slot), async () => {
        for (const isAnswer of await chargeAll()) isAnswer ? answered++ : unanswered++;
      });
      assert.ok(answered > 50 && unanswered > 10, `${answered} answered, ${unanswered} not`);
      for (const { code, executed } of each(failures)) {
        assert.deepEqual([code, executed], ["TRYAGAIN", "no"]);
      }
      for (const [at, accountRef] of accountRefs.entries()) {
        const count = admitted[at] ?? 0;
        assert.deepEqual(
          await seen(store, accountRef, quotaRequest),
          [count, count],
          accountRef.account,
        );
        for (let k = count; k < LIMIT; k++) await charge(at);
        const refused = await spend(store, accountRef, quotaRequest);
        assert.deepEqual([refused.admitted, admitted[at]], [false, LIMIT]);
      }
      await store.close();
    });
  }

  it("is not reset by half: a reset is refused, and nothing of it is done", async () => {
    const { store } = await open(cluster.address);
    const slot = bucketSlot(6);
    const [accountRef] = namesIn(6, "reset") as [AccountRef];
    const quotaRequest: QuotaRequest = {
      limits: [APART.meter, PLAN],
      bans: undefined,
      requests: 1,
    };
    await spend(store, accountRef, quotaRequest);
    const target = String(await cluster.clients[targetOf(slot)]?.call("CLUSTER", "MYID"));
    await sourceOf(slot)?.call("CLUSTER", "SETSLOT", slot, "MIGRATING", target);
    await assert.rejects(store.reset(accountRef), /in motion between two nodes/);
    await sourceOf(slot)?.call("CLUSTER", "SETSLOT", slot, "STABLE");
    assert.deepEqual(await seen(store, accountRef, quotaRequest), [1, 1]);
    await store.reset(accountRef);
    assert.deepEqual(await seen(store, accountRef, quotaRequest), [0, 0]);
    await store.close();
  });
});

it("a store that refuses to write is told as that, not as a slot that moves, of an account with a meter too", async (t) => {
  const server = await startRedis();
  t.onTestFinished(() => server.close());
  const { store, failures } = await open(server.address);
  t.onTestFinished(() => store.close());
  const quotaRequest: QuotaRequest = { limits: [APART.meter, PLAN], bans: undefined, requests: 1 };
  await spend(store, account("before"), quotaRequest);
  await (await server.client()).config("SET", "min-replicas-to-write", "1");
  assert.deepEqual(await store.charge(account("new"), quotaRequest), { unavailable: true });
  await assert.rejects(store.reset(account("before")), /too few replicas/);
  assert.deepEqual(
    failures.map(({ code }) => code),
    ["NOREPLICAS"],
  );
});

it("a slot that moves is known by what Redis 7.0 says of two missing keys and by what Valkey says, and by nothing else", async (t) => {
  const server = await startRedis();
  t.onTestFinished(() => server.close());
  const redis = await server.client();
  const folder = new URL("../../../../src/stores/quotas/redis/lua/", import.meta.url);
  const lua = await readFile(new URL("account.lua", folder), "utf8");
  const isMoving = /^local function is_moving[\s\S]*?^end$/m.exec(lua)?.[0];
  assert.ok(isMoving);
  const script = `local function pcall() return { err = ARGV[1] } end
${isMoving}
return is_moving('hash') and 1 or 0`;
  const undeclared = "undeclared keys were accessed during rehashing of the slot";
  for (const [said, moving] of [
    ["ERR Script attempted to access a non local key in a cluster node", 1],
    [`ERR Unable to execute command 'del' in script because ${undeclared}`, 1],
    ["READONLY You can't write against a read only replica.", 0],
    ["MISCONF Errors writing to the AOF file: No space left on device", 0],
  ] as const) {
    assert.equal(await redis.call("EVAL", script, 0, said), moving, said);
  }
});
