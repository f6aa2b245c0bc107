import type { Calendar } from "../../core/quota/calendar.ts";
import { type WindowName, windowStart } from "../../core/quota/windows.ts";
import {
  eventName,
  type LoggedEvent,
  type LoggedRequest,
} from "../../telemetry/log/logged-line.ts";
import { formatInstant } from "../framework/table.ts";
import { Incidents } from "./incidents.ts";
import { type LineSpan, LogSpan } from "./log-span.ts";

/** Events after which the same requests would be decided differently, by their names in the log. */
const CHANGES: Readonly<Record<string, string>> = {
  account_changed: "accounts were changed",
  account_reset: "accounts were reset",
  ban: "bans were added by hand",
  ban_lifted: "bans were lifted by hand",
  changes_dropped: "bans, lifts and resets of commands were made that no log has",
  store_away: "the store was away and gateways decided by themselves",
  counter_regression: "the store lost charges",
};

/** Collects everything that a log lacks, and every change that happened while it was written. */
export class LogGaps {
  readonly #changes = new Map<string, number>();
  readonly #requests = new LogSpan();
  readonly incidents = new Incidents();

  request({ config, decidedAt, time, durationMs }: LoggedRequest): void {
    this.#requests.line(decidedAt ?? time);
    this.incidents.line(time, config, time - durationMs);
  }

  event(line: LoggedEvent): void {
    this.incidents.event(line);
    const name = eventName(line);
    // An earned ban is decided again with the requests.
    if (name === "ban" && line.imposed !== true) return;
    if (Object.hasOwn(CHANGES, name)) {
      this.#changes.set(name, (this.#changes.get(name) ?? 0) + 1);
    }
  }

  /** The first and the last instant of the requests; undefined if there are none. */
  get span(): LineSpan | undefined {
    return this.#requests.span;
  }

  /**
   * The gaps in words. `longest` is the longest window of the plans; the log should cover it from
   * its start, also for accounts with one of the calendars.
   */
  describe(longest: WindowName | undefined, calendars: readonly Calendar[] = []): string[] {
    const told = [...this.#changes].map(([name, count]) => `${CHANGES[name]} (${name}: ${count})`);
    const { names, hasChanged } = this.incidents.configs;
    if (hasChanged) {
      told.push(`the configuration changed: ${names.length} are in the log, ${names.join(", ")}`);
    }
    const span = this.span;
    if (span === undefined || longest === undefined) return told;
    const startMs = Math.min(
      ...[undefined, ...calendars].map((each) => windowStart(longest, span.firstMs, each)),
    );
    if (span.firstMs - startMs >= 1_000) {
      const [from, start] = [span.firstMs, startMs].map((ms) =>
        formatInstant(Math.floor(ms / 1_000)),
      );
      told.push(
        `the log begins at ${from}, and its ${longest} at ${start}: what was charged between them is not in it`,
      );
    }
    return told;
  }
}
