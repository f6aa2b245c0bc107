import { type Ban, type BanPolicy, banLength } from "../../../core/quota/bans.ts";
import { calendarText } from "../../../core/quota/calendar.ts";
import type { Move, QuotaDecision, QuotaRequest } from "../../../core/quota/decide.ts";
import { currentEnd, type Limit } from "../../../core/quota/windows.ts";
import { replyList, unreadableFailure } from "../../redis/store-failure.ts";
import { CALL_ACCOUNTS_MAX } from "../batch/call-queue.ts";
import { banOf } from "./stored-bans.ts";
import { windowField } from "./window-fields.ts";

/**
 * One account of a call, with `quotaRequest.requests` requests. All accounts of a call share the ban
 * policy. `historyMs` is how long the usage of each day is kept; undefined if it is not kept.
 */
export type KeyedRequest = {
  readonly key: string;
  readonly quotaRequest: QuotaRequest;
  readonly historyMs?: number | undefined;
};

const plans = new WeakMap<readonly Limit[], Map<number | string, string>>();

/** Cost, history and limits as decide.lua reads them; equal ones give equal text. */
function planText(
  { limits, reserved, cost = 1, plan = "" }: QuotaRequest,
  historyMs: number | undefined,
): string {
  const terms = historyMs === undefined ? cost : `${cost}h${historyMs}p${plan}`;
  // Rare, and different for each account: caching it is not worth it.
  if (reserved !== undefined) return `${terms} ${limitsText(limits, reserved)}`;
  let texts = plans.get(limits);
  if (texts === undefined) {
    texts = new Map();
    plans.set(limits, texts);
  }
  let text = texts.get(terms);
  if (text === undefined) {
    text = `${terms} ${limitsText(limits)}`;
    texts.set(terms, text);
  }
  return text;
}

/** The limits in text, preceded by the calendar that the months among them have in common. */
function limitsText(limits: readonly Limit[], reserved?: readonly number[]): string {
  const calendar = limits.find((limit) => limit.calendar !== undefined)?.calendar;
  const texts = limits.map((each, i) => {
    const kept = reserved?.[i] ?? 0;
    const hold = each.hold === undefined ? "" : `*${each.hold}`;
    return `${windowField(each)} ${each.limit}${kept > 0 ? `-${kept}` : ""}${hold}`;
  });
  return `${calendar === undefined ? "" : `!${calendarText(calendar)} `}${texts.join(" ")}`;
}

type PolicyText = { readonly terms: string; readonly lengths: string };
const BANS_OFF: PolicyText = { terms: "", lengths: "" };
const policies = new WeakMap<BanPolicy, PolicyText>();

/**
 * The policy as decide.lua reads it. The ban lengths are computed here, because the powers of a
 * fraction may differ in the last bit between JavaScript and Lua.
 */
function policyText(bans: BanPolicy | undefined): PolicyText {
  if (bans === undefined) return BANS_OFF;
  let text = policies.get(bans);
  if (text === undefined) {
    const { strikes, withinMs, graceMs, forgetAfterMs, observe = false } = bans;
    const lengths = [banLength(bans, 0)];
    for (let offences = 1; offences <= 1024; offences++) {
      const lengthMs = banLength(bans, offences);
      if (lengthMs === lengths.at(-1) && (bans.factor === 1 || lengthMs === bans.maxMs)) break;
      lengths.push(lengthMs);
    }
    text = {
      terms: [strikes, withinMs, graceMs, forgetAfterMs, observe ? 1 : 0].join(" "),
      lengths: lengths.join(" "),
    };
    policies.set(bans, text);
  }
  return text;
}

/**
 * The arguments of EVALSHA or EVAL after the script: the number of keys, the keys, ARGV. The reply shows
 * by `tag` that it is the one of this call. Accounts of several buckets (`areApart`) are no keys of the
 * command, which Redis would refuse.
 */
export function encodeDecide(
  requests: readonly KeyedRequest[],
  clockMs: number,
  tag: number,
  areApart = false,
): (string | number)[] {
  const { terms, lengths } = policyText(requests[0]?.quotaRequest.bans);
  const indexes = new Map<string, number>();
  const keys: (string | number)[] = areApart ? [] : [requests.length];
  const asked: number[] = [];
  for (const { key, quotaRequest, historyMs } of requests) {
    const plan = planText(quotaRequest, historyMs);
    let index = indexes.get(plan);
    if (index === undefined) {
      index = indexes.size;
      indexes.set(plan, index);
    }
    keys.push(key);
    const counted = quotaRequest.requests * CALL_ACCOUNTS_MAX + index;
    asked.push(quotaRequest.strikesOnly ? -counted : counted);
  }
  const texts = indexes.keys();
  if (areApart) return [0, clockMs, terms, lengths, tag, indexes.size, ...texts, ...asked, ...keys];
  return keys.concat(clockMs, terms, lengths, tag, indexes.size, ...texts, asked);
}

/**
 * Rebuilds each decision from the reply of decide.lua; undefined for an account of which nothing was
 * done, because some of it is not on that node. Throws if the reply is not the one of the call that had
 * this tag, or not as it was sent.
 */
export function decodeDecisions(
  requests: readonly KeyedRequest[],
  reply: unknown,
  tag: number,
): (QuotaDecision | undefined)[] {
  const reader = new Reader(replyList(reply), tag);
  const verdicts = requests.map(({ quotaRequest }) => readVerdict(reader, quotaRequest));
  reader.end();
  return verdicts;
}

/** Sums are modulo this, as in decide.lua, because larger ones would not be exact. */
const SUM_BELOW = 2 ** 52;

class Reader {
  readonly #reply: readonly unknown[];
  readonly nowMs: number;
  #at = 0;
  /** The tag and all numbers so far. */
  #sum: number;
  readonly #toldSum: unknown;
  /** The ends of the current windows, computed once for all accounts of the call. */
  readonly #ends = new Map<string, number>();

  constructor(reply: readonly unknown[], tag: number) {
    this.#reply = reply;
    this.#sum = tag;
    this.nowMs = this.next();
    this.#toldSum = reply[this.#at++];
  }

  endOf(limit: Limit): number {
    const { window, calendar } = limit;
    const name = calendar === undefined ? window : `${window} ${calendarText(calendar)}`;
    let endMs = this.#ends.get(name);
    if (endMs === undefined) {
      endMs = currentEnd(limit, this.nowMs);
      this.#ends.set(name, endMs);
    }
    return endMs;
  }

  next(): number {
    const value = this.#reply[this.#at++];
    if (typeof value !== "number") throw unreadableFailure(`no number at position ${this.#at}`);
    const sum = this.#sum + value;
    this.#sum = sum < SUM_BELOW ? sum : (this.#sum + (value % SUM_BELOW)) % SUM_BELOW;
    return value;
  }

  /** Throws if the reply is longer, belongs to another call or has a number that was not sent. */
  end(): void {
    const sum = (this.#sum + SUM_BELOW) % SUM_BELOW;
    if (this.#at === this.#reply.length && sum === this.#toldSum) return;
    throw unreadableFailure("it is not the one of this call");
  }

  nextText(): string {
    return String(this.#reply[this.#at++]);
  }
}

function readVerdict(reader: Reader, { limits }: QuotaRequest): QuotaDecision | undefined {
  const { nowMs } = reader;
  const granted = reader.next();
  if (granted === ELSEWHERE) return undefined;
  const used = limits.map(() => reader.next());
  const flags = reader.next();
  const plain = flags % 2 === 0;
  const marks = flags >= LOWERED ? limits.map(() => reader.next()) : undefined;
  const windows = limits.map((each, i) => {
    const { window, limit } = each;
    const resetMs = plain ? reader.endOf(each) : reader.next();
    const counted = { window, limit, used: used[i] as number, resetMs };
    const mark = marks?.[i] ?? 0;
    const standing = mark > 0 ? { ...counted, loweredFrom: mark } : counted;
    const { part, observed, calendar } = each;
    const isPlain = part === undefined && !observed && calendar === undefined;
    return isPlain ? standing : { ...each, ...standing };
  });
  if (plain) {
    const strikeDueMs = nowMs;
    return { nowMs, granted, windows, ban: undefined, strikes: 0, strikeDueMs, repaired: false };
  }
  const repairs = reader.next();
  const moved = Array.from({ length: Math.max(0, repairs - 1) }, () => readMove(reader));
  const strikes = reader.next();
  const strikeDueMs = reader.next();
  const how = reader.next();
  const told = how === NO_BAN ? undefined : readBan(reader);
  const isEarned = how === EARNED || how === OBSERVED;
  const strikesMs = isEarned ? Array.from({ length: reader.next() }, () => reader.next()) : [];
  const ban = how === OBSERVED ? undefined : told;
  const decision = {
    ...{ nowMs, granted, windows, ban, strikes, strikeDueMs, repaired: repairs > 0 },
    ...(moved.length > 0 && { moved }),
  };
  return isEarned ? { ...decision, newBan: { ...(told as Ban), strikesMs } } : decision;
}

/** In place of the units granted: some of the account is on another node, or on its way there. */
const ELSEWHERE = -1;

/** Flags from this value on say that the reply holds counts that were lowered. */
const LOWERED = 2;

/** The numbers of decide.lua for no ban, one just earned, one only observed; 1: one in force. */
const [NO_BAN, EARNED, OBSERVED] = [0, 2, 3] as const;

function readMove(reader: Reader): Move {
  const place = reader.next();
  return { at: place === 0 ? "ban" : place - 1, fromMs: reader.next() };
}

function readBan(reader: Reader): Ban {
  const [untilMs, lengthMs] = [reader.next(), reader.next()];
  const field = reader.nextText();
  const ban = banOf(field, untilMs, lengthMs, reader.next());
  if (ban === undefined) throw unreadableFailure(`no window ${field}`);
  return ban;
}
