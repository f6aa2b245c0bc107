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
    return bans.map((ban, i) => inWholeSeconds(withEnd(ban, bans[placeOfNext(bans, i)], lifts)));
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

/** The place of the first ban in force that began after the one at `place`, in a list with the oldest first. */
export function placeOfNext(bans: readonly BanRecord[], place: number): number {
  const { at } = bans[place] as BanRecord;
  let next = place + 1;
  // An observed ban ends none. One that begins at the same instant may be the same, read twice.
  const isPassed = (ban: BanRecord) => ban.observed || ban.at === at;
  while (next < bans.length && isPassed(bans[next] as BanRecord)) next += 1;
  return next;
}

/**
 * The ban with the first lift between it and the next one, or with the next one if that replaced it:
 * one that was earned begins beside another that a gateway knows, or after a lift that is not known.
 */
function withEnd(
  ban: BanRecord,
  next: BanRecord | undefined,
  lifts: readonly BanLift[],
): BanRecord {
  if (ban.observed) return ban;
  const end = Math.min(ban.until, next?.at ?? ban.until);
  const inside = lifts.map(({ at }) => at).filter((at) => at >= ban.at && at < end);
  if (inside.length > 0) return { ...ban, lifted: Math.min(...inside) };
  return next?.imposed && next.at < ban.until ? { ...ban, replaced: next.at } : ban;
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
