import type { Upstream } from "./upstream.ts";

/** Failed requests, or responses that say that it cannot serve, that take an upstream out. */
export const FAILURES_MAX = 5;
export const FAILED_PROBES_MAX = 2;

/** Whether its latest failures take the upstream out of service. */
export function isFailing(upstream: Upstream): boolean {
  const { failuresInRow, brokenInRow, unavailableInRow, isUnavailableForSeveral } = upstream;
  if (failuresInRow + brokenInRow >= FAILURES_MAX) return true;
  // One account with one bad route must not take an upstream away from all other accounts.
  return unavailableInRow >= FAILURES_MAX && isUnavailableForSeveral;
}

/** Whether it is in service and answers. One never tried counts as up. */
export function isUp(upstream: Upstream): boolean {
  return !upstream.out && !isFailing(upstream) && upstream.failedProbes < FAILED_PROBES_MAX;
}

export function forgive(upstream: Upstream): void {
  upstream.failuresInRow = 0;
  upstream.brokenInRow = 0;
  upstream.unavailableInRow = 0;
  upstream.isUnavailableForSeveral = false;
}

/**
 * Takes over what was known of the same origin before a reload, which says nothing of the backend.
 * A request that was its trial reports to the pool before, so the next request is the trial.
 */
export function inheritHealth(upstream: Upstream, before: Upstream, hasHealthCheck: boolean): void {
  upstream.out = before.out;
  upstream.trial = before.trial === "none" ? "none" : "due";
  upstream.failedTrials = before.failedTrials;
  upstream.why = before.why;
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
 * The last one in service is never taken out (docs/reference/edge.md#backends): where a reload leaves only upstreams
 * that were out, they fail in service, and are tried again as such.
 */
export function keepOneIn(upstreams: readonly Upstream[]): void {
  if (upstreams.some(({ out }) => !out)) return;
  for (const upstream of upstreams) {
    upstream.out = false;
    upstream.trial = "none";
    upstream.failuresInRow = Math.max(upstream.failuresInRow, FAILURES_MAX);
  }
}
