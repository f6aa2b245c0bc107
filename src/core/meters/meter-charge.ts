import type { OperationMeter } from "../quota/meters.ts";

/**
 * The charge of a request by one meter in the end. `used` is what its answer told, which may be
 * above the most that a request uses; undefined if it told nothing.
 */
export type MeterCharge = {
  readonly name: string;
  readonly hold: number;
  readonly used: number | undefined;
  /** The units charged. */
  readonly units: number;
};

/**
 * How a request ended: `free` if no backend got it or the whole answer was a refusal
 * (docs/reference/meters.md#settlement).
 */
export type MeteredEnd = "free" | "answered";

/** The charge of a request that ended, by what its answer told. */
export function meterCharge(
  { name, hold, max, untold }: OperationMeter,
  used: number | undefined,
  end: MeteredEnd,
): MeterCharge {
  const unknown = end === "free" ? 0 : untold;
  return { name, hold, used, units: used === undefined ? unknown : Math.min(used, max) };
}

/** A charge in the line of its request. */
export type LoggedMeter = {
  readonly hold: number;
  readonly used?: number;
  /** The units charged, if they are neither `used` nor, without `used`, the hold. */
  readonly charged?: number;
};

export function loggedMeter({ hold, used, units }: MeterCharge): LoggedMeter {
  return {
    hold,
    ...(used === undefined ? {} : { used }),
    ...(units === (used ?? hold) ? {} : { charged: units }),
  };
}

/** The units that a logged meter was charged. */
export function loggedUnits({ hold, used, charged }: LoggedMeter): number {
  return charged ?? used ?? hold;
}
