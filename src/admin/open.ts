import type { Config } from "../config/config.ts";
import type { Counting } from "../telemetry/counting.ts";
import { type Admin, type AdminDeps, startAdmin } from "./listener.ts";
import { createMetrics, type Watched } from "./prometheus.ts";

export type AdminHouse = Omit<AdminDeps, "metrics"> & {
  readonly counting: Counting;
  readonly watched: Watched;
  /** Brings the counts up to date, ahead of each scrape. */
  readonly gather?: () => Promise<void>;
};

/** Opens the admin listener with its metrics. Rejects with the system's error. */
export function openAdmin(admin: NonNullable<Config["admin"]>, house: AdminHouse): Promise<Admin> {
  const { counting, watched, gather } = house;
  const metrics = createMetrics(watched, counting);
  const render = async () => {
    await gather?.();
    return metrics.render();
  };
  return startAdmin({ ...house, ...admin, metrics: { render } });
}
