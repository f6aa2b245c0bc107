import { METER } from "./workload.ts";

type FailoverLosses = {
  readonly chargesLost: number;
  readonly historyLost: number;
  readonly metersOff: number;
};

/**
 * Names lost units as those of a failover, up to `mostLost` units of the plan, each of which may have
 * held as much of the meter as a request can.
 */
export function excuseFailover<T extends FailoverLosses>(
  charges: T,
  mostLost: number,
): T & { readonly failoverLost: number } {
  const { chargesLost, historyLost, metersOff } = charges;
  return {
    ...charges,
    failoverLost: Math.min(mostLost, Math.max(chargesLost, historyLost)),
    chargesLost: Math.max(0, chargesLost - mostLost),
    historyLost: Math.max(0, historyLost - mostLost),
    metersOff: Math.max(0, metersOff - mostLost * METER.max),
  };
}
