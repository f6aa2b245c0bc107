import type { LoadName } from "../load/messages.ts";
import type { Slice } from "../measure/slice.ts";

/** All that one run has found; `--json` prints it as it is. */
export type Report = {
  readonly madeAt: string;
  readonly machine: Machine;
  readonly options: RunOptions;
  readonly variants: readonly VariantRow[];
  /** By load and figure: a relative difference below it is none. */
  readonly noise: Readonly<Partial<Record<LoadName, Noise>>>;
  readonly refusals: readonly CaseRow[];
  readonly growth: readonly GrowthRow[];
  /** Absent in reports from before it was measured. */
  readonly line?: LineFound | undefined;
  readonly targets: readonly TargetRow[];
  /** Variants that were not measured, and why. */
  readonly leftOut: readonly { readonly title: string; readonly why: string }[];
};

export const PARTS = ["line", "variants", "refusals", "growth"] as const;
export type Part = (typeof PARTS)[number];

export type RunOptions = {
  readonly parts: readonly Part[];
  /** Names of variants; empty: all. */
  readonly variants: readonly string[];
  readonly rounds: number;
  readonly sliceMs: number;
  /** Requests that each instance answers before anything is counted. */
  readonly warmUpRequests: number;
  /** The last step of growth. */
  readonly accountsMax: number;
};

export type Machine = {
  readonly processor: string;
  readonly cores: number;
  readonly system: string;
  readonly node: string;
  /** The share of all cores that other programs took while the benchmark ran. */
  readonly othersShare: number;
};

export type NoisyFigure = "gatewayUs" | "sumUs" | "p50Ms" | "p99Ms";
export type Noise = Readonly<Record<NoisyFigure, number>>;

export type VariantRow = {
  readonly name: string;
  readonly title: string;
  readonly counts: string;
  readonly keys: number;
  readonly instances: number;
  /** Medians over the slices of each instance, then over the instances. */
  readonly loads: Readonly<Partial<Record<LoadName, Slice>>>;
  /** Slices that were spoilt. */
  readonly failures: readonly string[];
};

export type CaseRow = {
  readonly name: string;
  readonly title: string;
  readonly slice: Slice;
};

export type GrowthRow = {
  readonly accounts: number;
  readonly slice: Slice;
  readonly gatewayBytes: number;
  readonly storeBytesPerAccount: number;
};

/** CPU of the log line and the metrics of a request, in microseconds; `noise` as a share of it. */
export type LineFound = { readonly us: number; readonly noise: number };

export type TargetRow = {
  readonly what: string;
  /** "at most 1.0". */
  readonly target: string;
  readonly found: number;
  /** `found` as a multiple of the limit. */
  readonly distance: number;
  readonly met: boolean;
};
