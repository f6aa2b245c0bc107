import { formatCount } from "../../base/messages.ts";
import type { Calendar } from "../../core/quota/calendar.ts";
import { type WindowName, windowStart } from "../../core/quota/windows.ts";
import type { LoggedEvent, LoggedRequest } from "../../telemetry/log/logged-line.ts";
import { formatInstant } from "../framework/table.ts";
import { hasConfigChanged } from "./balance.ts";
import { Incidents } from "./incidents.ts";

/** Events after which the same requests would be decided differently, by their names in the log. */
const CHANGES: Readonly<Record<string, string>> = {
  account_changed: "accounts were changed",
  account_reset: "accounts were reset",
  ban: "bans were added by hand",
  ban_lifted: "bans were lifted by hand",
  store_away: "the store was away and gateways decided by themselves",
  counter_regression: "the store lost charges",
};

const ALWAYS = { fromMs: Number.NEGATIVE_INFINITY, toMs: Number.POSITIVE_INFINITY };

/** Says in words how many lines of a log could not be read; empty where all could be. */
export function damagedLines(damaged: number, firstDamage: string | undefined): string[] {
  if (damaged === 0) return [];
  return [`${formatCount(damaged, "damaged line")} left out, the first at ${firstDamage}`];
}

/** Collects everything that a log lacks, and every change that happened while it was written. */
export class LogGaps {
  readonly #changes = new Map<string, number>();
  /** By configuration: the first and the last line of a request. */
  readonly #configs = new Map<string, { firstMs: number; lastMs: number }>();
  readonly incidents = new Incidents();
  #firstMs = Number.POSITIVE_INFINITY;
  #lastMs = Number.NEGATIVE_INFINITY;

  request({ config, decidedAt, time }: LoggedRequest): void {
    const atMs = decidedAt ?? time;
    if (atMs < this.#firstMs) this.#firstMs = atMs;
    if (atMs > this.#lastMs) this.#lastMs = atMs;
    this.incidents.line(time, config);
    if (config === undefined) return;
    const { firstMs, lastMs } = this.#configs.get(config) ?? { firstMs: time, lastMs: time };
    const span = { firstMs: Math.min(firstMs, time), lastMs: Math.max(lastMs, time) };
    this.#configs.set(config, span);
  }

  event(line: LoggedEvent): void {
    this.incidents.event(line);
    const name = line.msg === "event" ? String(line.kind) : line.msg;
    // An earned ban is decided again with the requests.
    if (name === "ban" && line.imposed !== true) return;
    if (Object.hasOwn(CHANGES, name)) {
      this.#changes.set(name, (this.#changes.get(name) ?? 0) + 1);
    }
  }

  /**
   * The instants of the first and the last request, in milliseconds; undefined if there are none.
   */
  get span(): { readonly fromMs: number; readonly toMs: number } | undefined {
    return this.#firstMs > this.#lastMs ? undefined : { fromMs: this.#firstMs, toMs: this.#lastMs };
  }

  /**
   * The gaps in words. `longest` is the longest window of the plans; the log should cover it from
   * its start, also for accounts with one of the calendars.
   */
  describe(longest: WindowName | undefined, calendars: readonly Calendar[] = []): string[] {
    const told = [...this.#changes].map(([name, count]) => `${CHANGES[name]} (${name}: ${count})`);
    if (hasConfigChanged(this.#configs, this.incidents.replacementsIn(ALWAYS))) {
      const names = [...this.#configs.keys()].join(", ");
      told.push(`the configuration changed: ${this.#configs.size} are in the log, ${names}`);
    }
    const span = this.span;
    if (span === undefined || longest === undefined) return told;
    const startMs = Math.min(
      ...[undefined, ...calendars].map((each) => windowStart(longest, span.fromMs, each)),
    );
    if (span.fromMs - startMs >= 1_000) {
      const [from, start] = [span.fromMs, startMs].map((ms) =>
        formatInstant(Math.floor(ms / 1_000)),
      );
      told.push(
        `the log begins at ${from}, and its ${longest} at ${start}: what was charged between them is not in it`,
      );
    }
    return told;
  }
}
