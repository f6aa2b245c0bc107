import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, it } from "vitest";
import { type Holds, meterPart } from "../../../../src/core/quota/meters.ts";
import { isMeter } from "../../../../src/core/quota/windows.ts";
import { type AccountRef, bucketOf } from "../../../../src/stores/quotas/account-ref.ts";
import type { MissingPart, QuotaStore } from "../../../../src/stores/quotas/quota-store.ts";
import { accountKey } from "../../../../src/stores/quotas/redis/account-key.ts";
import type { QuotaClient } from "../../../../src/stores/quotas/redis/quota-client.ts";
import { BUCKET_COUNT, crc16 } from "../../../../src/stores/redis/hash-slots.ts";
import { StoreFailure } from "../../../../src/stores/redis/store-failure.ts";
import { each } from "../../../support/each.ts";
import { startTestGateway } from "../../../support/gateway/house.ts";
import { eventually } from "../../../support/poll.ts";
import { startCluster, type TestCluster } from "../../../support/redis/redis-engines.ts";
import { account, open, perDay, spend } from "../redis/redis-kit.ts";
import { openFallback } from "./fallback-kit.ts";

const LIMIT = 1_000;
const PARTIAL = ["--cluster-require-full-coverage", "no"];
const quotaRequest = perDay(LIMIT, undefined);

/** An account in each bucket. */
const accountRefs = Array.from({ length: BUCKET_COUNT }, (_, bucket) => {
  for (let i = 0; ; i++) if (bucketOf(account(`part${i}`)) === bucket) return account(`part${i}`);
});

/** Asks once for each account. */
function round(store: QuotaStore, accounts: readonly AccountRef[]) {
  return Promise.all(accounts.map((accountRef) => spend(store, accountRef, quotaRequest)));
}

describe("a Cluster of which a master is away", () => {
  let cluster: TestCluster;
  beforeAll(async () => {
    cluster = await startCluster(3, PARTIAL);
  });
  afterAll(() => cluster.close());

  const GONE = 1;
  const isGone = (bucket: number) => cluster.ownerOf(crc16(String(bucket)) % 16_384) === GONE;
  const ofGone = () => accountRefs.filter((_, bucket) => isGone(bucket));
  const ofOthers = () => accountRefs.filter((_, bucket) => !isGone(bucket));

  async function counted(accountRef: AccountRef): Promise<number> {
    for (const redis of cluster.clients) {
      const text = await redis.hget(accountKey("tg", accountRef), "d").catch(() => null);
      if (text !== null) return Number(text.split(" ")[1]);
    }
    return 0;
  }

  it("or lacks the right to HDEL, is away in that part alone until the right is there, and does not come and go", async () => {
    // Without debts, whose charge would need the right as well.
    const policy = { storeTimeoutMs: 5_000, onStoreFailure: "deny" } as const;
    await using house = await openFallback(cluster, { policy });
    const away = () => [...accountRefs.keys()].filter((bucket) => house.gate.isAway(bucket));
    const permit = (right: string) =>
      cluster.clients[GONE]?.call("ACL", "SETUSER", "default", right);
    assert.deepEqual([away(), isGone(0)], [[], false]);
    await permit("-hdel");
    try {
      const gone = [...accountRefs.keys()].filter(isGone);
      await eventually(async () => {
        await Promise.all(ofGone().map((one) => house.store.charge(one, quotaRequest)));
        assert.deepEqual(away(), gone);
      });
      // Long enough for the probes of each part that is away.
      await sleep(1_500);
      assert.deepEqual([away(), house.changes().includes("store_back")], [gone, false]);
    } finally {
      await permit("+hdel");
    }
    await eventually(() => assert.deepEqual(away(), []));
  });

  it("tells as lost at the end the settlements of every part that no call has taken along, once", async () => {
    await using house = await openFallback(cluster, { policy: { storeTimeoutMs: 5_000 } });
    const { store, told } = house;
    const part = meterPart("tokens");
    const limits = [{ window: "year", limit: 100, part, hold: 4 }] as const;
    const meter = { name: "tokens", hold: 4, max: 20, untold: 4, used: [] };
    const held = await Promise.all(
      accountRefs.map(async (accountRef): Promise<[AccountRef, Holds]> => {
        const request = { limits, bans: undefined, requests: 1 };
        const { decision } = await spend(store, accountRef, request);
        const { windows, nowMs: decidedMs } = decision;
        const id = accountRef.account;
        return [
          accountRef,
          { id, plan: "pro", meters: [meter], windows: windows.filter(isMeter), decidedMs },
        ];
      }),
    );
    for (const [accountRef, holds] of held) {
      store.settle(accountRef, holds, [{ name: "tokens", units: 9 }]);
    }
    for (const _ of [1, 2]) store.dropOwed();
    assert.deepEqual(
      told.map(({ message, details }) => [message, details?.id, details?.units]),
      accountRefs.map(({ account: id }) => ["settlement_lost", id, 5]),
    );
  });

  it("decides its accounts here at once, the others in the store and exactly, and says which", async () => {
    // The deadline of 50 ms is not what this is about: a busy machine may stall for longer.
    await using house = await openFallback(cluster, { policy: { storeTimeoutMs: 5_000 } });
    const { store, gate, told } = house;
    await round(store, accountRefs);
    await cluster.nodes[GONE]?.kill();
    const gone = [...accountRefs.keys()].filter(isGone);
    const open = [...accountRefs.keys()].filter((bucket) => !isGone(bucket));
    assert.ok(gone.length > 1 && open.length > 1);

    const [first] = ofGone() as [AccountRef];
    await eventually(async () => {
      await spend(store, first, quotaRequest);
      return gone.every((bucket) => gate.isAway(bucket));
    });
    assert.ok(each(open).every((bucket) => !gate.isAway(bucket)));
    let counts = 1;
    for (; counts <= 40; counts++) {
      for (const accountRef of ofGone()) {
        const answer = store.charge(accountRef, quotaRequest);
        assert.ok(!(answer instanceof Promise), "nobody waits for a part that is away");
        assert.ok("by" in answer && answer.by === "local" && answer.admitted);
      }
      const others = await round(store, ofOthers());
      assert.ok(each(others).every(({ by, admitted }) => by === "store" && admitted));
      assert.ok(each(others).every(({ decision }) => decision.windows[0]?.used === counts + 1));
    }
    await eventually(() => {
      const away = told.filter(({ message }) => message === "store_away");
      assert.deepEqual(
        away.map(({ details }) => [details?.buckets, details?.code]),
        [[gone.join(), "unreachable"]],
      );
    });
    const { ok, why } = store.health();
    assert.ok(
      !ok && `${why}`.startsWith(`buckets ${gone.join(", ")} of 16 are away: Redis`),
      `${why}`,
    );

    await cluster.nodes[GONE]?.restart();
    await eventually(() => store.health().ok, { withinMs: 60_000 });
    assert.ok(each(await round(store, accountRefs)).every(({ by }) => by === "store"));
    // It came back empty: what is there was charged late, and then once by the store.
    for (const accountRef of ofGone().slice(1)) {
      await eventually(async () => assert.equal(await counted(accountRef), 41));
    }
    for (const accountRef of ofOthers()) assert.equal(await counted(accountRef), counts + 1);
    const back = told.filter(({ message }) => message === "store_back");
    const returned = back.flatMap(({ details }) => String(details?.buckets).split(","));
    assert.deepEqual(
      returned.map(Number).toSorted((a, b) => a - b),
      gone,
    );
  });

  it("is told to be away before it is told to be back, even while others are still probed", async () => {
    await using house = await openFallback(cluster, { policy: { storeTimeoutMs: 1_000 } });
    await round(house.store, accountRefs);
    const [blip = assert.fail()] = [...accountRefs.keys()].filter((bucket) => !isGone(bucket));
    cluster.nodes[GONE]?.stop();
    const failure = new StoreFailure("late", "no answer", "unknown");
    for (let i = 0; i < 5; i++) house.gate.onCallEnd(blip, failure);
    assert.ok(house.gate.isAway(blip));
    const told = () => {
      return house.told
        .filter(({ details }) => String(details?.buckets).split(",").includes(`${blip}`))
        .map(({ message }) => message);
    };
    await eventually(() => assert.equal(told().length, 2));
    cluster.nodes[GONE]?.cont();
    assert.deepEqual(told(), ["store_away", "store_back"]);
    await eventually(() => house.store.health().ok, { withinMs: 60_000 });
  });

  it("is told to be back before it is told to be away again, even while debts of others are charged", async () => {
    const held = Promise.withResolvers<void>();
    let charges = 0;
    await using house = await openFallback(cluster, {
      policy: { storeTimeoutMs: 5_000 },
      through: (quotaClient) => {
        const runOnAccounts: QuotaClient["runOnAccounts"] = async (...call) => {
          charges += 1;
          await held.promise;
          return quotaClient.runOnAccounts(...call);
        };
        return { ...quotaClient, runOnAccounts };
      },
    });
    await round(house.store, accountRefs);
    const [blip = assert.fail(), owing = assert.fail()] = [...accountRefs.keys()];
    const trip = (bucket: number) => {
      const failure = new StoreFailure("late", "no answer", "unknown");
      for (let i = 0; i < 5; i++) house.gate.onCallEnd(bucket, failure);
      assert.ok(house.gate.isAway(bucket));
    };
    trip(owing);
    trip(blip);
    await spend(house.store, accountRefs[owing] as AccountRef, quotaRequest);
    await eventually(() => assert.deepEqual([charges, house.gate.isAway(blip)], [1, false]), {
      everyMs: 5,
    });
    trip(blip);
    held.resolve();
    await eventually(() => house.gate.health().ok);
    const told = () => {
      return house.told
        .filter(({ details }) => String(details?.buckets).split(",").includes(`${blip}`))
        .map(({ message }) => message);
    };
    const expected = ["store_away", "store_back", "store_away", "store_back"];
    await eventually(() => assert.deepEqual(told(), expected), { withinMs: 10_000 });
  });

  it("leaves the gateway not ready, and says which part is away, without any request, and serving every account", async () => {
    const gone = [...accountRefs.keys()].filter(isGone);
    await using house = await startTestGateway({ config: { store: cluster.address.url } });
    const [lost] = ofGone() as [AccountRef];
    const [kept] = ofOthers() as [AccountRef];
    const { key } = await house.issue({ account: lost.account });
    const { key: other } = await house.issue({ account: kept.account });
    await eventually(async () => assert.equal((await house.admin("/readyz")).status, 200));
    await cluster.nodes[GONE]?.kill();
    await eventually(() => {
      const away = house.said.filter(({ kind }) => kind === "store_away");
      assert.deepEqual(
        away.map(({ buckets, mode }) => [buckets, mode]),
        [[gone.join(), "local"]],
      );
    });
    const response = await house.admin("/readyz");
    assert.equal(response.status, 503);
    const { checks } = (await response.json()) as { checks: { store: { why: string } } };
    const named = `buckets ${gone.join(", ")} of 16 are away: Redis`;
    assert.ok(checks.store.why.startsWith(named), checks.store.why);
    for (const each of [key, other]) assert.equal((await house.ask(each)).status, 200);
  });

  it("when the gateway starts, is away in its part alone, shared with the gateways that are seen, and no bans are listed meanwhile", async () => {
    const gone = [...accountRefs.keys()].filter(isGone);
    assert.ok(!gone.includes(0));
    await using other = await openFallback(cluster, { policy: { storeTimeoutMs: 5_000 } });
    await eventually(() => assert.ok(gone.every((bucket) => other.gate.isAway(bucket))));
    await using house = await openFallback(cluster, { policy: { storeTimeoutMs: 5_000 } });
    await eventually(() => assert.ok(gone.every((bucket) => house.gate.isAway(bucket))));
    for (const [bucket, accountRef] of accountRefs.entries()) {
      const { by, decision } = await spend(house.store, accountRef, quotaRequest);
      const isAway = gone.includes(bucket);
      assert.deepEqual(
        [by, decision.windows[0]?.limit],
        isAway ? ["local", LIMIT / 2] : ["store", LIMIT],
        `bucket ${bucket}`,
      );
    }
    await assert.rejects(house.store.bans(), /Redis cannot be reached/);
  });

  it("or all of it, when the gateways start, is shared once they are seen, found when it comes, and heard of", async () => {
    await Promise.all(cluster.nodes.map((node) => node.kill()));
    const newcomer = account("newcomer");
    const [lost] = ofGone() as [AccountRef];
    await using other = await openFallback(cluster, { policy: { storeTimeoutMs: 5_000 } });
    await using house = await openFallback(cluster, { policy: { storeTimeoutMs: 5_000 } });
    const shareAt = async ({ store }: typeof house) => {
      return (await spend(store, lost, quotaRequest)).decision.windows[0]?.limit;
    };
    assert.equal((await spend(house.store, newcomer, quotaRequest)).by, "local");
    await assert.rejects(house.store.bans(), /Redis cannot be reached: ECONNREFUSED/);
    await eventually(() => assert.deepEqual(house.changes(), ["store_away"]));
    assert.match(`${house.store.health().why}`, /^buckets 0, 1, 2, .* 15 of 16 are away: /);

    assert.deepEqual([await shareAt(other), await shareAt(house)], [LIMIT, LIMIT]);
    await Promise.all(cluster.nodes.map((node, i) => i !== GONE && node.restart()));
    for (const gateway of [other, house]) {
      const share = Math.ceil((LIMIT - 1) / 2);
      await eventually(async () => assert.ok(Number(await shareAt(gateway)) <= share), {
        withinMs: 60_000,
      });
    }
    await cluster.nodes[GONE]?.restart();
    await eventually(() => assert.ok(house.store.health().ok), { withinMs: 60_000 });
    const { decision } = await eventually(async () => {
      const answer = await spend(house.store, newcomer, quotaRequest);
      assert.equal(answer.by, "store", "no share of the other gateway is owed any more");
      return answer;
    });
    assert.equal(decision.windows[0]?.used, 2, "what was admitted here was charged");
    const listening = await eventually(
      async () => {
        const counts = await Promise.all(
          cluster.nodes.map(
            async (node) => (await (await node.client()).pubsub("NUMSUB", "tg:events"))[1],
          ),
        );
        return counts.reduce((sum, count) => Number(sum) + Number(count), 0) === 2;
      },
      { withinMs: 60_000, everyMs: 100 },
    );
    assert.ok(listening);
  });
});

describe("a Cluster whose nodes do not say at which host they are", () => {
  it("is reached at the host that was asked, also where a slot has moved to", async (t) => {
    const cluster = await startCluster(2, [
      "--cluster-preferred-endpoint-type",
      "unknown-endpoint",
    ]);
    t.onTestFinished(() => cluster.close());
    const { store, failures } = await open(cluster.address);
    t.onTestFinished(() => store.close());
    const bucket = 3;
    const slot = crc16(String(bucket)) % 16_384;
    const accountRef = accountRefs[bucket] as AccountRef;
    await spend(store, accountRef, quotaRequest);
    const to = 1 - cluster.ownerOf(slot);
    await cluster.move(slot, to, async () => {
      assert.ok((await spend(store, accountRef, quotaRequest)).admitted);
    });
    const { decision } = await spend(store, accountRef, quotaRequest);
    assert.deepEqual(failures, []);
    const stored = await cluster.clients[to]?.hget(accountKey("tg", accountRef), "d");
    assert.equal(Number(stored?.split(" ")[1]), decision.windows[0]?.used);
  });
});

describe("a Cluster without the master by which gateways are told of changes", () => {
  it("does bans that are imposed and lifted, and names the bucket that could not be told", async ({
    onTestFinished,
  }) => {
    const cluster = await startCluster(3, PARTIAL);
    onTestFinished(() => cluster.close());
    const { store } = await open(cluster.address);
    try {
      const owner = (bucket: number) => cluster.ownerOf(crc16(String(bucket)) % 16_384);
      const other = accountRefs.find((_, bucket) => owner(bucket) !== owner(0)) as AccountRef;
      await spend(store, other, quotaRequest);
      await cluster.nodes[owner(0)]?.kill();
      const missing: MissingPart[] = [];
      const onMissing = (part: MissingPart) => missing.push(part);
      const length = { lengthMs: 60_000, window: "day", keptMs: 0 } as const;
      const banned = await store.ban(other, { ...length, plan: "free", reason: "" }, onMissing);
      assert.equal(banned.lengthMs, 60_000);
      assert.equal(await store.liftBan(other, onMissing), true);
      assert.equal(await store.liftBan(other, onMissing), false, "it is lifted");
      assert.deepEqual(
        missing.map(({ buckets }) => buckets.includes(0)),
        [true, true, true],
      );
      await assert.rejects(store.liftBan(other), "there is nowhere to say it");
    } finally {
      await store.close();
    }
  });
});
