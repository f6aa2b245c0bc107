/**
 * The place where an answer tells what it used: a field, named in lower case, or a member of a JSON
 * body or of an event, by the unescaped segments of a JSON pointer (RFC 6901).
 */
export type MeterSource =
  | { readonly from: "header"; readonly name: string }
  | { readonly from: "json" | "sse"; readonly pointer: readonly string[] };

/**
 * A meter of an operation. Admission takes `hold` units, and an answer uses `max` at most. It is
 * charged `untold` if none of the sources in `used` tells a number.
 */
export type OperationMeter = {
  readonly name: string;
  readonly hold: number;
  readonly max: number;
  readonly untold: number;
  readonly used: readonly MeterSource[];
};

/** The meters of an operation that has none. */
export const NO_METERS: readonly OperationMeter[] = [];
