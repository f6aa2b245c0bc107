import { stranded } from "../../config/unserved-records.ts";
import type { UsageSubject } from "../../core/keys/usage-reports.ts";
import { type AccountLookup, findAccountBySelector } from "../../stores/queries/find-account.ts";
import {
  describeUnlisted,
  readAllCounts,
  readCounts,
  readUsage,
  shareOf,
  type UsageFilter,
  usageOf,
} from "../../stores/queries/read-usage.ts";
import { logReset, resetWindows } from "../../stores/queries/reset-windows.ts";
import type { OnMissing } from "../../stores/quotas/quota-store.ts";
import {
  type AdminResponse,
  jsonResponse,
  problemResponse,
  withMissing,
} from "../http/response.ts";
import { type ApiDeps, type ApiRequest, unknownIdResponse } from "./api-request.ts";
import type { RankedUsage } from "./kept-list.ts";
import { pageResponse, rankedId, takePage } from "./pagination.ts";
import { fromReachableStore, storeOr503, whenSaved } from "./reachable-store.ts";

/** Responds with the usage of an account, in the shape of `usage --json`. Charges nothing. */
export function showUsage(request: ApiRequest): Promise<AdminResponse> {
  const { quotas, config } = request.deps;
  return withReport(request, (subject) => usageOf(quotas, config(), subject));
}

/** The usage of all accounts that match the query; those nearest to a limit come first. */
export async function listUsage({ deps, query }: ApiRequest): Promise<AdminResponse> {
  const [over, top] = [query.get("over"), query.get("top")];
  if (over !== null && !/^\d+(?:\.\d+)?$/.test(over)) {
    return problemResponse("bad_request", "over must be a number of percent, such as 80");
  }
  if (top !== null && !/^[1-9]\d*$/.test(top)) {
    return problemResponse("bad_request", "top must be a number of accounts, such as 20");
  }
  const filter = {
    environment: query.get("env") ?? undefined,
    plan: query.get("plan") ?? undefined,
    over: over === null ? undefined : Number(over),
    top: top === null ? undefined : Number(top),
  };
  const listed = await fromReachableStore(deps, async (onMissing) => {
    const ranked =
      (query.has("after") ? deps.usageList.find(JSON.stringify(filter)) : undefined) ??
      (await rankUsage(deps, filter, onMissing));
    return pageResponse(ranked, { path: "/api/usage", query }, (page) =>
      page.map(({ report }) => report),
    );
  });
  const judged = { filter, nowMs: deps.now() };
  return withMissing(listed, describeUnlisted(deps.config(), deps.keys.records(), judged));
}

/**
 * Reads the usage of all accounts, and keeps it for the next pages. If a part is missing none is
 * kept, so that each page says so.
 */
async function rankUsage(
  deps: ApiRequest["deps"],
  filter: UsageFilter,
  onMissing: OnMissing,
): Promise<readonly RankedUsage[]> {
  let isWhole = true;
  const { accounts } = deps.keys.records();
  const reports = await readUsage(deps.quotas, accounts, deps.config(), filter, (...missing) => {
    isWhole = false;
    onMissing(...missing);
  });
  const ranked = reports.map((report) => {
    return { id: rankedId(-shareOf(report), report.account), report };
  });
  if (isWhole) deps.usageList.keep(JSON.stringify(filter), ranked);
  else deps.usageList.drop();
  return ranked;
}

/** The counts of all accounts as the store has them now, for an audit: those of a page are read. */
export async function listCounts({ deps, query }: ApiRequest): Promise<AdminResponse> {
  const { keys, accounts } = deps.keys.records();
  const uncounted = new Set(stranded(deps.config(), accounts));
  const counted = accounts.filter((account) => !uncounted.has(account));
  const taken = takePage(counted, { path: "/api/counts", query }, accounts);
  if (!taken.ok) return taken.response;
  const { page, answer } = taken.value;
  return fromReachableStore(deps, async (onMissing) => {
    const records = { keys, accounts: page };
    return answer(await readAllCounts(deps.quotas, deps.config(), records, onMissing));
  });
}

/** The counts of one account, or of an address, which is in no list. */
export function showCounts(request: ApiRequest): Promise<AdminResponse> {
  const { quotas, config, keys } = request.deps;
  return withReport(request, (subject) => readCounts(quotas, config(), keys.records(), subject));
}

/** Responds with what `read` finds of the account that the request names; undefined without its plan. */
export function withReport(
  request: ApiRequest,
  read: (subject: UsageSubject) => Promise<object | undefined>,
): Promise<AdminResponse> {
  const { deps } = request;
  return storeOr503(deps, async () => {
    const found = await find(request);
    if (!found.ok) return notFound(found, deps);
    const report = await read(found.subject);
    if (report !== undefined) return jsonResponse(200, report);
    const { account } = found.subject;
    return problemResponse("plan_missing", `The plan of account ${account} is not configured`);
  });
}

/** The account that the request names; an address may need the environment as well. */
function find({ deps, id, query }: ApiRequest): Promise<AccountLookup> {
  const { quotas } = deps;
  const named = { id, environment: query.get("env") ?? undefined };
  return findAccountBySelector({ quotas, config: deps.config() }, deps.keys.records(), named);
}

function notFound(found: Extract<AccountLookup, { ok: false }>, deps: ApiDeps): AdminResponse {
  return found.because === "unknown"
    ? unknownIdResponse(deps, found.environment)
    : problemResponse("bad_request", found.message);
}

/** Sets windows of an account to 0: those named, or all current ones. */
export async function resetAccount(request: ApiRequest): Promise<AdminResponse> {
  const { deps, body } = request;
  const { windows } = body as { windows?: readonly string[] };
  return fromReachableStore(deps, async (onMissing) => {
    const found = await find(request);
    if (!found.ok) return notFound(found, deps);
    const { account, environment } = found.subject;
    const sources = { quotas: deps.quotas, config: deps.config(), keys: deps.keys.records().keys };
    const wanted = { id: request.id, windows };
    const reset = await resetWindows(sources, found.subject, wanted, onMissing);
    if (!reset.ok) return problemResponse("bad_request", reset.message);
    const { done, told } = reset;
    // A reset without windows changes no count, so an audit does not need its event.
    if (done.length > 0) {
      const logged = { accountRef: { account, environment }, windows: done };
      logReset(deps.log, logged, deps.config(), deps.keys.records().keys);
    }
    return whenSaved(deps, jsonResponse(200, { account, environment, windows: told }));
  });
}
