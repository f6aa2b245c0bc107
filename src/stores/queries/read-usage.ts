import { nextTurn } from "../../base/event-loop.ts";
import type { Config } from "../../config/config.ts";
import { environmentOperationLimits } from "../../config/queries/counters.ts";
import { describeUncounted } from "../../config/unserved-records.ts";
import { type AccountCaps, capsByAccount } from "../../core/keys/caps.ts";
import { isChosen } from "../../core/keys/find-records.ts";
import { findById } from "../../core/keys/record-index.ts";
import { type AccountRecord, effectiveLimits, type Records } from "../../core/keys/records.ts";
import {
  type CountReport,
  countReport,
  type UsageReport,
  type UsageSubject,
  usageReport,
} from "../../core/keys/usage-reports.ts";
import type { QuotaRequest } from "../../core/quota/decide.ts";
import { meterWindows } from "../../core/quota/meters.ts";
import { type Limit, mergeLimits, sortByLength } from "../../core/quota/windows.ts";
import { PartsAsked } from "../quotas/parts-asked.ts";
import type { OnMissing, QuotaAdmin } from "../quotas/quota-store.ts";
import { readWithLostBan } from "./lost-ban.ts";

/** An undefined member matches any account. `over` is in percent of a limit. */
export type UsageFilter = {
  readonly environment?: string | undefined;
  readonly plan?: string | undefined;
  readonly over?: number | undefined;
  readonly top?: number | undefined;
};

/** The number of requests to the store at once: a remote store answers them together. */
const TOGETHER = 100;

/** The parts of the configuration by which accounts are counted. */
type Terms = Pick<Config, "plans" | "planBounds" | "bans" | "environments">;

/**
 * The usage of one account. Charges nothing. Undefined if its plan is not configured. Rejects if
 * the store is unreachable.
 */
export async function usageOf(
  quotas: Pick<QuotaAdmin, "peek" | "knownBan">,
  terms: Terms,
  subject: UsageSubject,
): Promise<UsageReport | undefined> {
  const question = usageRequest(terms, subject);
  if (question === undefined) return undefined;
  const { quotaRequest } = question;
  const peek = () => quotas.peek(subject, quotaRequest);
  const read = await readWithLostBan(quotas, subject, quotaRequest.bans, peek);
  return usageReport(subject, read.decision, { ...question, lostBan: read.lostBan });
}

/**
 * The counts of one account as the list of all has them, or of an address, which has no record.
 * Undefined if its plan is not configured. Rejects if the store is unreachable.
 */
export async function readCounts(
  quotas: Pick<QuotaAdmin, "peek" | "partOf">,
  terms: Terms,
  { accounts, keys }: Records,
  subject: UsageSubject,
): Promise<CountReport | undefined> {
  const account = findById(accounts, subject.account);
  if (account === undefined) return countsOf(quotas, terms, subject);
  const [report] = await readAllCounts(quotas, terms, { accounts: [account], keys });
  return report;
}

async function countsOf(
  quotas: Pick<QuotaAdmin, "peek">,
  terms: Terms,
  subject: UsageSubject,
  createdMs?: number,
  capped?: AccountCaps["keys"],
): Promise<CountReport | undefined> {
  const question = usageRequest(terms, subject);
  if (question === undefined) return undefined;
  return countReport(subject, await quotas.peek(subject, question.quotaRequest), createdMs, capped);
}

/**
 * The counts of all accounts whose plan is configured as they are now, with those of operations and
 * of their keys. Rejects if the store is unreachable. If only a part of it is, rejects unless
 * `onMissing` is given.
 */
export async function readAllCounts(
  quotas: Pick<QuotaAdmin, "peek" | "partOf">,
  terms: Terms,
  { accounts, keys }: Records,
  onMissing?: OnMissing,
): Promise<CountReport[]> {
  const capsOf = capsByAccount(keys);
  return askOfEach(quotas, accounts, onMissing, (account) => {
    const own = capsOf.get(account.id);
    const subject = { ...subjectOf(account), caps: own?.limits };
    return countsOf(quotas, terms, subject, account.createdMs, own?.keys);
  });
}

/**
 * The usage of all accounts that match, those that are nearest to a limit first. Charges nothing.
 * Accounts without limits are left out: `describeUnlisted` names them. Rejects if the store is
 * unreachable. If only a part of it is, rejects unless `onMissing` is given.
 */
export async function readUsage(
  quotas: Pick<QuotaAdmin, "peek" | "knownBan" | "partOf">,
  accounts: readonly AccountRecord[],
  terms: Terms,
  filter: UsageFilter,
  onMissing?: OnMissing,
): Promise<UsageReport[]> {
  const { over = 0, top } = filter;
  const chosen = accounts.filter((account) => isChosen(account, filter));
  const found = await askOfEach(quotas, chosen, onMissing, async (account) => {
    const report = await usageOf(quotas, terms, subjectOf(account));
    if (report === undefined || !hasUsed(report, over)) return undefined;
    return { report, share: shareOf(report) };
  });
  found.sort((a, b) => b.share - a.share || (a.report.account < b.report.account ? -1 : 1));
  return found.slice(0, top).map(({ report }) => report);
}

/** The answers about all accounts that have one, in the order of the accounts. */
async function askOfEach<T>(
  quotas: Pick<QuotaAdmin, "partOf">,
  accounts: readonly AccountRecord[],
  onMissing: OnMissing | undefined,
  question: (account: AccountRecord) => Promise<T | undefined>,
): Promise<T[]> {
  const parts = new PartsAsked((accountRef) => quotas.partOf(accountRef), onMissing);
  const found: T[] = [];
  for (let from = 0; from < accounts.length; from += TOGETHER) {
    const some = accounts.slice(from, from + TOGETHER).map((account) => {
      const accountRef = { environment: account.environment, account: account.id };
      return parts.ask(accountRef, () => question(account));
    });
    for (const answer of await Promise.all(some)) if (answer !== undefined) found.push(answer);
    // The store of this process answers without waiting, so requests get their turn in between.
    await nextTurn();
  }
  return found;
}

function subjectOf({ id, environment, plan, limits, calendar }: AccountRecord): UsageSubject {
  return { account: id, environment, plan, limits, calendar };
}

/**
 * Names the accounts that match and whose keys work, but that `readUsage` leaves out, and why;
 * undefined without any. An account without limits has used no share of one.
 */
export function describeUnlisted(
  terms: Pick<Config, "plans" | "environments">,
  { keys, accounts }: Records,
  { filter, nowMs }: { readonly filter: UsageFilter; readonly nowMs: number },
): string | undefined {
  if ((filter.over ?? 0) > 0) return undefined;
  const chosen = accounts.filter((account) => isChosen(account, filter));
  return describeUncounted(terms, { keys, accounts: chosen }, nowMs);
}

/**
 * Whether at least this percentage of a limit is used. 57 % of 100 are 57 requests exactly: neither
 * 57 / 100 nor 0.07 * 10,000 is an exact number, so the product is rounded.
 */
function hasUsed({ windows }: UsageReport, percent: number): boolean {
  return windows.some(({ used, limit }) => {
    return used * 100 >= Number((percent * limit).toPrecision(15));
  });
}

/** The used part of the limit, for the window that is used most. */
export function shareOf({ windows }: UsageReport): number {
  return Math.max(0, ...windows.map(({ used, limit }) => used / limit));
}

/** The request for an account's usage; `observe` are the limits of its plan that refuse nothing. */
export type UsageRequest = {
  readonly quotaRequest: Omit<QuotaRequest, "requests">;
  readonly observe: readonly Limit[];
  readonly included: readonly Limit[];
};

/**
 * The windows of the account, of every operation of its environment, those that its plan observes,
 * and those of its meters. Undefined if its plan is not configured.
 */
function usageRequest(
  config: Terms,
  { environment, plan, limits: own, caps = [], calendar }: Omit<UsageSubject, "account">,
): UsageRequest | undefined {
  const named = config.plans.get(plan);
  const limits = named === undefined ? [] : effectiveLimits(named, own);
  if (limits.length === 0) return undefined;
  const { observe = [], included = [], meters = [] } = config.planBounds.get(plan) ?? {};
  const operation = environmentOperationLimits(config.environments, environment);
  return {
    quotaRequest: {
      limits: sortByLength([
        ...mergeLimits(sortByLength([...limits, ...caps]), { operation, observe, calendar }),
        ...meterWindows({ plan: meters, own, calendar }),
      ]),
      bans: config.bans,
    },
    observe,
    included,
  };
}
