import type { Config } from "./config.ts";

/** How long shutting down takes at most: the longest of all environments (edge.md, Process). */
export function drainTimes({ environments }: Config): {
  readonly delayMs: number;
  readonly drainMs: number;
} {
  const limits = environments.map((environment) => environment.limits);
  return {
    delayMs: Math.max(0, ...limits.map(({ drainDelayMs }) => drainDelayMs)),
    drainMs: Math.max(0, ...limits.map(({ drainMs }) => drainMs)),
  };
}
