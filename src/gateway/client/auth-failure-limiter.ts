import { hash, randomUUID } from "node:crypto";
import { createRequire } from "node:module";
import type * as library from "rate-limiter-flexible";
import { addressGroup } from "../../core/address.ts";
import type { RateLimitInfo } from "../../core/quota/rate-limit-info.ts";
import { type Limit, type WindowName, windowEnd, windowStart } from "../../core/quota/windows.ts";

/**
 * By the path of its file, because the library's main module loads clients of fifteen databases. The
 * path is no promise of the library, so that package.json names one version of it.
 */
const RateLimiterMemory = createRequire(import.meta.url)(
  "rate-limiter-flexible/lib/RateLimiterMemory.js",
) as typeof library.RateLimiterMemory;

/** Addresses share slots, because the library has a timer for each key. */
const SLOTS = 65_536;

/**
 * Random for each process. Without it an attacker could compute which address shares the slot of a
 * victim, and use up the allowance of both.
 */
const SALT = randomUUID();

/**
 * The longest time to remember. The library sets a timer for it, and Node's timers end at 2^31 ms
 * (24 days).
 */
const SECONDS_MAX = 24 * 86_400;

/** The standing of an address by its failed authentications. */
type AuthFailures = { readonly rateLimitInfo: RateLimitInfo; readonly over: boolean };

export type AuthFailureLimiter = {
  readonly window: WindowName;
  /** Counts one failed authentication of the address. */
  consume(address: string, nowMs: number): Promise<AuthFailures>;
  /** The standing of the address. Counts nothing. */
  peek(address: string, nowMs: number): Promise<RateLimitInfo>;
};

/**
 * The allowance for failed authentications (docs/reference/http.md#failure-allowance): `limit` for
 * each client address (IPv6: /64) and window, in each process. A valid key is never judged by it.
 * The window is aligned to UTC like all others. Each window has its own counters, which are dropped
 * at its end.
 */
export function createAuthFailureLimiter(
  { window, limit }: Limit,
  salt: string = SALT,
): AuthFailureLimiter {
  const limiter = new RateLimiterMemory({ points: limit, duration: SECONDS_MAX });

  /** The counter of an address in the running window, and its state after `failures`. */
  function counterOf(address: string, nowMs: number) {
    const startMs = windowStart(window, nowMs);
    const resetMs = windowEnd(window, startMs);
    return {
      name: `${slot(address, salt)}@${startMs}`,
      customDuration: Math.min(Math.ceil((resetMs - nowMs) / 1_000), SECONDS_MAX),
      standing: (used: number) => ({ limit, remaining: Math.max(0, limit - used), resetMs }),
    };
  }
  return {
    window,
    async consume(address, nowMs) {
      const { name, customDuration, standing } = counterOf(address, nowMs);
      try {
        const { consumedPoints } = await limiter.consume(name, 1, { customDuration });
        return { rateLimitInfo: standing(consumedPoints), over: false };
      } catch {
        // The library rejects with a plain result only when the allowance is used up.
        return { rateLimitInfo: standing(limit), over: true };
      }
    },
    async peek(address, nowMs) {
      const { name, standing } = counterOf(address, nowMs);
      const known = await limiter.get(name);
      return standing(known?.consumedPoints ?? 0);
    },
  };
}

function slot(address: string, salt: string): string {
  const digest = hash("sha1", salt + addressGroup(address), "hex");
  return String(Number.parseInt(digest.slice(0, 8), 16) % SLOTS);
}
