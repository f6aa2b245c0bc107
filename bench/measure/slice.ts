import { setTimeout as sleep } from "node:timers/promises";
import type { Message } from "../load/connection.ts";
import { type Taken, Traffic } from "../load/traffic.ts";
import { cpuUs } from "../stage/cpu.ts";
import type { Server } from "../stage/server.ts";
import type { Store } from "../stage/store.ts";

/** One server under one kind of traffic for a moment. */
export type SliceOptions = {
  readonly server: Server;
  /** Undefined where it uses none. */
  readonly store: Store | undefined;
  readonly next: () => Message;
  /** Undefined: each connection asks without pause. */
  readonly ratePerSecond?: number | undefined;
  /** The status of every answer; anything else spoils the slice. Undefined: any will do. */
  readonly status: number | undefined;
  /** Whether the server may end connections. Default: false. */
  readonly mayBreak?: boolean;
};

/** Times of CPU are microseconds a request. */
export type Slice = {
  readonly requestsPerSecond: number;
  readonly gatewayUs: number;
  /** Gateway and store. */
  readonly sumUs: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly commandsPerRequest: number;
  readonly commandsPerSecond: number;
  /** How busy the load generator's own process was, as a share of one core. */
  readonly generatorShare: number;
};

const CONNECTIONS = 64;
/** Connections are open and caches warm again before anything is counted. */
const LEAD_MS = 150;
/** Other programs may have the machine for seconds. */
const SILENCE_MS_MAX = 10_000;

/** Rejects when an answer has another status than is expected, or when nothing is answered. */
export async function measureSlice(options: SliceOptions, sliceMs: number): Promise<Slice> {
  const { server, store, next, ratePerSecond } = options;
  const { port } = server;
  const commandsBefore = await store?.commands();
  const traffic = new Traffic({ port, connections: CONNECTIONS, ratePerSecond, next });
  let taken: Taken;
  let lead: Taken;
  let used: Used;
  try {
    await sleep(LEAD_MS);
    lead = traffic.take();
    const before = usedNow(options);
    await sleep(sliceMs);
    await answered(traffic);
    taken = traffic.take();
    used = since(before, usedNow(options));
  } finally {
    await traffic.close();
  }
  const drained = traffic.take();
  const commands = ((await store?.commands()) ?? 0) - (commandsBefore ?? 0);
  inspect(taken, options);
  const { answers, seconds, p50Ms, p99Ms } = taken;
  return {
    requestsPerSecond: answers / seconds,
    gatewayUs: used.gatewayUs / answers,
    sumUs: (used.gatewayUs + used.storeUs) / answers,
    p50Ms,
    p99Ms,
    commandsPerRequest: commands / (lead.answers + answers + drained.answers),
    commandsPerSecond: commands / (lead.seconds + seconds + drained.seconds),
    generatorShare: used.generatorUs / 1e6 / seconds,
  };
}

/** Asks without pause until so many answers came; rejects like `measureSlice`. */
export async function warmUp(options: SliceOptions, requests: number): Promise<void> {
  const { server, next } = options;
  const traffic = new Traffic({ port: server.port, connections: CONNECTIONS, next });
  try {
    while (traffic.answers < requests) {
      const before = traffic.answers;
      await sleep(50);
      if (traffic.answers === before) await sleep(SILENCE_MS_MAX);
      if (traffic.answers === before)
        throw new Error(`Nothing was answered for ${SILENCE_MS_MAX} ms`);
    }
    inspect(traffic.take(), options);
  } finally {
    await traffic.close();
  }
}

/** Resolves when there are more answers than `before`, or when it has waited long enough. */
async function answered(traffic: Traffic, before = 0): Promise<void> {
  const endMs = performance.now() + SILENCE_MS_MAX;
  while (traffic.answers <= before && performance.now() < endMs) await sleep(20);
}

type Used = { readonly gatewayUs: number; readonly storeUs: number; readonly generatorUs: number };

function usedNow({ server, store }: SliceOptions): Used {
  const { user, system } = process.cpuUsage();
  return {
    gatewayUs: cpuUs(server.pids),
    storeUs: store === undefined ? 0 : cpuUs([store.pid]),
    generatorUs: user + system,
  };
}

function since(before: Used, after: Used): Used {
  return {
    gatewayUs: after.gatewayUs - before.gatewayUs,
    storeUs: after.storeUs - before.storeUs,
    generatorUs: after.generatorUs - before.generatorUs,
  };
}

function inspect(taken: Taken, { status, mayBreak = false }: SliceOptions): void {
  const { answers, statuses, broken } = taken;
  if (answers === 0) throw new Error("Nothing was answered");
  if (status !== undefined && statuses.get(status) !== answers) {
    const found = [...statuses].map(([each, count]) => `${count} × ${each}`).join(", ");
    throw new Error(`Not every answer is ${status}: ${found}`);
  }
  if (broken > 0 && !mayBreak) throw new Error(`${broken} requests were cut off`);
}
