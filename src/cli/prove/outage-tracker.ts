import { setTimeout as sleep } from "node:timers/promises";
import type { GatewayChild, LogLine } from "./processes.ts";
import type { TimeSpan } from "./promises.ts";

/** A gateway says so this long after its store went, at most; its windows may begin before. */
const NOTICED_MS_MAX = 1_000;
const LOOK_EVERY_MS = 200;
/** Unix milliseconds of two processes of one machine differ by less. */
const SLACK_MS = 60;
const DECIDED = /^tollgate_store_unavailable_decisions_total(?:\{.*\})? (\d+)/gm;
const UNCERTAIN = /^tollgate_charges_uncertain_total(?:\{.*\})? (\d+)/gm;

type OwnSpan = { readonly gateway: string; readonly fromMs: number; toMs: number };

/**
 * Learns from the gateways themselves when they decided without the store: from the events of their
 * logs, and from their metrics. A call that is late on a busy machine is decided by a share too,
 * while four of them in a row are no event yet.
 */
export class OutageTracker {
  readonly #spans: OwnSpan[] = [];
  readonly #looking: Promise<void>[] = [];
  readonly #decided = new Map<string, { count: number; atMs: number }>();
  #stopped = false;

  get spans(): readonly TimeSpan[] {
    return this.#spans;
  }

  /** A gateway has said that the store is away, and not yet that it is back. */
  get isOpen(): boolean {
    return this.#spans.some(({ toMs }) => toMs === Number.POSITIVE_INFINITY);
  }

  /** One line of the log of a gateway. */
  onLogLine(gateway: string, line: LogLine): void {
    // Each bucket of a Cluster goes and comes back by itself.
    for (const bucket of String(line.buckets ?? "all").split(",")) {
      this.#hearOf(`${gateway} ${bucket}`, line);
    }
  }

  #hearOf(gateway: string, line: LogLine): void {
    const name = line.msg === "event" ? line.kind : line.msg;
    const open = this.#spans.findLast(
      (one) => one.gateway === gateway && one.toMs === Number.POSITIVE_INFINITY,
    );
    if (name === "store_away" && open === undefined) {
      const fromMs = Number(line.time) - NOTICED_MS_MAX;
      this.#spans.push({ gateway, fromMs, toMs: Number.POSITIVE_INFINITY });
    }
    if (name === "store_back" && open !== undefined) open.toMs = Number(line.time);
  }

  /** Looks at the metrics of a gateway until it ends, or until `stop`. */
  watch(gateway: GatewayChild): void {
    const goOn = async () => {
      while (!this.#stopped) {
        await this.poll(gateway);
        await sleep(LOOK_EVERY_MS);
      }
    };
    this.#looking.push(goOn().catch(() => undefined));
  }

  /** Looks once; gives the units that the gateway says it may have charged twice. */
  async poll({ adminUrl }: GatewayChild): Promise<number> {
    const atMs = Date.now();
    const text = await (await fetch(`${adminUrl}/metrics`)).text();
    const count = sumOf(text, DECIDED);
    const before = this.#decided.get(adminUrl) ?? { count: 0, atMs };
    if (count > before.count) {
      this.#spans.push({ gateway: "late", fromMs: before.atMs - SLACK_MS, toMs: Date.now() });
    }
    this.#decided.set(adminUrl, { count, atMs });
    return sumOf(text, UNCERTAIN);
  }

  /** The last lines of a process that is killed are lost with it. */
  killed(): void {
    const nowMs = Date.now();
    this.#spans.push({ gateway: "killed", fromMs: nowMs - NOTICED_MS_MAX, toMs: nowMs });
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
