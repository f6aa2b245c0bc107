import { inSlices } from "../../base/event-loop.ts";
import {
  accountsOnPlan,
  resumeAccount,
  suspendAccount,
  updateAccounts,
} from "../../core/keys/edit-accounts.ts";
import {
  AccountSearch,
  findAccount,
  isChosen,
  SEARCH_WORDS_MAX,
  searchWords,
} from "../../core/keys/find-records.ts";
import { type AccountReport, accountReports } from "../../core/keys/record-reports.ts";
import type { AccountRecord, KeyRecord, Records } from "../../core/keys/records.ts";
import { keyContextOf } from "../../stores/keys/key-store.ts";
import { type AdminResponse, jsonResponse, problemResponse } from "../http/response.ts";
import { type ApiDeps, type ApiRequest, applyEdit, unknownIdResponse } from "./api-request.ts";
import { takePage } from "./pagination.ts";
import { parseAccountChange, parseSuspension } from "./request-bodies.ts";

const SEARCH_CHARACTERS_MAX = 200;

/** The accounts that match the query, in the order of their creation, or the newest first. */
export async function listAccounts({ deps, query }: ApiRequest): Promise<AdminResponse> {
  const records = deps.keys.records();
  const [environment, plan, text] = [query.get("env"), query.get("plan"), query.get("q")];
  if (text !== null && text.length > SEARCH_CHARACTERS_MAX) {
    return problemResponse("bad_request", `q has at most ${SEARCH_CHARACTERS_MAX} characters`);
  }
  const words = searchWords(text ?? "");
  if (words.length > SEARCH_WORDS_MAX) {
    return problemResponse("bad_request", `q has at most ${SEARCH_WORDS_MAX} different words`);
  }
  const among = records.accounts.filter((account) => isChosen(account, { environment, plan }));
  const chosen =
    text === null ? among : await searchAccounts(among, records.keys, words, deps.now());
  const taken = takePage(chosen, { path: "/api/accounts", query }, records.accounts);
  if (!taken.ok) return taken.response;
  const { page, answer } = taken.value;
  return answer(await reportsOf(deps, { records, accounts: page }));
}

/** Some of the accounts, and the records that they are in. */
type Accounts = { readonly records: Records; readonly accounts: readonly AccountRecord[] };

/** The reports of accounts, each with its keys. */
async function reportsOf({ now }: ApiDeps, { records, accounts }: Accounts) {
  return accountReports(accounts, { keys: await keysOfAccounts(accounts, records.keys) }, now());
}

/** The report of the one account that there is. */
async function reportOf(deps: ApiDeps, one: Accounts): Promise<AccountReport> {
  return (await reportsOf(deps, one))[0] as AccountReport;
}

export async function showAccount({ deps, id }: ApiRequest): Promise<AdminResponse> {
  const records = deps.keys.records();
  const account = findAccount(records, id);
  return account === undefined
    ? unknownIdResponse(deps)
    : jsonResponse(200, await reportOf(deps, { records, accounts: [account] }));
}

/** Changes plan, limits and metadata, for all keys of the account at once. */
export async function updateAccount(request: ApiRequest): Promise<AdminResponse> {
  const { deps, id, body } = request;
  const change = parseAccountChange(body);
  const context = keyContextOf(deps.config(), deps.now());
  const edited = await applyEdit(request, (records) =>
    updateAccounts(records, [id], change, context),
  );
  if (!edited.ok) return edited.response;
  return jsonResponse(200, await reportOf(deps, edited.value));
}

/** Changes all accounts on a plan: checks all of them first, then changes them together. */
export async function updateAccountsOnPlan(request: ApiRequest): Promise<AdminResponse> {
  const { deps, query, body } = request;
  const plan = query.get("plan") as string;
  const change = parseAccountChange(body);
  const context = keyContextOf(deps.config(), deps.now());
  const edited = await applyEdit(request, (records) => {
    const on = accountsOnPlan(records, plan, change, context);
    return on.ok ? updateAccounts(records, on.ids, change, context) : on;
  });
  if (!edited.ok) return edited.response;
  return jsonResponse(200, { changed: edited.value.accounts.length });
}

export async function suspendOne(request: ApiRequest): Promise<AdminResponse> {
  const { deps, id, body } = request;
  const how = parseSuspension(body);
  const edited = await applyEdit(request, (records) =>
    suspendAccount(records, id, how, deps.now()),
  );
  if (!edited.ok) return edited.response;
  const report = await reportOf(deps, edited.value);
  const { account, environment, suspended } = report;
  deps.log.info("account_suspended", { account, env: environment, until: suspended?.until });
  return jsonResponse(200, report);
}

export async function resume(request: ApiRequest): Promise<AdminResponse> {
  const { deps, id } = request;
  const edited = await applyEdit(request, (records) => resumeAccount(records, id));
  if (!edited.ok) return edited.response;
  const report = await reportOf(deps, edited.value);
  deps.log.info("account_resumed", { account: report.account, env: report.environment });
  return jsonResponse(200, report);
}

/** Finds the accounts that contain all words. `nowMs` is Unix milliseconds. */
async function searchAccounts(
  accounts: readonly AccountRecord[],
  keys: readonly KeyRecord[],
  words: readonly string[],
  nowMs: number,
): Promise<readonly AccountRecord[]> {
  const search = new AccountSearch(words);
  await inSlices(keys, (key) => search.addKey(key));
  const fitting: AccountRecord[] = [];
  await inSlices(accounts, (account) => {
    if (search.matches(account, nowMs)) fitting.push(account);
  });
  return fitting;
}

/** The keys of these accounts, those of one in the order in which they were issued. */
async function keysOfAccounts(
  accounts: readonly AccountRecord[],
  keys: readonly KeyRecord[],
): Promise<readonly KeyRecord[]> {
  const grouping = groupedKeys.get(keys) ?? groupByAccount(keys);
  groupedKeys.set(keys, grouping);
  const grouped = await grouping;
  return accounts.flatMap(({ id }) => grouped.get(id) ?? []);
}

type GroupedKeys = ReadonlyMap<string, readonly KeyRecord[]>;

/**
 * Built once for each list, because changes of accounts keep the list of keys: visiting 100,000 keys
 * takes ten milliseconds for each response.
 */
const groupedKeys = new WeakMap<readonly KeyRecord[], Promise<GroupedKeys>>();

async function groupByAccount(keys: readonly KeyRecord[]): Promise<GroupedKeys> {
  const grouped = new Map<string, KeyRecord[]>();
  await inSlices(keys, (key) => {
    const held = grouped.get(key.account);
    if (held === undefined) grouped.set(key.account, [key]);
    else held.push(key);
  });
  return grouped;
}
