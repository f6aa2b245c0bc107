import { hash } from "node:crypto";
import { RateLimiterMemory, type RateLimiterRes } from "rate-limiter-flexible";
import type { Standing } from "../core/standing.ts";
import type { WindowName } from "../core/windows.ts";
import { addressGroup } from "./address.ts";

/** The library holds a timer for each key, so addresses share this many slots: it stays bounded. */
const SLOTS = 65_536;

/** The library sets a timer for the window, and Node's end at 2^31 ms: a month is 24 days here. */
const SECONDS = { second: 1, minute: 60, hour: 3_600, day: 86_400, month: 24 * 86_400 } as const;

/** Where an address stands with its failed authentications. */
export type Failures = { readonly standing: Standing; readonly over: boolean };

export type FailureAllowance = {
  /** Counts one failed authentication of the address. */
  failed(address: string, nowMs: number): Promise<Failures>;
  /** Where the address stands; counts nothing. */
  look(address: string, nowMs: number): Promise<Standing>;
};

/**
 * The allowance of contract 4.2: so many failed authentications per client address (IPv6: /64) and
 * window, per process. A valid key is never judged by it. The window opens with the first failure.
 */
export function createFailureAllowance(allowance: {
  readonly window: WindowName;
  readonly limit: number;
}): FailureAllowance {
  const { limit } = allowance;
  const seconds = SECONDS[allowance.window];
  const limiter = new RateLimiterMemory({ points: limit, duration: seconds });

  function standing(used: number, msLeft: number, nowMs: number): Standing {
    return { limit, remaining: Math.max(0, limit - used), resetMs: nowMs + msLeft };
  }
  return {
    async failed(address, nowMs) {
      try {
        const { consumedPoints, msBeforeNext } = await limiter.consume(slot(address));
        return { standing: standing(consumedPoints, msBeforeNext, nowMs), over: false };
      } catch (refusal) {
        // The library rejects with a plain result when the allowance is used up, and never else.
        const { msBeforeNext } = refusal as RateLimiterRes;
        return { standing: standing(limit, msBeforeNext, nowMs), over: true };
      }
    },
    async look(address, nowMs) {
      const known = await limiter.get(slot(address));
      if (known === null) return standing(0, seconds * 1000, nowMs);
      return standing(known.consumedPoints, known.msBeforeNext, nowMs);
    },
  };
}

function slot(address: string): string {
  const digest = hash("sha1", addressGroup(address), "hex");
  return String(Number.parseInt(digest.slice(0, 8), 16) % SLOTS);
}
