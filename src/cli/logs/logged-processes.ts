import type { LoggedEvent } from "../../telemetry/log/logged-line.ts";
import { CLOCK_MS, type LineSpan, type Period } from "./log-span.ts";

/** A process that was killed may have served this long before and after its lines. */
const UNLOGGED_MS = 65_000;

/** A process that starts writes these before it serves. */
const BEFORE_SERVING = new Set(["config_warning", "connections_limited", "worker_serves"]);

/** `gateway` is its name, which lines of older versions lack. */
export type LoggedProcess = LineSpan & { readonly gateway: unknown; lastMs: number };

/** The processes that served by the logs, and those of them that ended without a last line. */
export class LoggedProcesses {
  /** Those without a last line. */
  readonly #unended: LoggedProcess[] = [];
  #current: LoggedProcess | undefined;
  /** The names of the gateways that run, as far as they are known. */
  #names: ReadonlySet<unknown> = new Set();
  /** When each worker began to serve. */
  readonly #workersMs = new Map<string, number>();
  readonly #workersLost: LineSpan[] = [];

  /** The process whose lines are read, as far as it is known. */
  get current(): LoggedProcess | undefined {
    return this.#current;
  }

  /** Called with the instant of each line that shows that the current process lives. */
  line(atMs: number): void {
    if (this.#current !== undefined && atMs > this.#current.lastMs) this.#current.lastMs = atMs;
  }

  /** Called with each line that is of no request. Returns the process that ends with it. */
  event(name: string, line: LoggedEvent): LoggedProcess | undefined {
    const atMs = Number(line.time);
    const { gateway } = line;
    if (gateway !== undefined) this.#current = this.#find(gateway);
    if (name === "stopped") return this.#end(gateway);
    if (name === "serving") {
      this.#current = { gateway, firstMs: atMs, lastMs: atMs };
      this.#unended.push(this.#current);
    } else if (!BEFORE_SERVING.has(name)) this.line(atMs);
    const worker = `${line.worker} ${line.pid}`;
    if (name === "worker_serves") this.#workersMs.set(worker, atMs);
    // Its last lines were not written, unless it was replaced and drains.
    if (name === "worker_lost" && /^it ended/.test(String(line.why))) {
      const firstMs = this.#workersMs.get(worker) ?? atMs - UNLOGGED_MS;
      this.#workersLost.push({ firstMs, lastMs: atMs });
    }
    return undefined;
  }

  /** Older lines `serving` name no gateway: then it is the process that began to serve last. */
  #find(gateway: unknown): LoggedProcess | undefined {
    const last = this.#unended.at(-1);
    const own = this.#unended.findLast((each) => each.gateway === gateway);
    return own ?? (last?.gateway === undefined ? last : undefined);
  }

  #end(gateway: unknown): LoggedProcess | undefined {
    const index = this.#unended.findLastIndex((each) => each.gateway === gateway);
    const [ended] = index < 0 ? [] : this.#unended.splice(index, 1);
    this.#current = this.#unended.at(-1);
    return ended;
  }

  /** Called with the names of the gateways that run, once all lines are read. */
  setRunning(names: readonly string[]): void {
    this.#names = new Set(names);
  }

  /**
   * The processes that ended without a last line, the earliest first. `alive` processes still run:
   * those of `setRunning`, and if these are fewer, or for lines without a name, the latest of those
   * without a last line.
   */
  killed(alive: number): readonly LoggedProcess[] {
    const rest = this.#unended.filter(({ gateway }) => !this.#names.has(gateway));
    const isListed = this.#names.size >= alive;
    const mayRun = rest
      .filter(({ gateway }) => gateway === undefined || !isListed)
      .toSorted((a, b) => b.lastMs - a.lastMs);
    const others = Math.max(0, alive - (this.#unended.length - rest.length));
    const running = new Set(mayRun.slice(0, others));
    return rest.filter((each) => !running.has(each)).toSorted((a, b) => a.lastMs - b.lastMs);
  }

  /** The last instant of a killed process that may have served in the period; undefined if none. */
  killedIn(period: Period, alive: number): number | undefined {
    return this.killed(alive).find((each) => mayHaveServed(each, period))?.lastMs;
  }

  /** The end of a worker without its last lines that may have served in the period. */
  workerLostIn(period: Period): number | undefined {
    return this.#workersLost.find((each) => mayHaveServed(each, period))?.lastMs;
  }

  /** How many processes of both kinds those are. */
  endedIn(period: Period, alive: number): number {
    const ended = [...this.killed(alive), ...this.#workersLost];
    return ended.filter((each) => mayHaveServed(each, period)).length;
  }
}

/**
 * Whether a process that ended may have charged requests of the period without a line. A tunnel may
 * have been open since the process began to serve.
 */
function mayHaveServed({ firstMs, lastMs }: LineSpan, { fromMs, toMs }: Period): boolean {
  return lastMs + UNLOGGED_MS >= fromMs && firstMs - CLOCK_MS < toMs;
}
