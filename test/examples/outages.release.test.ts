import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, it } from "vitest";
import { parse } from "yaml";
import { startTestUpstream } from "../support/gateway/backend.ts";
import { type SpawnedGateway, spawnGateway } from "../support/gateway/served.ts";
import { needing } from "../support/needing.ts";
import { eventually } from "../support/poll.ts";
import { freePort, startRedis } from "../support/redis/redis.ts";
import { ask, openProxy, PROXIES, type RunningProxy } from "./behind-proxy.ts";
import { readExample } from "./example-file.ts";

const PACE_MS = 25;

/** Asks at a steady pace until `work` is done; the statuses by how often each came. */
async function underLoad(
  proxy: RunningProxy,
  work: () => Promise<void>,
): Promise<Readonly<Record<string, number>>> {
  const tally: Record<string, number> = {};
  const note = (status: number | string) => {
    tally[status] = (tally[status] ?? 0) + 1;
  };
  let over = false;
  const asked: Promise<void>[] = [];
  const asking = (async () => {
    while (!over) {
      const one = ask(proxy).then(
        ({ status }) => note(status),
        (error: Error) => note(error.message),
      );
      asked.push(one);
      await sleep(PACE_MS);
    }
  })();
  try {
    await work();
  } finally {
    over = true;
    await asking;
    await Promise.all(asked);
  }
  return tally;
}

async function readinessOf(admins: readonly number[]): Promise<readonly number[]> {
  const asked = admins.map((port) => fetch(`http://127.0.0.1:${port}/readyz`));
  return (await Promise.all(asked)).map(({ status }) => status);
}

for (const proxy of PROXIES) {
  const title = `the example of ${proxy.name}, two gateways`;
  describe.concurrent(title, needing(proxy.name), () => {
    it("answers every request while Redis stands still, and through a rolling restart", async (t) => {
      const { trustedProxies, limits, expectedGateways } = parse(
        readExample(`${proxy.name}/tollgate.yaml`),
      );
      const redis = await startRedis();
      await using backend = await startTestUpstream();
      const ports = await Promise.all(Array.from({ length: 4 }, freePort));
      const [one = 0, two = 0, adminOne = 0, adminTwo = 0] = ports;
      const start = (listen: number, admin: number) => {
        return spawnGateway({
          upstreams: [backend.origin],
          environment: { listen: `127.0.0.1:${listen}` },
          limits: { drain: "5s", ...limits },
          config: {
            ...{ store: redis.url, trustedProxies, expectedGateways },
            admin: { listen: `127.0.0.1:${admin}` },
          },
        });
      };
      const gateways = [await start(one, adminOne), await start(two, adminTwo)];
      const admins = [adminOne, adminTwo] as const;
      const running = await openProxy(proxy, { gateways: [one, two], admins });
      try {
        await eventually(async () => assert.equal((await ask(running)).status, 200), {
          withinMs: 60_000,
        });
        const away = await underLoad(running, async () => {
          redis.stop();
          await eventually(async () => assert.deepEqual(await readinessOf(admins), [503, 503]));
          // Longer than any of the proxies takes to act on its checks.
          await sleep(4_000);
          redis.cont();
          await eventually(async () => assert.deepEqual(await readinessOf(admins), [200, 200]));
        });
        t.annotate(`while Redis stood still: ${JSON.stringify(away)}`);
        assert.deepEqual(Object.keys(away), ["200"]);

        const rolled = await underLoad(running, async () => {
          for (const [i, [listen, admin]] of [
            [one, adminOne],
            [two, adminTwo],
          ].entries()) {
            await (gateways[i] as SpawnedGateway).running.stop(30_000);
            gateways[i] = await start(listen as number, admin as number);
            // The proxies that check take it in again after one good check.
            await sleep(2_500);
          }
        });
        t.annotate(`through a rolling restart: ${JSON.stringify(rolled)}`);
        assert.deepEqual(Object.keys(rolled), ["200"]);
      } finally {
        await running.close();
        for (const gateway of gateways) await gateway[Symbol.asyncDispose]();
        await redis.close();
      }
    });
  });
}
