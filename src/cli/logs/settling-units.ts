/**
 * A settlement is sent when its answer has ended. One whose call has no answer for a second is sent
 * again with the next heartbeat.
 */
const SETTLES_MS = 5_000;

/**
 * The units by which requests of a meter used more or less than they held, added up by the seconds
 * between decision and settlement. A log has many more lines than seconds.
 */
export class SettlingUnits {
  readonly #begun = new Map<number, number>();
  readonly #ended = new Map<number, number>();

  add(decidedMs: number, endMs: number, units: number): void {
    const settledMs = Math.max(decidedMs, endMs) + SETTLES_MS;
    addTo(this.#begun, decidedMs, units);
    addTo(this.#ended, settledMs, units);
  }

  /** The units of requests that were decided up to `toMs` and not settled before `fromMs`. */
  unsettledIn(fromMs: number, toMs: number): number {
    return upTo(this.#begun, secondOf(toMs)) - upTo(this.#ended, secondOf(fromMs) - 1);
  }
}

function secondOf(atMs: number): number {
  return Math.floor(atMs / 1_000);
}

function addTo(units: Map<number, number>, atMs: number, more: number): void {
  const second = secondOf(atMs);
  units.set(second, (units.get(second) ?? 0) + more);
}

function upTo(units: ReadonlyMap<number, number>, last: number): number {
  return [...units].reduce((sum, [second, each]) => sum + (second <= last ? each : 0), 0);
}
