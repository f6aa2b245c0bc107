import type { Ban } from "../../core/quota/bans.ts";
import type { Calendar } from "../../core/quota/calendar.ts";
import type { WindowName } from "../../core/quota/windows.ts";
import type { AccountRef } from "./account-ref.ts";

/** A window that was set to 0, and the units that it had counted before. */
export type ResetWindow = {
  readonly counter: string;
  readonly units: number;
};

/**
 * The windows to set to 0: those of the named counters (`minute`, `1z141.minute`: see
 * `counterName`), or all of them. `calendar` is that of the account, if it has one.
 */
export type ResetScope = {
  readonly counters?: readonly string[] | undefined;
  readonly calendar?: Calendar | undefined;
};

/** The windows of an account that were set to 0, at an instant of the store's clock. */
export type ResetEvent = {
  readonly accountRef: AccountRef;
  readonly atMs: number;
  readonly windows: readonly ResetWindow[];
};

/** A ban by hand. `plan` is the account's plan, and `reason` may be empty. */
export type ImposedBan = {
  readonly lengthMs: number;
  readonly window: WindowName;
  readonly keptMs: number;
  readonly plan: string;
  readonly reason: string;
};

/**
 * How the ban that ends at `untilMs` came about at `atMs`: people imposed it, with or without a
 * reason, or strikes at these instants earned it.
 */
export type BanCause = {
  readonly untilMs: number;
  readonly atMs: number;
  readonly imposed: boolean;
  readonly reason: string;
  readonly strikesMs: readonly number[];
};

/** The windows of meters of an account that a reset has set to 0, by their counters. */
export type HeardReset = Pick<ResetEvent, "accountRef" | "atMs"> & {
  readonly counters: readonly string[];
};

/** The reset as gateways hear of it; undefined if none of its windows is one of a meter. */
export function heardReset({ accountRef, atMs, windows }: ResetEvent): HeardReset | undefined {
  const counters = windows.map(({ counter }) => counter).filter((one) => one.startsWith("#"));
  return counters.length === 0 ? undefined : { accountRef, atMs, counters };
}

/** A ban that people imposed, as it is reported, or the end of a ban that they lifted. */
export type BanEvent = {
  readonly accountRef: AccountRef;
  readonly atMs: number;
  readonly imposed:
    | (Pick<Ban, "untilMs" | "offences"> & Pick<ImposedBan, "window" | "plan" | "reason">)
    | undefined;
};

/** A change that a command made in the store, for one gateway to report. */
export type AdminEvent = ResetEvent | BanEvent;
