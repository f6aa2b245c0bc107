import { formatDay } from "../../core/quota/days.ts";
import type { Reporter } from "../../telemetry/log/log.ts";
import type { AccountRef } from "./account-ref.ts";

/** Units of a meter on a day that are told and will not be counted. `ids` are those of requests. */
export type LostSettlement = {
  readonly day: number;
  readonly meter: string;
  readonly units: number;
  readonly ids: readonly string[];
};

/** Logs what requests used beyond their holds, or less, and no count will ever have. */
export function reportLost(
  report: Reporter,
  { environment, account }: AccountRef,
  { day, meter, units, ids }: LostSettlement,
): void {
  const id = ids.join(" ");
  report("warn", "settlement_lost", {
    environment,
    account,
    id,
    meter,
    units,
    day: formatDay(day),
  });
}
