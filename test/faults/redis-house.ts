import assert from "node:assert/strict";
import { Agent, request } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { freshMetrics } from "../admin/scrape.ts";
import {
  startTestGateway,
  type TestGateway,
  type TestGatewayOptions,
} from "../support/gateway/house.ts";
import { watchStalls } from "../support/in-time.ts";
import { eventually } from "../support/poll.ts";

/**
 * A whole gateway whose store is at a port of loopback: a Redis, or a proxy in front of one. A Free
 * key has 60 a day: no minute ends in the middle of a test.
 */
export function openRedisHouse(
  { port }: { readonly port: number },
  { config, ...options }: TestGatewayOptions = {},
): Promise<TestGateway> {
  return startTestGateway({
    ...options,
    config: {
      store: `redis://127.0.0.1:${port}`,
      plans: { free: { day: 60 }, enterprise: "custom" },
      ...config,
    },
  });
}

/** One whose store goes away: it waits for it as short as the product does by default. */
export function openHouseBehind(
  proxy: { readonly port: number },
  { config, ...options }: TestGatewayOptions = {},
): Promise<TestGateway> {
  return openRedisHouse(proxy, { ...options, config: { storeTimeout: "50ms", ...config } });
}

export type Told = {
  readonly status: number;
  readonly code: string | undefined;
  readonly limit: number;
  readonly remaining: number;
  readonly reset: number;
  readonly tookMs: number;
  /** When it was asked, on performance.now(). */
  readonly atMs: number;
};

/** One request with a key, over a connection that is kept; what it was told, and how fast. */
export function askTimed(
  { url }: Pick<TestGateway, "url">,
  key: string,
  agent?: Agent,
): Promise<Told> {
  const atMs = performance.now();
  const headers = { Authorization: `Bearer ${key}` };
  return new Promise((resolve, reject) => {
    const sent = request(`${url}/v1/pets`, { headers, ...(agent && { agent }) }, (response) => {
      let text = "";
      const number = (name: string) => Number(response.headers[name] ?? Number.NaN);
      response.setEncoding("utf8").on("data", (piece: string) => {
        text += piece;
      });
      response.once("end", () => {
        const status = response.statusCode ?? 0;
        resolve({
          status,
          code: status >= 400 ? (JSON.parse(text) as { code: string }).code : undefined,
          limit: number("x-ratelimit-limit"),
          remaining: number("x-ratelimit-remaining"),
          reset: number("x-ratelimit-reset"),
          tookMs: performance.now() - atMs,
          atMs,
        });
      });
    });
    sent.once("error", reject).end();
  });
}

export type Load = { readonly told: Told[]; stop(): Promise<Told[]> };

/**
 * So many requests a second until it is stopped, and at most `atOnce` under way. What a machine is
 * too slow for is not asked later: else requests would wait for each other, before a gateway has them.
 */
export function startLoad(
  house: TestGateway,
  keys: readonly string[],
  perSecond: number,
  atOnce = 128,
): Load {
  const agent = new Agent({ keepAlive: true });
  const told: Told[] = [];
  const asked: Promise<unknown>[] = [];
  let nextMs = performance.now();
  let answered = 0;
  let failure: unknown;
  let running = true;
  const send = () => {
    const key = keys[asked.length % keys.length] as string;
    const answer = askTimed(house, key, agent).then(
      (each) => told.push(each),
      (error) => {
        failure ??= error;
      },
    );
    asked.push(answer.finally(() => ++answered));
    nextMs += 1_000 / perSecond;
  };
  const runs = (async () => {
    for (; running; await sleep(4)) {
      const nowMs = performance.now();
      while (nextMs <= nowMs && asked.length - answered < atOnce) send();
      nextMs = Math.max(nextMs, nowMs);
    }
  })();
  return {
    told,
    stop: async () => {
      running = false;
      await runs;
      await Promise.all(asked);
      agent.destroy();
      if (failure !== undefined) throw failure;
      return told;
    },
  };
}

/** The lines of the log about the store going and coming, in order. */
export function changes({ said }: Pick<TestGateway, "said">): string[] {
  return said.map(({ kind }) => String(kind)).filter((each) => /^store_(away|back)$/.test(each));
}

/**
 * The same, but for what came after the first outage by calls that were late: a busy machine may be
 * too slow for the 50 ms although the store is there. What else came then is named with its reason.
 */
export function changesButLate({ said }: Pick<TestGateway, "said">): string[] {
  const told = said.filter(({ kind }) => /^store_(away|back)$/.test(String(kind)));
  const isLate = (index: number) => index >= 2 && told[index]?.code === "late";
  const counted = told.filter((_, i) => !isLate(i) && !isLate(i - 1));
  return counted.map(({ kind, code, why }, i) => (i < 2 ? String(kind) : `${kind} ${code} ${why}`));
}

export async function isReady(house: TestGateway): Promise<{ status: number; store: string }> {
  const response = await house.admin("/readyz");
  const { checks } = (await response.json()) as { checks: { store: { why?: string } } };
  return { status: response.status, store: checks.store.why ?? "ok" };
}

export async function readyWithin(house: TestGateway, withinMs: number): Promise<void> {
  const startMs = performance.now();
  const { stalledMs } = await watchStalls(() => {
    return eventually(async () => {
      const response = await house.admin("/readyz");
      assert.equal(response.status, 200, await response.text());
    });
  });
  const tookMs = performance.now() - startMs;
  assert.ok(tookMs < withinMs + stalledMs, `ready after ${tookMs} ms, ${stalledMs} stalled`);
}

/** A metric as it is told now; NaN where it is not. */
export async function metric(house: TestGateway, name: string): Promise<number> {
  return (await freshMetrics(house.adminUrl)).get(name) ?? Number.NaN;
}

/** Units of the day that the store has counted for an account. */
export function dayUsed(house: TestGateway, account: string): Promise<number> {
  return windowUsed(house, account, "day");
}

/** Units that the store has counted for an account in its running window of this name. */
export async function windowUsed(
  house: TestGateway,
  account: string,
  name: string,
): Promise<number> {
  const response = await eventually(async () => {
    const asked = await house.admin(`/api/usage/${account}`);
    assert.equal(asked.status, 200, "the store answers a look within its 50 ms");
    return asked;
  });
  const { windows } = (await response.json()) as { windows: { window: string; used: number }[] };
  return windows.find(({ window }) => window === name)?.used ?? Number.NaN;
}

export function percentile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}
