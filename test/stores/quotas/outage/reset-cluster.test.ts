import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, it } from "vitest";
import type { AccountRef } from "../../../../src/stores/quotas/account-ref.ts";
import type { ResetWindow } from "../../../../src/stores/quotas/admin-changes.ts";
import { accountKey } from "../../../../src/stores/quotas/redis/account-key.ts";
import { eventually } from "../../../support/poll.ts";
import { startCluster, type TestCluster } from "../../../support/redis/redis-engines.ts";
import { account, perDay } from "../redis/redis-kit.ts";
import { type FallbackHouse, openFallback } from "./fallback-kit.ts";

const LIMIT = 300;
const quotaRequest = perDay(LIMIT, undefined);

describe("an account that is reset on a Cluster", () => {
  let cluster: TestCluster;
  beforeAll(async () => {
    cluster = await startCluster(3);
  });
  afterAll(() => cluster.close());

  const gateway = (storeTimeoutMs: number) => openFallback(cluster, { policy: { storeTimeoutMs } });

  async function counted(accountRef: AccountRef): Promise<number> {
    for (const redis of cluster.clients) {
      const text = await redis.hget(accountKey("tg", accountRef), "d").catch(() => null);
      if (text !== null) return Number(text.split(" ")[1]);
    }
    return 0;
  }

  async function burst({ store }: FallbackHouse, accountRef: AccountRef, requests: number) {
    const answers = await Promise.all(
      Array.from({ length: requests }, async () => store.charge(accountRef, quotaRequest)),
    );
    return answers.filter((answer) => "admitted" in answer && answer.admitted).length;
  }

  /** Asks for a while, a few at once. */
  async function flow(house: FallbackHouse, accountRef: AccountRef, isOver: () => boolean) {
    let admitted = 0;
    while (!isOver()) {
      admitted += await burst(house, accountRef, 10);
      await sleep(2);
    }
    return admitted;
  }

  const unitsOf = (reset: readonly ResetWindow[]) =>
    reset.reduce((sum, { units }) => sum + units, 0);

  it("is admitted its limit once more at every gateway, which forget what they knew", async () => {
    const accountRef = account("emptied");
    // The deadline is not what this is about: a busy machine may stall for longer than 50 ms.
    await using one = await gateway(5_000);
    await using other = await gateway(5_000);
    for (let round = 0; round < 3; round++) {
      let admitted = await burst(other, accountRef, LIMIT);
      admitted += await burst(one, accountRef, LIMIT);
      assert.deepEqual([admitted, await counted(accountRef)], [LIMIT, LIMIT]);
      assert.equal(await burst(other, accountRef, 5), 0, "spent, as both of them know");
      assert.equal(unitsOf(await one.store.reset(accountRef)), LIMIT);
      // One unit shows that the other gateway has forgotten; the next round begins at 0 again.
      await eventually(async () => (await burst(other, accountRef, 1)) === 1);
      assert.equal(unitsOf(await other.store.reset(accountRef)), 1);
    }
  });

  it("while both gateways admit never exceeds its limit and what was reset", async () => {
    const accountRef = account("under-load");
    await using one = await gateway(5_000);
    await using other = await gateway(5_000);
    let isOver = false;
    const flows = [one, other].map((house) => flow(house, accountRef, () => isOver));
    let taken = 0;
    for (let round = 0; round < 5; round++) {
      await eventually(async () => (await counted(accountRef)) > 0);
      await sleep(60);
      taken += unitsOf(await (round % 2 === 0 ? one : other).store.reset(accountRef));
    }
    await sleep(60);
    isOver = true;
    const admitted = (await Promise.all(flows)).reduce((sum, each) => sum + each, 0);
    assert.equal(admitted, taken + (await counted(accountRef)), "charged is counted, or was reset");
    assert.ok(taken > 0 && (await counted(accountRef)) <= LIMIT);
  });

  it("around stalls of all its servers is charged for all that was admitted, and admitted no more", async () => {
    const accountRef = account("stalled");
    await using house = await gateway(50);
    let isOver = false;
    const flowing = flow(house, accountRef, () => isOver);
    let taken = 0;
    for (let round = 0; round < 3; round++) {
      await sleep(40);
      for (const node of cluster.nodes) node.stop();
      const resetting = house.store.reset(accountRef).catch(() => []);
      await sleep(300);
      for (const node of cluster.nodes) node.cont();
      taken += unitsOf(await resetting);
      await eventually(() => house.gate.health().ok, { withinMs: 60_000 });
    }
    isOver = true;
    const admitted = await flowing;
    const uncertain = () => house.store.charges().uncertainUnits ?? 0;
    await eventually(async () => {
      const charged = taken + (await counted(accountRef));
      assert.ok(
        charged >= admitted && charged <= admitted + uncertain(),
        `${charged}, ${admitted}`,
      );
    });
    assert.ok(admitted <= LIMIT + taken, `${admitted} admitted, ${taken} reset`);
  });
});
