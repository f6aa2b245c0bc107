import {
  type Ask,
  type Ban,
  type BanPolicy,
  banLength,
  type Verdict,
} from "../../core/quota/decide.ts";
import {
  type Limit,
  WINDOWS,
  type WindowName,
  windowEnd,
  windowStart,
} from "../../core/quota/windows.ts";
import { CALL_ACCOUNTS_MAX } from "../batch/call-queue.ts";
import { read, script } from "./script.ts";

export const DECIDE = script(`${read("./lua/account.lua")}\n${read("./lua/decide.lua")}`);

/** Ends a ban and forgets offences and strikes. ARGV: the test clock in ms, or -1. 1: there was one. */
export const LIFT = script(`
local now = tonumber(ARGV[1])
if now < 0 then
  local time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end
local ban = redis.pcall('HGET', KEYS[1], 'b')
local ends = type(ban) == 'string' and tonumber(string.match(ban, '^(%d+) '))
if not ends or ends <= now then return 0 end
redis.call('HDEL', KEYS[1], 'b', 'k')
return 1`);

/** Counts an event and publishes it with its number. KEYS: the number. ARGV: the channel, the text. */
export const PUBLISH = script(`
local version = redis.call('INCR', KEYS[1])
redis.call('PUBLISH', ARGV[1], string.format('%.0f %s', version, ARGV[2]))
return version`);
const LETTERS = ["s", "m", "h", "d", "M"] as const;
const LETTER = { second: "s", minute: "m", hour: "h", day: "d", month: "M" } as const;

/** One account of a call: `ask.units` requests. All of a call share the ban policy. */
export type KeyedAsk = { readonly key: string; readonly ask: Ask };

const plans = new WeakMap<readonly Limit[], string>();

/** Limits as decide.lua reads them; equal limits give equal text. */
function planText(limits: readonly Limit[]): string {
  let text = plans.get(limits);
  if (text === undefined) {
    text = limits.map(({ window, limit }) => `${LETTER[window]} ${limit}`).join(" ");
    plans.set(limits, text);
  }
  return text;
}

type PolicyText = { readonly terms: string; readonly lengths: string };
const BANS_OFF: PolicyText = { terms: "", lengths: "" };
const policies = new WeakMap<BanPolicy, PolicyText>();

/**
 * The policy as decide.lua reads it. The lengths of bans are computed here: the powers of a fraction
 * may differ in the last bit between JavaScript and Lua.
 */
function policyText(bans: BanPolicy | undefined): PolicyText {
  if (bans === undefined) return BANS_OFF;
  let text = policies.get(bans);
  if (text === undefined) {
    const { strikes, withinMs, graceMs, forgetAfterMs } = bans;
    const lengths = [banLength(bans, 0)];
    for (let offences = 1; offences <= 1024; offences++) {
      const lengthMs = banLength(bans, offences);
      if (lengthMs === lengths.at(-1) && (bans.factor === 1 || lengthMs === bans.maxMs)) break;
      lengths.push(lengthMs);
    }
    text = {
      terms: [strikes, withinMs, graceMs, forgetAfterMs].join(" "),
      lengths: lengths.join(" "),
    };
    policies.set(bans, text);
  }
  return text;
}

/** The arguments of EVALSHA or EVAL after the script: the number of keys, the keys, ARGV. */
export function decideArguments(asks: readonly KeyedAsk[], clockMs: number): (string | number)[] {
  const { terms, lengths } = policyText(asks[0]?.ask.bans);
  const indexes = new Map<string, number>();
  const keys: (string | number)[] = [asks.length];
  const units: number[] = [];
  for (const { key, ask } of asks) {
    const plan = planText(ask.limits);
    let index = indexes.get(plan);
    if (index === undefined) {
      index = indexes.size;
      indexes.set(plan, index);
    }
    keys.push(key);
    units.push(ask.units * CALL_ACCOUNTS_MAX + index);
  }
  return keys.concat(clockMs, terms, lengths, indexes.size, ...indexes.keys(), units);
}

/** Rebuilds each verdict from the reply of decide.lua; throws when it is not one. */
export function readVerdicts(asks: readonly KeyedAsk[], reply: unknown): Verdict[] {
  if (!Array.isArray(reply)) throw new TypeError("Cannot read the store's answer: it is no list");
  const reader = new Reader(reply);
  return asks.map(({ ask }) => readVerdict(reader, ask));
}

class Reader {
  readonly #reply: readonly unknown[];
  readonly nowMs: number;
  #at = 0;
  /** The ends of the windows of now, worked out once for all accounts of the call. */
  readonly #ends = new Map<WindowName, number>();

  constructor(reply: readonly unknown[]) {
    this.#reply = reply;
    this.nowMs = this.next();
  }

  endOf(window: WindowName): number {
    let endMs = this.#ends.get(window);
    if (endMs === undefined) {
      endMs = windowEnd(window, windowStart(window, this.nowMs));
      this.#ends.set(window, endMs);
    }
    return endMs;
  }

  next(): number {
    const value = this.#reply[this.#at++];
    if (typeof value === "number") return value;
    throw new TypeError(`Cannot read the store's answer: no number at position ${this.#at}`);
  }
}

function readVerdict(reader: Reader, { limits }: Ask): Verdict {
  const { nowMs } = reader;
  const granted = reader.next();
  const used = limits.map(() => reader.next());
  const plain = reader.next() === 0;
  const windows = limits.map(({ window, limit }, i) => {
    const resetMs = plain ? reader.endOf(window) : reader.next();
    return { window, limit, used: used[i] as number, resetMs };
  });
  if (plain) {
    const strikeDueMs = nowMs;
    return { nowMs, granted, windows, ban: undefined, strikes: 0, strikeDueMs, repaired: false };
  }
  const repaired = reader.next() === 1;
  const strikes = reader.next();
  const strikeDueMs = reader.next();
  const ban = reader.next() === 1 ? readBan(reader) : undefined;
  return { nowMs, granted, windows, ban, strikes, strikeDueMs, repaired };
}

function readBan(reader: Reader): Ban {
  const untilMs = reader.next();
  const lengthMs = reader.next();
  const window = WINDOWS[reader.next()] as WindowName;
  return { untilMs, lengthMs, window, offences: reader.next() };
}

/** The ban in field `b` of an account's hash, or undefined when that is damaged. */
export function parseBan(text: string): Ban | undefined {
  const found = /^(\d+) (\d+) ([smhdM]) (\d+)$/.exec(text);
  if (found === null) return undefined;
  const window = WINDOWS[LETTERS.indexOf(found[3] as (typeof LETTERS)[number])] as WindowName;
  const [untilMs, lengthMs, offences] = [Number(found[1]), Number(found[2]), Number(found[4])];
  return { untilMs, lengthMs, window, offences };
}
