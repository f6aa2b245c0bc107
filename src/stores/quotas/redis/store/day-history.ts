import { ID_PATTERN } from "../../../../core/keys/records.ts";
import { type DaySpan, type DayUsage, monthsOf } from "../../../../core/quota/days.ts";
import { type AccountRef, bucketOf } from "../../account-ref.ts";
import { PartsAsked } from "../../parts-asked.ts";
import type { OnMissing } from "../../quota-store.ts";
import { historyKey, metersKey } from "../account-key.ts";
import type { QuotaClient } from "../quota-client.ts";

/** The most requests to Redis that are in flight together. */
const TOGETHER = 200;

type DayTotals = {
  admitted: number;
  beyond: number;
  refused: number;
  plan?: string;
  meters?: Record<string, number>;
};

/**
 * The usage of each account by day. Days without usage are left out. Accounts in a part of a
 * Cluster that cannot be reached are left out too, and that part is not asked again. Rejects with
 * StoreFailure; on a Cluster only without `onMissing`.
 */
export async function readDayHistory(
  quotaClient: Pick<QuotaClient, "ask" | "keyOf" | "link">,
  accountRefs: readonly AccountRef[],
  span: DaySpan,
  onMissing?: OnMissing,
): Promise<readonly DayUsage[][]> {
  const { link } = quotaClient;
  const parts = new PartsAsked((accountRef) => link.partOf(bucketOf(accountRef)), onMissing);
  const months = monthsOf(span);
  const read = async (accountRef: AccountRef) => {
    const question = () => readOne(quotaClient, accountRef, months, span);
    return (await parts.ask(accountRef, question)) ?? [];
  };
  const all: DayUsage[][] = [];
  const together = Math.max(1, Math.floor(TOGETHER / (months.length + 1)));
  for (let from = 0; from < accountRefs.length; from += together) {
    all.push(...(await Promise.all(accountRefs.slice(from, from + together).map(read))));
  }
  return all;
}

async function readOne(
  { ask, keyOf }: Pick<QuotaClient, "ask" | "keyOf">,
  accountRef: AccountRef,
  months: readonly number[],
  { from, to }: DaySpan,
): Promise<DayUsage[]> {
  const key = keyOf(accountRef);
  const [waiting, metered, ...hashes] = await Promise.all([
    ask("hget", key, ["y"]),
    ask("hget", metersKey(key), ["y"]),
    ...months.map((month) => ask("hgetall", historyKey(key, month))),
  ]);
  const days = new Map<number, DayTotals>();
  for (const [i, hash] of hashes.entries()) {
    // The client library turns the list that Redis sends into an object.
    addHash(days, months[i] as number, hash as Record<string, string>);
  }
  addWaiting(days, waiting as string | null);
  addWaitingMeters(days, metered as string | null);
  return [...days]
    .filter(([day]) => day >= from && day <= to)
    .sort(([a], [b]) => a - b)
    .map(([day, { admitted, beyond, refused, plan, meters }]) => {
      const counted = { day, admitted, units: admitted + beyond, refused };
      const planned = plan === undefined ? counted : { ...counted, plan };
      return meters === undefined ? planned : { ...planned, meters };
    });
}

const COLUMNS = ["admitted", "beyond", "refused"] as const;

function addHash(days: Map<number, DayTotals>, month: number, hash: Record<string, string>): void {
  const planOf = readPlans(hash);
  const meters = Object.keys(hash).filter((name) => name.length > 1 && name.startsWith("#"));
  const meterOf = (number: number) =>
    meters.find((name) => Number(hash[name]) === number)?.slice(1);
  for (const [name, text] of Object.entries(hash)) {
    const [field, count] = [Number(name), Number(text)];
    // A field that is not a number is damaged and is skipped.
    if (!Number.isSafeInteger(field) || !Number.isSafeInteger(count) || field < 0) continue;
    const meter = meterOf(Math.floor(field / 100));
    if (meter !== undefined) addMeter(dayIn(days, month + (field % 100)), meter, count);
    if (field >= 100) continue;
    const dayOfMonth = Math.floor(field / 3);
    const counted = dayIn(days, month + dayOfMonth);
    const plan = planOf(dayOfMonth);
    if (plan !== undefined) counted.plan = plan;
    counted[COLUMNS[field % 3] as (typeof COLUMNS)[number]] += count;
  }
}

/** The plan of each day of the month, counted from 0; undefined if the hash has none. */
function readPlans(hash: Record<string, string>): (dayOfMonth: number) => string | undefined {
  const changes = Object.keys(hash)
    .filter((name) => /^p([12]?\d|30)$/.test(name))
    .map((name) => Number(name.slice(1)))
    .sort((a, b) => a - b);
  return (dayOfMonth) => {
    const change = changes.find((day) => day > dayOfMonth);
    const plan = hash[change === undefined ? "p" : `p${change}`];
    return plan !== undefined && ID_PATTERN.test(plan) ? plan : undefined;
  };
}

function addWaiting(days: Map<number, DayTotals>, text: string | null): void {
  for (const [, day, admitted, beyond] of text?.matchAll(/(\d+) (-?\d+) (-?\d+)/g) ?? []) {
    const counted = dayIn(days, Number(day));
    counted.admitted += Number(admitted);
    counted.beyond += Number(beyond);
  }
}

function addWaitingMeters(days: Map<number, DayTotals>, text: string | null): void {
  for (const [, meter, day, units] of text?.matchAll(/#([a-z0-9-]+) (\d+) (-?\d+)/g) ?? []) {
    addMeter(dayIn(days, Number(day)), meter as string, Number(units));
  }
}

function addMeter(counted: DayTotals, meter: string, units: number): void {
  const before = counted.meters?.[meter] ?? 0;
  counted.meters = { ...counted.meters, [meter]: Math.max(0, before + units) };
}

function dayIn(days: Map<number, DayTotals>, day: number): DayTotals {
  let counted = days.get(day);
  if (counted === undefined) {
    counted = { admitted: 0, beyond: 0, refused: 0 };
    days.set(day, counted);
  }
  return counted;
}
