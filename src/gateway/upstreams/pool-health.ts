import type { Refusal } from "../../core/refusal.ts";
import type { UpstreamOutages } from "../../telemetry/readiness.ts";
import { holderOf } from "./connection-shares.ts";
import type { Upstream, UpstreamPoolOptions } from "./upstream.ts";

/** Responses that say that the upstream cannot serve (RFC 9110 15.6.3 to 15.6.5). */
const UNAVAILABLE: ReadonlySet<number> = new Set([502, 503, 504]);
/** Pauses before the first probe of a failing upstream, before the second, and so on. */
const PAUSES_MS: readonly [number, ...number[]] = [1_000, 2_000, 4_000, 10_000];
/** Failed requests, or responses that say that it cannot serve, that take an upstream out. */
const FAILURES_MAX = 5;
const FAILED_PROBES_MAX = 2;

/**
 * Which upstreams of a pool are in service (docs/reference/edge.md#backends). Being out of service
 * only lowers an upstream's rank. An upstream that is out is asked if no other is left, by its health
 * check, or, without one, by one request after a pause. The last upstream in service is never taken
 * out.
 */
export class PoolHealth {
  readonly #upstreams: readonly Upstream[];
  readonly #options: UpstreamPoolOptions;

  /** `before` are the upstreams that served before a reload: equal origins keep their health. */
  constructor(
    upstreams: readonly Upstream[],
    options: UpstreamPoolOptions,
    before: readonly Upstream[],
  ) {
    this.#upstreams = upstreams;
    this.#options = options;
    const hasHealthCheck = options.healthCheck !== undefined;
    for (const upstream of upstreams) {
      const known = before.find((one) => one.origin === upstream.origin);
      if (known !== undefined) inheritHealth(upstream, known, hasHealthCheck);
    }
    keepOneIn(upstreams);
    for (const upstream of upstreams) {
      const isProbed = hasHealthCheck || (!isUp(upstream) && upstream.trial === "none");
      if (isProbed) upstream.probeAtMs = options.elapsed();
      this.#noteChange(upstream);
    }
  }

  /** Whether each upstream is in service and answers, else why not. */
  report(): { readonly origin: string; readonly up: boolean; readonly why?: string }[] {
    return this.#upstreams.map((upstream) => {
      const { origin, why } = upstream;
      const up = isUp(upstream);
      return up ? { origin, up } : { origin, up, why };
    });
  }

  /** How an upstream has gone out of service so far; undefined if it never has. */
  outagesOf(origin: string): UpstreamOutages | undefined {
    return this.#upstreams.find((upstream) => upstream.origin === origin)?.outages;
  }

  /**
   * The upstream has sent a good head to a request of the account. All client addresses count as
   * one account. The body may take long, so the head decides, and a body that breaks then counts
   * by itself.
   */
  answered(upstream: Upstream, account: string, status: number): void {
    upstream.failuresInRow = 0;
    if (upstream.trial === "asked") {
      upstream.brokenInRow = Math.min(upstream.brokenInRow, FAILURES_MAX - 1);
    }
    if (UNAVAILABLE.has(status)) {
      const holder = holderOf(account);
      if (upstream.unavailableInRow === 0) upstream.unavailableFor = holder;
      upstream.isUnavailableForSeveral ||= upstream.unavailableFor !== holder;
      upstream.unavailableInRow += 1;
      upstream.why = `answered ${status}`;
    } else {
      upstream.unavailableInRow = 0;
      upstream.isUnavailableForSeveral = false;
    }
    if (!isFailing(upstream)) this.#trust(upstream);
    else if (UNAVAILABLE.has(status)) this.#distrust(upstream);
    this.#noteChange(upstream);
  }

  /** A body of the upstream went well: it was whole, or its client left while it came. */
  delivered(upstream: Upstream): void {
    upstream.brokenInRow = 0;
    if (!isFailing(upstream)) this.#trust(upstream);
    this.#noteChange(upstream);
  }

  /** Another process found the upstream down: it counts as failing here, until a probe succeeds. */
  foundDown(origin: string, why = ""): void {
    for (const upstream of this.#upstreams) {
      if (upstream.origin !== origin || upstream.failuresInRow > 0) continue;
      upstream.why = why;
      upstream.failuresInRow = FAILURES_MAX;
      this.#takeOut(upstream);
      upstream.probeAtMs ??= this.#options.elapsed();
      this.#noteChange(upstream);
    }
  }

  /** A request to the upstream failed, before its head or after it, and the upstream is to blame. */
  failed(upstream: Upstream, { code, why = code }: Refusal, isAnswered = false): void {
    // The reason alone, such as `a chunk is malformed`, does not say whose response it was.
    upstream.why = code === "upstream_invalid" && why !== code ? `${code}: ${why}` : why;
    if (isAnswered) upstream.brokenInRow += 1;
    else upstream.failuresInRow += 1;
    if (upstream.trial === "asked" || isFailing(upstream)) this.#distrust(upstream);
    this.#noteChange(upstream);
  }

  /** Called after whatever may have put the upstream out of service, or back. */
  #noteChange(upstream: Upstream): void {
    const up = isUp(upstream);
    if (up === upstream.wasUp) return;
    upstream.wasUp = up;
    const nowMs = this.#options.machineNow();
    const { why, outages } = upstream;
    if (!up)
      upstream.outages = { ...outages, count: (outages?.count ?? 0) + 1, downMs: nowMs, why };
    else if (outages !== undefined) upstream.outages = { ...outages, upMs: nowMs };
  }

  /** The upstream fails: it goes out of service, if another one is left, until it recovers. */
  #distrust(upstream: Upstream): void {
    this.#takeOut(upstream);
    const { trial, probeAtMs } = upstream;
    if (trial === "asked") upstream.failedTrials += 1;
    if (trial !== "none" || probeAtMs === undefined) this.#scheduleProbe(upstream);
    upstream.trial = "none";
  }

  /** A request succeeded. A failing health check outweighs that. */
  #trust(upstream: Upstream): void {
    if (upstream.failedProbes >= FAILED_PROBES_MAX) return;
    // While bodies of it are in doubt, a good head shortens no pause.
    if (upstream.brokenInRow === 0) upstream.failedTrials = 0;
    else if (upstream.trial === "asked") upstream.failedTrials += 1;
    upstream.out = false;
    upstream.trial = "none";
    if (this.#options.healthCheck === undefined) upstream.probeAtMs = undefined;
  }

  #scheduleProbe(upstream: Upstream): void {
    const { healthCheck, elapsed } = this.#options;
    const pauseMs = PAUSES_MS[upstream.failedTrials] ?? (PAUSES_MS.at(-1) as number);
    upstream.probeAtMs = elapsed() + (healthCheck?.everyMs ?? pauseMs);
  }

  /** A probe ended: `wrong` says what was wrong, and is undefined if nothing was. */
  probed(upstream: Upstream, wrong: string | undefined): void {
    if (wrong !== undefined) upstream.why = wrong;
    if (this.#options.healthCheck === undefined) this.#connected(upstream, wrong === undefined);
    else this.#checked(upstream, wrong === undefined);
    this.#noteChange(upstream);
  }

  /** A health check ended. One success clears every failure; two failures take the upstream out. */
  #checked(upstream: Upstream, wentWell: boolean): void {
    upstream.failedProbes = wentWell ? 0 : upstream.failedProbes + 1;
    if (wentWell) {
      forgive(upstream);
      this.#trust(upstream);
    } else if (upstream.failedProbes >= FAILED_PROBES_MAX) {
      this.#takeOut(upstream);
    }
    this.#scheduleProbe(upstream);
  }

  /** A bare connection to a failing upstream ended. If it succeeded, one request decides. */
  #connected(upstream: Upstream, wentWell: boolean): void {
    if (!wentWell) {
      upstream.failedTrials += 1;
      this.#scheduleProbe(upstream);
      return;
    }
    upstream.probeAtMs = undefined;
    if (upstream.out) {
      upstream.trial = "due";
      upstream.trialDueMs = this.#options.elapsed();
    } else {
      // This is the last upstream in service. Without requests nothing else would clear its
      // failures. One more of either kind is enough then.
      const broken = Math.min(upstream.brokenInRow, FAILURES_MAX - 1);
      forgive(upstream);
      upstream.brokenInRow = broken;
      upstream.failuresInRow = FAILURES_MAX - 1 - broken;
    }
  }

  #takeOut(upstream: Upstream): void {
    if (this.#upstreams.some((one) => one !== upstream && !one.out)) upstream.out = true;
  }
}

/** Whether its latest failures take the upstream out of service. */
function isFailing(upstream: Upstream): boolean {
  const { failuresInRow, brokenInRow, unavailableInRow, isUnavailableForSeveral } = upstream;
  if (failuresInRow + brokenInRow >= FAILURES_MAX) return true;
  // One account with one bad route must not take an upstream away from all other accounts.
  return unavailableInRow >= FAILURES_MAX && isUnavailableForSeveral;
}

/** Whether it is in service and answers. One never tried counts as up. */
function isUp(upstream: Upstream): boolean {
  return !upstream.out && !isFailing(upstream) && upstream.failedProbes < FAILED_PROBES_MAX;
}

function forgive(upstream: Upstream): void {
  upstream.failuresInRow = 0;
  upstream.brokenInRow = 0;
  upstream.unavailableInRow = 0;
  upstream.isUnavailableForSeveral = false;
}

/**
 * Takes over what was known of the same origin before a reload, which says nothing of the backend.
 * A request that was its trial reports to the pool before, so the next request is the trial.
 */
function inheritHealth(upstream: Upstream, before: Upstream, hasHealthCheck: boolean): void {
  upstream.out = before.out;
  upstream.trial = before.trial === "none" ? "none" : "due";
  upstream.trialDueMs = before.trialDueMs;
  upstream.failedTrials = before.failedTrials;
  upstream.why = before.why;
  upstream.wasUp = before.wasUp;
  upstream.outages = before.outages;
  upstream.failuresInRow = before.failuresInRow;
  upstream.brokenInRow = before.brokenInRow;
  upstream.unavailableInRow = before.unavailableInRow;
  upstream.unavailableFor = before.unavailableFor;
  upstream.isUnavailableForSeveral = before.isUnavailableForSeveral;
  if (hasHealthCheck) upstream.failedProbes = before.failedProbes;
  // Without a health check a request or a connection brings it back, as after failed requests.
  else if (before.failedProbes >= FAILED_PROBES_MAX) upstream.failuresInRow = FAILURES_MAX;
}

/**
 * If a reload leaves only upstreams that were out, they fail in service, and are tried again as such,
 * because the last one in service is never taken out.
 */
function keepOneIn(upstreams: readonly Upstream[]): void {
  if (upstreams.some(({ out }) => !out)) return;
  for (const upstream of upstreams) {
    upstream.out = false;
    upstream.trial = "none";
    upstream.failuresInRow = Math.max(upstream.failuresInRow, FAILURES_MAX);
  }
}
