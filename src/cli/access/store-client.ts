import { errorMessage } from "../../base/messages.ts";
import type { Config } from "../../config/config.ts";
import { deprecatedOperations } from "../../config/queries/deprecations.ts";
import { unknownIdRefusal } from "../../core/keys/find-records.ts";
import { bansReport, findUsageSubject, type UsageSubject } from "../../core/keys/usage-reports.ts";
import { roundUpToSeconds } from "../../core/quota/whole-seconds.ts";
import { openQuotaStore } from "../../stores/open-stores.ts";
import { activeBans, findBanned } from "../../stores/queries/active-bans.ts";
import { readBanReasons } from "../../stores/queries/ban-reasons.ts";
import {
  type AccountLookup,
  type AccountSelector,
  findAccountBySelector,
  findNamedAccount,
} from "../../stores/queries/find-account.ts";
import { imposedBan, notBannedMessage } from "../../stores/queries/imposed-ban.ts";
import {
  type DayReport,
  historyDisabledError,
  monthlyIncluded,
  readHistory,
  spansOf,
} from "../../stores/queries/read-history.ts";
import {
  describeUnlisted,
  readAllCounts,
  readCounts,
  readUsage,
  usageOf,
} from "../../stores/queries/read-usage.ts";
import { resetWindows } from "../../stores/queries/reset-windows.ts";
import type { OnMissing, QuotaAdmin, QuotaStore } from "../../stores/quotas/quota-store.ts";
import { mayRun } from "../../telemetry/gateway-status.ts";
import type { DeprecatedCall } from "../../telemetry/history/deprecated-calls.ts";
import type { Terminal } from "../framework/terminal.ts";
import {
  type AccountOperations,
  given,
  type HistoryQuery,
  type OperationResult,
  refused,
} from "./account-operations.ts";
import { otherRecordsError, otherStoreError } from "./gateway-differences.ts";
import { lostBanOf, withBansOfGateway, withLostBan, withLostBans } from "./lost-bans.ts";
import { openReadableRecords, type ReadableRecords } from "./readable-records.ts";

/**
 * Queries the shared store directly, so that no gateway needs to run. Close it when done. If key
 * records cannot be read, the queries that need them use the copy of the running gateway, or fail.
 * `strange` says why no query would be about the running gateway.
 */
export async function openStoredAccounts(
  config: Config,
  terminal: Terminal,
): Promise<StoredAccounts> {
  const keys = await openReadableRecords(config, terminal);
  try {
    const quotas = await openQuotaStore(config, { now: terminal.now, report: () => {} });
    const close = async () => {
      await quotas.close();
      await keys.close();
    };
    const accounts = storedAccounts({ config, now: terminal.now, keys, quotas });
    const found = [otherRecordsError(keys, config), otherStoreError(quotas, config)];
    const [records, store] = await Promise.all(found.map(knownOnly));
    return { accounts, strange: records ?? store, close };
  } catch (error) {
    await keys.close();
    throw error;
  }
}

type StoredAccounts = {
  readonly accounts: AccountOperations;
  readonly strange: string | undefined;
  close(): Promise<void>;
};

/** Records or a store that cannot be compared fail in the queries that need them, in their words. */
function knownOnly(found: Promise<string | undefined>): Promise<string | undefined> {
  return found.catch(() => undefined);
}

type Stores = {
  readonly config: Config;
  readonly now: () => number;
  readonly keys: ReadableRecords;
  readonly quotas: QuotaAdmin & Pick<QuotaStore, "gateways">;
};

function storedAccounts(stores: Stores): AccountOperations {
  const { config, now, keys, quotas } = stores;
  /** Reads a report of the account that is named. */
  const reportOf = async <T>(
    selector: AccountSelector,
    read: (subject: UsageSubject) => Promise<T | undefined>,
  ): Promise<OperationResult<T>> => {
    const found = await findAccountBySelector({ quotas, config }, keys.records(), selector);
    if (!found.ok) return notFound(found);
    const report = await read(found.subject);
    if (report !== undefined) return given(report);
    const { account, plan } = found.subject;
    return refused(`Account ${account} is on plan ${plan}, which is not configured`);
  };
  const usage = (selector: AccountSelector) =>
    reportOf(selector, (subject) => usageOf(quotas, config, subject));
  return {
    bans: () =>
      answered(config, async (missing) => {
        const stored = bansReport(await activeBans(quotas, config, missing));
        return given(await withBansOfGateway(config, stored));
      }),
    usage: (selector) =>
      answered(config, async () => {
        const found = await usage(selector);
        return found.ok ? given(await withLostBan(config, found.value)) : found;
      }),
    usageOfAll: (filter) =>
      answered(config, async (missing) => {
        const records = keys.records();
        const stored = await readUsage(quotas, records.accounts, config, filter, missing);
        const value = await withLostBans(config, stored);
        const unlisted = describeUnlisted(config, records, { filter, nowMs: now() });
        return { ok: true, value, ...(unlisted !== undefined && { missing: [unlisted] }) };
      }),
    counts: () =>
      answered(config, async (missing) => {
        return given(await readAllCounts(quotas, config, keys.records(), missing));
      }),
    countsOf: (selector) =>
      answered(config, () => {
        const read = (subject: UsageSubject) => readCounts(quotas, config, keys.records(), subject);
        return reportOf(selector, read);
      }),
    gatewayNames: () =>
      answered(config, async () => {
        const news = await quotas.gateways.list();
        return given(news.filter(({ ageMs }) => mayRun(ageMs)).map(({ name }) => name));
      }),
    history: (query, tell) =>
      answered(config, (missing) => tellHistory(stores, query, tell, missing)),
    banReasons: (id) =>
      answered(config, async () => {
        const found = await usage({ id });
        return found.ok ? given(await readBanReasons(quotas, found.value)) : found;
      }),
    ...storedChanges(stores),
  };
}

/** Resets counts, and imposes and lifts bans, directly in the store. */
function storedChanges({
  config,
  keys,
  quotas,
}: Stores): Pick<AccountOperations, "reset" | "ban" | "liftBan"> {
  return {
    reset: (selector, windows) =>
      answered(config, async (missing) => {
        const found = await findAccountBySelector({ quotas, config }, keys.records(), selector);
        if (!found.ok) return notFound(found);
        const { account, environment } = found.subject;
        const sources = { quotas, config, keys: keys.records().keys };
        const wanted = { id: selector.id, windows };
        const reset = await resetWindows(sources, found.subject, wanted, untold(missing));
        if (!reset.ok) return { ...reset, usage: true };
        return given({ account, environment, windows: reset.told });
      }),
    ban: (id, wanted) =>
      answered(config, async (missing) => {
        const subject = findUsageSubject(keys.records(), id);
        if (subject === undefined) return refused(unknownIdRefusal(id).message);
        const imposed = imposedBan(config, subject, wanted);
        if (typeof imposed === "string") return refused(imposed);
        const { account, environment } = subject;
        const accountRef = { account, environment };
        const { untilMs, offences } = await quotas.ban(accountRef, imposed, untold(missing));
        return given({ account, environment, until: roundUpToSeconds(untilMs), offences });
      }),
    liftBan: (id) =>
      answered(config, async (missing) => {
        const name = await findBanned(quotas, keys.records(), id);
        if (name === undefined) return refused(unknownIdRefusal(id).message);
        const { account, environment } = name;
        const accountRef = { account, environment };
        // No gateway is waited for where the store has the ban.
        const { ban } = await quotas.peek(accountRef, { limits: [], bans: config.bans });
        const isHeld = ban === undefined && (await lostBanOf(config, account)) !== undefined;
        const lifted = await quotas.liftBan(accountRef, untold(missing), isHeld);
        return lifted || isHeld
          ? given({ account, environment })
          : refused(notBannedMessage(config, account));
      }),
  };
}

/** For a change, the missing part is the message by which gateways learn of it. */
function untold(onMissing: OnMissing): OnMissing {
  const meaning = "gateways are not told of it, and go by what they know for a while";
  return (part) => onMissing({ ...part, why: `${part.why}; ${meaning}` });
}

async function tellHistory(
  { config, keys, quotas }: Stores,
  { id, environment, plan, period }: HistoryQuery,
  tell: (rows: readonly DayReport[]) => void,
  missing: OnMissing,
): Promise<OperationResult<undefined>> {
  const off = historyDisabledError(config);
  if (off !== undefined) return refused(off);
  const records = keys.records();
  const found = id === undefined ? undefined : findNamedAccount(records, { id, environment });
  if (found?.ok === false) return notFound(found);
  const includedOf = monthlyIncluded(period, config);
  const filter = { environment, plan, account: found?.subject.account, includedOf };
  const spans = spansOf(period, await quotas.readNow());
  for await (const rows of readHistory(quotas, records.accounts, spans, filter, missing)) {
    tell(rows);
  }
  return given(undefined);
}

type NotFound = Extract<AccountLookup, { ok: false }>;

/**
 * Reports an unreachable store, or an unreachable part of it, in words and without its password.
 */
async function answered<T>(
  config: Config,
  ask: (onMissing: OnMissing) => Promise<OperationResult<T>>,
): Promise<OperationResult<T>> {
  const parts = new Map<string, string>();
  const onMissing: OnMissing = ({ node, buckets, why }) => {
    const name = buckets.length === 1 ? "bucket" : "buckets";
    const place = buckets.length === 0 ? node : `${name} ${buckets.join(", ")} at ${node}`;
    parts.set(node, `${place}: ${why}`);
  };
  try {
    const answer = await ask(onMissing);
    if (!answer.ok || parts.size === 0) return answer;
    return { ...answer, missing: [...parts.values(), ...(answer.missing ?? [])] };
  } catch (error) {
    return refused(storeError(config, error));
  }
}

function notFound({ because, message }: NotFound): OperationResult<never> {
  return because === "unknown" ? refused(message) : { ok: false, message, usage: true };
}

/**
 * The calls of deprecated operations that all gateways have sent to their store; undefined if it
 * cannot be asked, and then the reason is under `missing`.
 */
export async function readDeprecatedCalls(
  config: Config,
): Promise<OperationResult<readonly DeprecatedCall[] | undefined>> {
  const quotas = await openQuotaStore(config, { now: Date.now, report: () => {} });
  try {
    const strange = await knownOnly(otherStoreError(quotas, config));
    if (strange !== undefined) return refused(strange);
    return { ok: true, value: await quotas.activity.calls(deprecatedOperations(config)) };
  } catch (error) {
    return { ok: true, value: undefined, missing: [storeError(config, error)] };
  } finally {
    await quotas.close();
  }
}

/** Why the store gave no answer, with its address once and without its password. */
function storeError({ store }: Config, error: unknown): string {
  const why = errorMessage(error);
  // The key store names the address itself.
  if (why.startsWith("Cannot read the keys in ")) {
    return `${why}. No gateway at admin.listen has a copy of them`;
  }
  return `Cannot ask the store ${store.shown}: ${why}`;
}
