import { type BanLift, type BanRecord, banLift, banRecord } from "./ban-records.ts";

type AccountOf = Pick<BanRecord, "account" | "environment">;

/**
 * The last bans of events, and the last lifts of bans. Events may come in any order: a lift is
 * matched with its ban when the ban is read.
 */
export class BanHistory {
  readonly #bans: BanRecord[] = [];
  readonly #lifts: BanLift[] = [];
  readonly #max: number;

  /** At most `max` bans and as many lifts are kept. The oldest are dropped first. */
  constructor(max: number) {
    this.#max = max;
  }

  /** Called with each event, and with each line of a log that is not a request. */
  event(line: Readonly<Record<string, unknown>>): void {
    this.#keep(this.#bans, banRecord(line));
    this.#keep(this.#lifts, banLift(line));
  }

  /** The bans of an account, oldest first, in whole seconds. */
  of(owner: AccountOf): BanRecord[] {
    const lifts = this.#lifts.filter((lift) => isOf(lift, owner));
    const bans = this.#bans.filter((ban) => isOf(ban, owner)).sort((a, b) => a.at - b.at);
    return bans.map((ban) => inWholeSeconds(withEnd(ban, bans, lifts)));
  }

  /** An account with a ban that has this id. */
  ownerOf(id: string): AccountOf | undefined {
    return this.#bans.find(({ account }) => account === id);
  }

  #keep<T>(kept: T[], one: T | undefined): void {
    if (one === undefined) return;
    kept.push(one);
    if (kept.length > this.#max) kept.shift();
  }
}

function isOf(one: AccountOf, { account, environment }: AccountOf): boolean {
  return one.account === account && one.environment === environment;
}

/** The ban with the first lift inside it, or else with the first of the later bans inside it. */
function withEnd(ban: BanRecord, bans: readonly BanRecord[], lifts: readonly BanLift[]): BanRecord {
  if (ban.observed) return ban;
  const next = bans.find(({ at, observed }) => !observed && at > ban.at && at < ban.until);
  const end = next?.at ?? ban.until;
  const inside = lifts.map(({ at }) => at).filter((at) => at >= ban.at && at < end);
  if (inside.length > 0) return { ...ban, lifted: Math.min(...inside) };
  return next === undefined ? ban : { ...ban, replaced: next.at };
}

/** The end of something is rounded up and its beginning down (docs/reference/commands.md#json). */
function inWholeSeconds(ban: BanRecord): BanRecord {
  return {
    ...ban,
    ...{ at: Math.floor(ban.at), until: Math.ceil(ban.until) },
    ...(ban.lifted !== undefined && { lifted: Math.ceil(ban.lifted) }),
    ...(ban.replaced !== undefined && { replaced: Math.floor(ban.replaced) }),
    strikes: ban.strikes.map(({ at }) => ({ at: Math.floor(at) })),
  };
}
