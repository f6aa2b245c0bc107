import type { KeyRecord } from "../core/keys/key.ts";
import type { Config, Loaded, Mistake } from "./config.ts";
import { refuseReload } from "./reload.ts";

/** The configuration that takes the place of the one in force, or why there is none. */
export type Next =
  | { readonly ok: true; readonly config: Config }
  | {
      readonly ok: false;
      readonly mistakes: readonly Mistake[];
      readonly reasons: readonly string[];
    };

export type InForce = {
  readonly from: Config;
  readonly records: readonly KeyRecord[];
  /** Unix milliseconds. */
  readonly nowMs: number;
};

/** Judges what was read aside: mistakes of its own first, then what a reload cannot do. */
export function judgeNext(loaded: Loaded, { from, records, nowMs }: InForce): Next {
  if (!loaded.ok) return { ok: false, mistakes: loaded.mistakes, reasons: [] };
  const { config } = loaded;
  const reasons = refuseReload({ from, to: config }, records, nowMs);
  return reasons.length === 0 ? { ok: true, config } : { ok: false, mistakes: [], reasons };
}

/** For people: `FILE:LINE:COL: message`, or the reason. */
export function whyNot({ mistakes, reasons }: Extract<Next, { ok: false }>): readonly string[] {
  const placed = mistakes.map(({ file, line, column, message }) => {
    return `${file}:${line}:${column}: ${message}`;
  });
  return [...placed, ...reasons];
}
