import type { BanPolicy } from "../../../src/core/quota/bans.ts";

/** `bans` as it is by default (docs/configuration.md#bans). */
export const DEFAULT_BANS: BanPolicy = {
  strikes: 20,
  withinMs: 60_000,
  graceMs: 1_000,
  durationMs: 60_000,
  factor: 4,
  maxMs: 86_400_000,
  forgetAfterMs: 86_400_000,
};
