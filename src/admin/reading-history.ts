import { RingBuffer } from "../base/ring-buffer.ts";
import type { DashboardStats } from "./dashboard-stats.ts";

const EVERY_MS = 5_000;
/** 15 minutes. */
const READINGS_MAX = 180;

/** The part of the figures that the plots need. */
export type Reading = Pick<DashboardStats, "atMs" | "answered" | "ownAnswers" | "bans"> & {
  readonly durations: Pick<DashboardStats["durations"], "counts" | "sum">;
};

/** Keeps the readings of the last 15 minutes, one every 5 s, for pages that are opened later. */
export class ReadingHistory {
  readonly #readings = new RingBuffer<Reading>(READINGS_MAX);
  readonly #timer: NodeJS.Timeout;

  constructor(read: () => DashboardStats) {
    const note = () => {
      const { atMs, answered, ownAnswers, bans, durations } = read();
      const { counts, sum } = durations;
      this.#readings.add({ atMs, answered, ownAnswers, bans, durations: { counts, sum } });
    };
    note();
    this.#timer = setInterval(note, EVERY_MS).unref();
  }

  /** Oldest first. */
  all(): readonly Reading[] {
    return this.#readings.all();
  }

  close(): void {
    clearInterval(this.#timer);
  }
}
