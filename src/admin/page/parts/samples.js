/**
 * Samples that are further apart than this are not joined, because the values between are unknown.
 */
const GAP_S = 12;

/** The samples, and an empty one in each gap. */
export function withGaps(samples) {
  return samples.flatMap((sample, i) => {
    const before = samples[i - 1]?.at ?? sample.at;
    return sample.at - before > GAP_S ? [{ at: before + 1 }, sample] : [sample];
  });
}

/** The places of values without a neighbour: no line leads to them, so each is drawn as a point. */
export function lonely(values) {
  const isKnown = (i) => typeof values[i] === "number";
  return values.flatMap((_, i) => {
    return isKnown(i) && !isKnown(i - 1) && !isKnown(i + 1) ? [i] : [];
  });
}

/** The rates between consecutive readings; `bounds` are those of their durations. */
export function samplesOf(readings, bounds) {
  return readings.slice(1).flatMap((now, i) => sampleOf(readings[i], now, bounds) ?? []);
}

/** The readings since the clock of the gateway last stepped back. */
export function sinceStep(readings) {
  const step = readings.findLastIndex(({ atMs }, i) => atMs < readings[i - 1]?.atMs);
  return readings.slice(Math.max(0, step));
}

/** Whether the gateway restarted between two readings: a counter is lower than it was. */
function restarted(before, now) {
  const counters = ({ answered, bans }) => ({ ...answered, imposed: bans.imposed });
  const later = counters(now);
  return Object.entries(counters(before)).some(([name, value]) => !(later[name] >= value));
}

/** The rates between two readings; undefined if the gateway restarted in between. */
function sampleOf(before, now, bounds) {
  const seconds = (now.atMs - before.atMs) / 1_000;
  if (seconds < 0.2 || restarted(before, now)) return undefined;
  const rate = (part, chosen) =>
    Object.entries(now[part])
      .filter(([status]) => chosen(Number(status)))
      .reduce((sum, [status, value]) => sum + value - (before[part][status] ?? 0), 0) / seconds;
  return {
    at: now.atMs / 1_000,
    requests: rate("answered", () => true),
    failed: rate("answered", (status) => status >= 500),
    refused: rate("ownAnswers", (status) => status >= 400),
    limited: rate("ownAnswers", (status) => status === 429),
    strangers: rate("ownAnswers", (status) => status === 401 || status === 403),
    imposed: (now.bans.imposed - before.bans.imposed) / seconds,
    banned: now.bans.inForce,
    ...latencies(before.durations, now.durations, bounds),
  };
}

/** Latencies in milliseconds: the mean, and the bucket bounds of the 95th and 99th percentiles. */
function latencies(before, now, bounds) {
  const counts = now.counts.map((value, i) => value - before.counts[i]);
  const all = counts.reduce((sum, value) => sum + value, 0);
  if (all <= 0) return { mean: null, p95: null, p99: null };
  const under = (share) => {
    let below = 0;
    const i = counts.findIndex((value) => {
      below += value;
      return below >= share * all;
    });
    return i < bounds.length ? bounds[i] * 1_000 : Number.POSITIVE_INFINITY;
  };
  return { mean: ((now.sum - before.sum) / all) * 1_000, p95: under(0.95), p99: under(0.99) };
}
