import type { WindowName } from "../../../core/quota/windows.ts";

/**
 * One request of the load, and its response as the client saw it. Instants are Unix milliseconds.
 */
export type SentRequest = {
  /** The origin of the gateway that it was sent to. */
  readonly origin: string;
  readonly account: string;
  readonly operation: string;
  readonly sentMs: number;
  readonly endedMs: number;
  readonly response: ObservedResponse | undefined;
};

/** Absent fields are NaN; an absent cost is 1. */
export type ObservedResponse = {
  readonly status: number;
  readonly window: string;
  readonly limit: number;
  readonly remaining: number;
  readonly resetSeconds: number;
  readonly retryAfterSeconds: number;
  readonly cost: number;
};

/** One limit that an account was promised. All windows of it have the same length. */
export type PromisedLimit = {
  readonly window: WindowName;
  readonly limit: number;
  /** The operation, if the limit is for one operation only. */
  readonly operation?: string;
};

export type PromisedOperation = {
  readonly cost: number;
  readonly limits: readonly PromisedLimit[];
};

/** The promises to all accounts. */
export type Promises = {
  /** By account. */
  readonly limits: ReadonlyMap<string, readonly PromisedLimit[]>;
  readonly operations: ReadonlyMap<string, PromisedOperation>;
  /** Accounts that obey Retry-After and earn no ban. */
  readonly patient: ReadonlySet<string>;
  readonly gateways: number;
  /** Whether the store runs on this machine. Otherwise its clock is learned from the responses. */
  readonly isClockOurs: boolean;
  /** Units of an account that gateways reported as possibly charged twice. */
  readonly uncertainOf: (account: string) => number;
};

export type TimeSpan = { readonly fromMs: number; readonly toMs: number };

/** The findings about all responses. */
export type CheckReport = {
  readonly requests: number;
  readonly admitted: number;
  readonly refused: number;
  /** Sent, and never answered, because a gateway was killed. */
  readonly unanswered: number;
  readonly windows: number;
  /** Units admitted over the limits. */
  readonly overLimit: number;
  /**
   * Refusals of requests that fitted, even if everything that may have been counted until then was.
   */
  readonly falseRefusals: number;
  /** Refusals by a ban, and requests admitted during one. */
  readonly bannedRefusals: number;
  readonly bansIgnored: number;
  readonly untrueHeaders: number;
  readonly otherAnswers: number;
  /** Refusals by a gateway's share: 503, although the limit had room. */
  readonly shareRefusals: number;
  readonly longestWaitMs: number;
  /** The first few findings, in words. */
  readonly examples: readonly string[];
};

/** Whether a span meets one of these. */
export function isIn(spans: readonly TimeSpan[], { fromMs, toMs }: TimeSpan): boolean {
  return spans.some((one) => fromMs <= one.toMs && toMs >= one.fromMs);
}
