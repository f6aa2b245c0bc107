import type { Config } from "../../config/config.ts";
import { operationsIn } from "../../config/queries/services.ts";
import { DAY_MS } from "../../core/quota/days.ts";
import type { QuotaAdmin } from "../../stores/quotas/quota-store.ts";
import type { Log } from "../../telemetry/log/log.ts";
import type { UpstreamState } from "../../telemetry/readiness.ts";

type WatchSources = {
  readonly config: () => Config;
  readonly upstreams: () => Iterable<UpstreamState>;
  readonly log: Log;
  readonly quotas: Pick<QuotaAdmin, "markFirst">;
  /** Unix milliseconds. */
  readonly now: () => number;
};

/** An upstream at the last look. `untilMs` is up to when its outages are told. */
type SeenUpstream = { readonly up: boolean; readonly count: number; readonly untilMs: number };

const NEVER_DOWN: SeenUpstream = { up: true, count: 0, untilMs: 0 };

/** However often an upstream goes out and comes back, it has two lines in this time at most. */
const LOOK_MS = 500;
/** The numbers of days before a sunset at which an operation is logged. */
const AHEAD_DAYS = [7, 30];

/**
 * Logs upstreams that go out of service or come back, and operations whose sunset is near. It
 * checks on a timer, so no request waits for it. Stops when the result is called.
 */
export function watchUpstreamsAndSunsets(sources: WatchSources): () => void {
  const state = { upstreams: new Map<string, SeenUpstream>(), told: new Map<string, number>() };
  const look = () => {
    tellUpstreams(sources, state.upstreams);
    void tellSunsets(sources, state.told);
  };
  // A look keeps no process from its end.
  const timer = setInterval(look, LOOK_MS).unref();
  return () => clearInterval(timer);
}

function tellUpstreams(
  { upstreams, log, now }: WatchSources,
  before: Map<string, SeenUpstream>,
): void {
  const named = new Set<string>();
  const nowMs = now();
  for (const { environment: env, backend, origin, up, why, outages } of upstreams()) {
    const id = `${env} ${backend ?? ""} ${origin}`;
    named.add(id);
    const seen = before.get(id) ?? NEVER_DOWN;
    const count = outages?.count ?? 0;
    const more = count - seen.count;
    // An instant that is still to come is from before the clock went back.
    const past = (ms = 0) => (ms <= nowMs ? ms : 0);
    const [downMs, upMs] = [past(outages?.downMs), past(outages?.upMs)];
    const untilMs = Math.min(seen.untilMs, nowMs);
    // One that is as it was may have been otherwise between two looks. Workers tell of one outage at
    // different times: what overlaps the outage that was told is no other one.
    const isBack = !seen.up && (up || (downMs > upMs && upMs > untilMs));
    const isOut = up ? seen.up && downMs > untilMs : seen.up || isBack;
    const told = { env, backend, upstream: new URL(origin).origin };
    const newMs = (ms: number) => (ms > untilMs ? ms : undefined);
    const tellUp = (again: number) => {
      log.info("upstream_up", { ...told, ...(again > 0 && { outages: again }) }, newMs(upMs));
    };
    if (isBack) tellUp(isOut ? 0 : more);
    if (isOut) {
      const times = more > 1 ? { outages: more } : {};
      log.error("upstream_down", { ...told, why: why ?? outages?.why, ...times }, newMs(downMs));
    }
    if (isOut && up) tellUp(0);
    before.set(id, { up, count, untilMs: Math.max(untilMs, downMs, up ? upMs : 0) });
  }
  // While no worker serves none is named, though the configuration has some.
  if (named.size === 0) return;
  // One that a later configuration names again is a new one, which has not been down.
  for (const id of before.keys()) if (!named.has(id)) before.delete(id);
}

/**
 * Logs each operation once at 30 days and once at 7, by the gateway that sets the marker first. If
 * several of these days are past at the first start, only the nearest is logged.
 */
async function tellSunsets(sources: WatchSources, told: Map<string, number>): Promise<void> {
  const { config, log, quotas, now } = sources;
  for (const environment of config().environments) {
    const { name: env } = environment;
    for (const { method, template, lifecycle } of operationsIn(environment)) {
      const { deprecated, sunsetMs } = lifecycle;
      if (!deprecated || sunsetMs === undefined) continue;
      const leftMs = sunsetMs - now();
      const days = AHEAD_DAYS.find((ahead) => leftMs <= ahead * DAY_MS);
      const id = `${env} ${method} ${template} ${sunsetMs}`;
      if (days === undefined || leftMs <= 0 || (told.get(id) ?? Number.MAX_VALUE) <= days) continue;
      const before = told.get(id);
      told.set(id, days);
      try {
        if (!(await quotas.markFirst(`sunset ${id} ${days}`, leftMs + DAY_MS))) continue;
        const sunset = Math.ceil(sunsetMs / 1000);
        log.warn("sunset", { env, method, route: template, days, sunset });
      } catch {
        // The store is unreachable: the next check tries again.
        if (before === undefined) told.delete(id);
        else told.set(id, before);
      }
    }
  }
}
