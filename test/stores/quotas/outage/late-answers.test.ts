import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { it } from "vitest";
import type { QuotaDecider } from "../../../../src/stores/quotas/quota-store.ts";
import { eventually } from "../../../support/poll.ts";
import { useRedis } from "../../../support/redis/redis-of-file.ts";
import { openTcpProxy } from "../../../support/wire/tcp-proxy.ts";
import { account, perDay } from "../redis/redis-kit.ts";
import { counted, openFallback } from "./fallback-kit.ts";

const { server, redis } = await useRedis();
const ask = perDay(1_000_000, undefined);

/** Ten clients, one request after the other, until they are told to stop; gives the units admitted. */
function load(store: QuotaDecider) {
  let isOver = false;
  const client = async () => {
    let admitted = 0;
    while (!isOver) {
      const answer = await store.charge(account("a"), ask);
      if ("admitted" in answer && answer.admitted) admitted += 1;
      await sleep(1);
    }
    return admitted;
  };
  const clients = Promise.all(Array.from({ length: 10 }, client));
  const stop = async () => {
    isOver = true;
    return (await clients).reduce((sum, admitted) => sum + admitted, 0);
  };
  return { stop };
}

it("answers that come later than anybody waits for them charge no unit twice", async () => {
  await using proxy = await openTcpProxy(server);
  await using house = await openFallback(proxy);
  await house.store.charge(account("a"), ask);
  const { stop } = load(house.store);
  for (let i = 0; i < 8; i++) {
    proxy.behave({ answerLatencyMs: 70 });
    await sleep(120);
    proxy.behave({});
    await sleep(100);
  }
  await eventually(() => house.gate.health().ok, { withinMs: 60_000 });
  const admitted = 1 + (await stop());
  await eventually(async () => {
    const [used] = Object.values(await counted(redis));
    assert.equal(used, admitted);
    return true;
  });
  assert.deepEqual(
    house.told.filter(({ message }) => message === "charges_uncertain"),
    [],
  );
});
