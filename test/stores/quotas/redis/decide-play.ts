import assert from "node:assert/strict";
import type { ChainableCommander, Redis } from "ioredis";
import { type Calendar, changeAnchor } from "../../../../src/core/quota/calendar.ts";
import {
  type AccountState,
  decide,
  dropEndedWindows,
  NEW_ACCOUNT_STATE,
  type QuotaDecision,
  type QuotaRequest,
} from "../../../../src/core/quota/decide.ts";
import { heldUnits } from "../../../../src/core/quota/meters.ts";
import {
  counterName,
  currentEnd,
  isCap,
  isMeter,
  type Limit,
  mergeLimits,
  type WindowName,
  windowStart,
} from "../../../../src/core/quota/windows.ts";
import { DECIDE_SCRIPT } from "../../../../src/stores/quotas/redis/account-scripts.ts";
import {
  decodeDecisions,
  encodeDecide,
  type KeyedRequest,
} from "../../../../src/stores/quotas/redis/decide-codec.ts";
import { windowField } from "../../../../src/stores/quotas/redis/window-fields.ts";
import type { Script } from "../../../../src/stores/redis/script.ts";
import { ACCOUNTS, DAY, type Damage, type Sequence } from "./decide-sequences.ts";

/** The first millisecond after the window that holds `nowMs`, from the calendar of the machine. */
function nextEdge(window: WindowName, nowMs: number): number {
  const at = new Date(nowMs);
  const [year, month, day] = [at.getUTCFullYear(), at.getUTCMonth(), at.getUTCDate()];
  const [hour, minute, second] = [at.getUTCHours(), at.getUTCMinutes(), at.getUTCSeconds()];
  if (window === "second") return Date.UTC(year, month, day, hour, minute, second + 1);
  if (window === "minute") return Date.UTC(year, month, day, hour, minute + 1);
  if (window === "hour") return Date.UTC(year, month, day, hour + 1);
  if (window === "day") return Date.UTC(year, month, day + 1);
  if (window === "week") return Date.UTC(year, month, day + 7 - ((at.getUTCDay() + 6) % 7));
  if (window === "month") return Date.UTC(year, month + 1);
  return Date.UTC(year + 1, 0);
}

/** The account as the script should find it: what was damaged is lost, and worth telling once. */
type Modelled = { account: AccountState; readonly damaged: Set<string> };

function expect(held: Modelled, quotaRequest: QuotaRequest, nowMs: number): QuotaDecision {
  const usage = { ...held.account.usage };
  let { strikesMs, ban } = held.account;
  const damaged = held.damaged.has("key");
  let repaired = damaged;
  for (const limit of quotaRequest.limits) {
    const window = counterName(limit);
    if (!held.damaged.has(window)) continue;
    delete usage[window];
    repaired = true;
  }
  if (held.damaged.has("strikes")) [strikesMs, repaired] = [[], true];
  if (held.damaged.has("ban")) [ban, repaired] = [undefined, true];
  const decision = decide({ usage, strikesMs, ban }, quotaRequest, nowMs);
  const verdict = { ...decision.decision, repaired: repaired || decision.decision.repaired };
  const isLook = quotaRequest.requests === 0;
  const moved = decision.decision.moved ?? [];
  // A look changes nothing that is not damaged, and leaves a window from the future to the next request.
  if (!isLook || repaired || moved.some(({ at }) => at === "ban")) {
    const after = repaired ? dropEndedWindows(decision.account, nowMs) : decision.account;
    const left = (isLook ? moved : []).flatMap(({ at }) => {
      const limit = at === "ban" ? undefined : quotaRequest.limits[at];
      return limit === undefined ? [] : [counterName(limit)];
    });
    held.account = {
      ...after,
      usage: {
        ...capsThatStay(usage, quotaRequest, nowMs),
        ...after.usage,
        ...Object.fromEntries(left.map((counter) => [counter, usage[counter]])),
      },
    };
    for (const limit of quotaRequest.limits) held.damaged.delete(counterName(limit));
    for (const each of ["strikes", "ban", "key"]) held.damaged.delete(each);
  }
  return verdict;
}

function harm(
  pipeline: ChainableCommander,
  key: string,
  held: Modelled,
  { field, text }: Damage,
): void {
  if (field === "key") {
    pipeline.del(key).lpush(key, "not a hash");
    held.account = { ...NEW_ACCOUNT_STATE, usage: capsOf(held.account) };
    held.damaged.clear();
    held.damaged.add("key");
    return;
  }
  if (held.damaged.has("key")) return;
  const name = field === "strikes" ? "k" : field === "ban" ? "b" : windowField({ window: field });
  // "1 2" is no window and no ban, but it is two strikes.
  pipeline.hset(key, name, field === "strikes" && text === "1 2" ? "1-2" : text);
  held.damaged.add(field);
}

/** The caps of keys and the meters are in hashes of their own, and outlive the account's. */
function capsOf({ usage }: AccountState): AccountState["usage"] {
  return Object.fromEntries(Object.entries(usage).filter(([counter]) => /^[@#]/.test(counter)));
}

/**
 * A cap or a meter whose window is over stays in Redis until a new window begins in its hash: sixteen
 * keys share one, and all meters.
 */
function capsThatStay(
  before: AccountState["usage"],
  { limits }: QuotaRequest,
  nowMs: number,
): AccountState["usage"] {
  const hashOf = (counter: string) => {
    return counter.startsWith("#") ? "m" : Math.floor(Number.parseInt(counter.slice(1), 10) / 16);
  };
  const fresh = limits
    .filter((limit) => isCap(limit) || isMeter(limit))
    .flatMap((limit) => {
      const startMs = before[counterName(limit)]?.startMs ?? -1;
      return startMs < windowStart(limit.window, nowMs, limit.calendar)
        ? [hashOf(counterName(limit))]
        : [];
    });
  const stay = Object.entries(before).filter(([counter]) => {
    return /^[@#]/.test(counter) && !fresh.includes(hashOf(counter));
  });
  return Object.fromEntries(stay);
}

/** The history as the script should keep it: the fields of each hash, by its key. */
class Days {
  readonly byHash = new Map<string, Map<number, number>>();
  /** The numbers of the meters in each hash. */
  readonly #meters = new Map<string, string[]>();

  add(
    key: string,
    { granted }: QuotaDecision,
    { cost = 1, limits }: QuotaRequest,
    nowMs: number,
  ): void {
    if (granted === 0) return;
    const at = new Date(nowMs);
    const month = Date.UTC(at.getUTCFullYear(), at.getUTCMonth()) / DAY;
    const hash = `${key.replace(":{", ":h{")}:${month}`;
    const fields = this.byHash.get(hash) ?? new Map<number, number>();
    this.byHash.set(hash, fields);
    const field = 3 * (at.getUTCDate() - 1);
    fields.set(field, (fields.get(field) ?? 0) + granted);
    for (const { name, units } of heldUnits(limits)) {
      if (units === 0) continue;
      const names = this.#meters.get(hash) ?? [];
      if (!names.includes(name)) names.push(name);
      this.#meters.set(hash, names);
      const metered = 100 * (names.indexOf(name) + 1) + at.getUTCDate() - 1;
      fields.set(metered, (fields.get(metered) ?? 0) + granted * units);
    }
    if (cost === 1) return;
    fields.set(field + 1, (fields.get(field + 1) ?? 0) + granted * (cost - 1));
  }

  async verify(redis: Redis): Promise<void> {
    for (const [hash, fields] of this.byHash) {
      const all = Object.entries(await redis.hgetall(hash));
      const stored = all.filter(([field]) => !field.startsWith("#"));
      const named = all.filter(([field]) => field.startsWith("#") && field.length > 1);
      assert.deepEqual(
        named.sort(([, a], [, b]) => Number(a) - Number(b)).map(([field]) => field.slice(1)),
        this.#meters.get(hash) ?? [],
      );
      const found = new Map(stored.map(([field, text]) => [Number(field), Number(text)]));
      assert.deepEqual(found, fields, hash);
      assert.ok((await redis.pttl(hash)) > 0, `${hash} is not kept for ever`);
    }
    if (this.byHash.size > 0) await redis.del(...this.byHash.keys());
  }
}

/**
 * The calendar after a change of the anchor, which the running month may refuse. Every seventh change
 * is one that no command makes: it begins in the middle of a month.
 */
function withAnchor(calendar: Calendar | undefined, day: number, nowMs: number) {
  const fromMs = DAY * (Math.floor(nowMs / DAY) + day);
  if (day % 7 === 0 && fromMs > (calendar?.at(-1)?.fromMs ?? 0)) {
    return [...(calendar ?? []), { day: (day % 31) + 1, fromMs }];
  }
  const changed = changeAnchor(calendar, day, nowMs);
  return "calendar" in changed && changed.calendar.length > 0 ? changed.calendar : calendar;
}

function nextMonth(calendar: Calendar | undefined, nowMs: number): number {
  return currentEnd({ window: "month", limit: 1, ...(calendar && { calendar }) }, nowMs);
}

let number = 0;

/**
 * Plays a sequence to `decide()` and to the script, which Redis has to know, and throws where the two
 * differ. Every other sequence keeps a history, which changes no verdict.
 */
export async function play(
  redis: Redis,
  run: Sequence,
  { sha }: Script = DECIDE_SCRIPT,
): Promise<void> {
  const base = `t:{0}:e:${number++}`;
  const keys = Array.from({ length: ACCOUNTS }, (_, i) => `${base}-${i}`);
  const held = keys.map((): Modelled => ({ account: NEW_ACCOUNT_STATE, damaged: new Set() }));
  const plans = [...run.plans];
  const calendars: (Calendar | undefined)[] = keys.map(() => undefined);
  const pipeline = redis.pipeline();
  const expected: { at: number; requests: KeyedRequest[]; verdicts: QuotaDecision[] }[] = [];
  const historyMs = number % 2 === 0 ? undefined : 400 * DAY;
  const days = new Days();
  let { startMs: nowMs, bans } = run;
  for (const each of run.steps) {
    // Not before the first Monday since 1970: where a window starts is kept as a number without a sign.
    if (each.kind === "clock") nowMs = Math.max(5 * DAY, nowMs + each.byMs);
    if (each.kind === "edge") nowMs = nextEdge(each.window, nowMs) + each.offMs;
    if (each.kind === "anchor") {
      calendars[each.account] = withAnchor(calendars[each.account], each.day, nowMs);
    }
    if (each.kind === "monthEdge") {
      nowMs = nextMonth(calendars[each.account], nowMs) + each.offMs;
    }
    if (each.kind === "policy") bans = each.bans;
    if (each.kind === "terms") plans[each.account] = each.limits;
    if (each.kind === "persist") pipeline.persist(keys[each.account] as string);
    if (each.kind === "damage") {
      harm(pipeline, keys[each.account] as string, held[each.account] as Modelled, each.how);
    }
    if (each.kind !== "ask") continue;
    const asks = each.asks.map(({ account: of, units: requests, ...ask }) => {
      const limits = mergeLimits(plans[of] as readonly Limit[], { calendar: calendars[of] });
      const quotaRequest = { ...ask, limits, bans, requests };
      return { key: keys[of] as string, quotaRequest, historyMs };
    });
    const verdicts = asks.map(({ quotaRequest }, i) => {
      const decision = expect(held[each.asks[i]?.account ?? 0] as Modelled, quotaRequest, nowMs);
      if (historyMs !== undefined) days.add(asks[i]?.key as string, decision, quotaRequest, nowMs);
      return decision;
    });
    expected.push({ at: pipeline.length, requests: asks, verdicts });
    // Now as keys of the command, now as the accounts of a node of a Cluster.
    const areApart = expected.length % 2 === 0;
    pipeline.call("evalsha", sha, ...encodeDecide(asks, nowMs, 7, areApart));
  }
  const capHashes = keys.flatMap((key) =>
    [0, 1, "m"].map((i) => `${key.replace(":{", ":c{")}:${i}`),
  );
  pipeline.del(...keys, ...capHashes);
  const replies = (await pipeline.exec()) ?? [];
  for (const { at, requests, verdicts } of expected) {
    const [error, reply] = replies[at] ?? [];
    assert.ifError(error ?? null);
    assert.deepEqual(decodeDecisions(requests, reply, 7), verdicts);
  }
  await days.verify(redis);
}
