import type { Limit } from "./windows.ts";

/** The parts of a plan beside its windows (docs/reference/plans.md). */
export type PlanOptions = {
  /** Requests of an account under way at once, in one process; undefined: any number. */
  readonly concurrent: number | undefined;
  /** Second limits on the counts of these windows, shortest first: never refuse, only tell. */
  readonly observe: readonly Limit[];
};

/** The windows of an account for one operation, beside those of its plan. */
export type OperationLimits = {
  /** The name under which their counts are kept: five characters of `0-9a-z` at most. */
  readonly id: string;
  /** Shortest first, each with its `operation`; never empty. */
  readonly windows: readonly Limit[];
};
