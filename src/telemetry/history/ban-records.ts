import { isText, LAST_MS } from "../log/logged-line.ts";

/** A ban as its event describes it. Instants are Unix seconds. */
export type BanRecord = {
  readonly account: string;
  readonly environment: string;
  readonly window: string;
  readonly at: number;
  readonly until: number;
  /** When people lifted the ban, before its end. */
  readonly lifted?: number;
  /** When people imposed the next ban of the account, before the end of this one: its `at`. */
  readonly replaced?: number;
  readonly offences: number;
  /** The ban was only announced: `bans.observe` was on, and no request was refused for it. */
  readonly observed?: true;
  /** People imposed the ban: it has no strikes. */
  readonly imposed?: true;
  /** The reason that they entered, if any. */
  readonly reason?: string;
  /** The refusals that earned the ban, on any gateway. */
  readonly strikes: readonly { readonly at: number }[];
};

/** The lift of the ban of an account. `at` is in Unix seconds. */
export type BanLift = Pick<BanRecord, "account" | "environment" | "at">;

type Members = Readonly<Record<string, unknown>>;

/** The ban of an event or a log line; undefined without one, or with a wrong member. */
export function banRecord(event: Members): BanRecord | undefined {
  const { kind, account, env: environment, window, until, offences, decidedAt } = event;
  const atMs = decidedAt ?? event.time;
  if (kind !== "ban" || !isText(account) || !isText(environment) || !isText(window)) return;
  if (!isInstant(until) || until > LAST_MS / 1_000 || !isInstant(offences) || !isInstant(atMs))
    return;
  const strikes = event.strikes ?? [];
  if (!Array.isArray(strikes) || !strikes.every((at) => isInstant(at) && at <= LAST_MS / 1_000))
    return;
  // Earlier versions logged a ban by hand without any of these members. An earned ban
  // always has some.
  const isByHand = event.imposed === true || (decidedAt === undefined && strikes.length === 0);
  const { reason } = event;
  return {
    ...{ account, environment, window, at: atMs / 1_000, until, offences },
    ...(event.observed === true ? { observed: true } : {}),
    ...(isByHand ? { imposed: true } : {}),
    ...(isByHand && isText(reason) && reason !== "" ? { reason } : {}),
    strikes: strikes.map((at) => ({ at })),
  };
}

/** The lift that an event or a log line describes. Undefined as for `banRecord`. */
export function banLift(event: Members): BanLift | undefined {
  const { kind, account, env: environment } = event;
  const atMs = event.decidedAt ?? event.time;
  if (kind !== "ban_lifted" || !isText(account) || !isText(environment)) return;
  return isInstant(atMs) ? { account, environment, at: atMs / 1_000 } : undefined;
}

function isInstant(value: unknown): value is number {
  return Number.isFinite(value) && (value as number) >= 0 && (value as number) <= LAST_MS;
}
