import { setTimeout as sleep } from "node:timers/promises";
import { eventName } from "../../../telemetry/log/logged-line.ts";
import type { GatewayChild, LogLine } from "../trial/processes.ts";
import type { TimeSpan } from "../trial/promises.ts";
import type { PauseControl } from "../trial/store-proxy.ts";

/** A gateway reports an outage at most this long after it began; its windows may begin before. */
const NOTICED_MS_MAX = 1_000;
const LOOK_EVERY_MS = 200;
const END_EVERY_MS = 20;
/** A gateway renders its metrics at most once a second, so an answer may be this old. */
const METRICS_MS_MAX = 1_000;
/** The Unix milliseconds of two processes of one machine differ by less than this. */
const SLACK_MS = 60;
/** How long a gateway waits for the store to settle a request that has ended. */
const SETTLED_MS = 2_000;
const OWED = /^tollgate_charges_owed(?:\{.*\})? (\d+)/gm;
const DECIDED = /^tollgate_store_unavailable_decisions_total(?:\{.*\})? (\d+)/gm;

type OwnSpan = { readonly gateway: string; readonly fromMs: number; toMs: number };

/**
 * Learns from the gateways themselves when they decided without the store: from the events in their
 * logs and from their metrics. On a busy machine a late call is decided by a share too, although
 * four late calls in a row are not an event yet.
 */
export class OutageTracker {
  readonly #spans: OwnSpan[] = [];
  readonly #looking: Promise<void>[] = [];
  readonly #decided = new Map<string, { count: number; atMs: number }>();
  /** By the URL of its admin listener: when a gateway was last known to owe nothing. */
  readonly #chargedMs = new Map<string, number>();
  #stopped = false;

  get spans(): readonly TimeSpan[] {
    return this.#spans;
  }

  /** The spans as a report shows them: one that is open ends now. */
  spansUntil(nowMs: number): readonly TimeSpan[] {
    return this.#spans.map(({ fromMs, toMs }) => ({ fromMs, toMs: Math.min(toMs, nowMs) }));
  }

  /** Whether a gateway has reported an outage and has not reported its end yet. */
  get isOpen(): boolean {
    return this.#spans.some(({ toMs }) => toMs === Number.POSITIVE_INFINITY);
  }

  /** Resolves when no outage is open, after `withinMs`, or when the signal is aborted. */
  async untilBack(withinMs: number, { pause, signal }: PauseControl): Promise<void> {
    const untilMs = Date.now() + withinMs;
    while (this.isOpen && !signal.aborted && Date.now() < untilMs) await pause(END_EVERY_MS);
  }

  /** Called with each line of a gateway's log. */
  onLogLine(gateway: string, line: LogLine): void {
    // Each bucket of a Cluster fails and recovers by itself.
    for (const bucket of String(line.buckets ?? "all").split(",")) {
      this.#hearOf(`${gateway} ${bucket}`, line);
    }
  }

  #hearOf(gateway: string, line: LogLine): void {
    const name = eventName(line);
    const open = this.#spans.findLast(
      (one) => one.gateway === gateway && one.toMs === Number.POSITIVE_INFINITY,
    );
    if (name === "store_away" && open === undefined) {
      const fromMs = Number(line.time) - NOTICED_MS_MAX;
      this.#spans.push({ gateway, fromMs, toMs: Number.POSITIVE_INFINITY });
    }
    if (name === "store_back" && open !== undefined) open.toMs = Number(line.time);
  }

  /** Polls the metrics of a gateway until it ends, or until `stop`, which polls it once more. */
  watch(gateway: GatewayChild): void {
    const goOn = async () => {
      while (!this.#stopped) {
        await this.poll(gateway);
        await sleep(LOOK_EVERY_MS);
      }
      // After this the metrics include the last decision before `stop`.
      await sleep(METRICS_MS_MAX);
      await this.poll(gateway);
    };
    this.#looking.push(goOn().catch(() => undefined));
  }

  /** Polls once. */
  async poll({ adminUrl }: GatewayChild): Promise<void> {
    const atMs = Date.now();
    const text = await (await fetch(`${adminUrl}/metrics`)).text();
    const count = sumOf(text, DECIDED);
    const before = this.#decided.get(adminUrl) ?? { count: 0, atMs };
    if (count > before.count) {
      const fromMs = before.atMs - METRICS_MS_MAX - SLACK_MS;
      this.#spans.push({ gateway: "late", fromMs, toMs: Date.now() });
    }
    this.#decided.set(adminUrl, { count, atMs });
    if (sumOf(text, OWED) === 0) this.#chargedMs.set(adminUrl, atMs - METRICS_MS_MAX - SLACK_MS);
  }

  /** Resolves when this gateway has just owed nothing, after `withinMs`, or at the signal. */
  async untilCharged(
    gateway: GatewayChild,
    withinMs: number,
    { pause, signal }: PauseControl,
  ): Promise<void> {
    const startMs = Date.now();
    while (!signal.aborted && Date.now() < startMs + withinMs) {
      await this.poll(gateway);
      if (this.chargedUntilMs(gateway) >= startMs - METRICS_MS_MAX - SLACK_MS) return;
      await pause(END_EVERY_MS);
    }
  }

  /** The instant before which all that this gateway admitted is charged; 0 if that is not known. */
  chargedUntilMs({ adminUrl }: Pick<GatewayChild, "adminUrl">): number {
    return this.#chargedMs.get(adminUrl) ?? 0;
  }

  /** Called when a process was killed: its last lines and metrics since `sinceMs` are lost. */
  killed(sinceMs: number): void {
    const nowMs = Date.now();
    const fromMs = Math.min(sinceMs, nowMs - NOTICED_MS_MAX);
    this.#spans.push({ gateway: "killed", fromMs, toMs: nowMs });
  }

  /**
   * The instant before which all that ended at this gateway is settled: two seconds ago or, if it
   * owed something then, when it last owed nothing. If an outage of it ended no earlier, a second
   * before that one was reported.
   */
  settledUntilMs(name: string, gateway: Pick<GatewayChild, "adminUrl">, nowMs: number): number {
    let untilMs = Math.min(nowMs - SETTLED_MS, this.chargedUntilMs(gateway));
    for (const { gateway: one, fromMs, toMs } of this.#spans.toReversed()) {
      if (one.startsWith(`${name} `) && toMs >= untilMs) untilMs = Math.min(untilMs, fromMs);
    }
    return untilMs;
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    await Promise.all(this.#looking);
  }
}

function sumOf(text: string, metric: RegExp): number {
  let sum = 0;
  for (const [, value = "0"] of text.matchAll(metric)) sum += Number(value);
  return sum;
}
