import {
  accountsOn,
  resumeAccount,
  setAccounts,
  suspendAccount,
} from "../../core/keys/accounts.ts";
import { findAccount } from "../../core/keys/find.ts";
import type { AccountRecord, Records } from "../../core/keys/records.ts";
import { type AccountReport, accountReports } from "../../core/keys/report.ts";
import { ringOf } from "../../stores/interface/edit-keys.ts";
import { type Answer, json, problem, unknownId } from "../http/answer.ts";
import type { ApiDeps, Call } from "./call.ts";
import { change } from "./edit.ts";
import { keysOfAccounts, searchAccounts } from "./in-pieces.ts";
import { readAccountChange, readNothing, readSuspension } from "./members.ts";
import { takePage } from "./pages.ts";

const SEARCH_CHARACTERS_MAX = 200;

/** The accounts that fit the query, in the order in which they were made, or the newest first. */
export async function listAccounts({ deps, query }: Call): Promise<Answer> {
  const records = deps.keys.records();
  const [environment, plan, text] = [query.get("env"), query.get("plan"), query.get("q")];
  if (text !== null && text.length > SEARCH_CHARACTERS_MAX) {
    return problem("bad_request", `q has at most ${SEARCH_CHARACTERS_MAX} characters`);
  }
  const among = records.accounts.filter(
    (account) =>
      (environment ?? account.environment) === account.environment &&
      (plan ?? account.plan) === account.plan,
  );
  const chosen =
    text === null || text.trim() === ""
      ? among
      : await searchAccounts(among, { keys: records.keys, text, nowMs: deps.now() });
  const taken = takePage(chosen, { path: "/api/accounts", query });
  if (!taken.ok) return taken.answer;
  const { page, answer } = taken.value;
  return answer(await reportsOf(deps, records, page));
}

/** Accounts as they are told, each with its keys. */
async function reportsOf(
  { now }: ApiDeps,
  records: Records,
  accounts: readonly AccountRecord[],
): Promise<AccountReport[]> {
  return accountReports(accounts, { keys: await keysOfAccounts(accounts, records) }, now());
}

async function reportOf(
  deps: ApiDeps,
  records: Records,
  account: AccountRecord,
): Promise<AccountReport> {
  return (await reportsOf(deps, records, [account]))[0] as AccountReport;
}

export async function showAccount({ deps, id }: Call): Promise<Answer> {
  const records = deps.keys.records();
  const account = findAccount(records, id);
  return account === undefined ? unknownId() : json(200, await reportOf(deps, records, account));
}

/** Plan, limits and metadata, for all keys of the account at once. */
export async function setAccount({ deps, id, members }: Call): Promise<Answer> {
  const wanted = readAccountChange(members);
  if (!wanted.ok) return wanted.answer;
  const ring = ringOf(deps.config(), deps.now());
  const edited = await change(deps, (records) => setAccounts(records, [id], wanted.value, ring));
  if (!edited.ok) return edited.answer;
  const { records, accounts } = edited.value;
  return json(200, await reportOf(deps, records, accounts[0] as AccountRecord));
}

/** All accounts on a plan: judged whole, then done together. */
export async function setAccountsOn({ deps, query, members }: Call): Promise<Answer> {
  const plan = query.get("plan");
  if (plan === null) return problem("bad_request", "Name the plan: PATCH /api/accounts?plan=PLAN");
  const wanted = readAccountChange(members);
  if (!wanted.ok) return wanted.answer;
  const ring = ringOf(deps.config(), deps.now());
  const edited = await change(deps, (records) => {
    const on = accountsOn(records, plan, wanted.value, ring);
    return on.ok ? setAccounts(records, on.ids, wanted.value, ring) : on;
  });
  if (!edited.ok) return edited.answer;
  return json(200, { changed: edited.value.accounts.length });
}

export async function suspend({ deps, id, members }: Call): Promise<Answer> {
  const how = readSuspension(members);
  if (!how.ok) return how.answer;
  const edited = await change(deps, (records) =>
    suspendAccount(records, id, how.value, deps.now()),
  );
  if (!edited.ok) return edited.answer;
  const { records, accounts } = edited.value;
  const report = await reportOf(deps, records, accounts[0] as AccountRecord);
  const { account, environment, suspended } = report;
  deps.log.info("account_suspended", { account, env: environment, until: suspended?.until });
  return json(200, report);
}

export async function resume({ deps, id, members }: Call): Promise<Answer> {
  const nothing = readNothing(members);
  if (!nothing.ok) return nothing.answer;
  const edited = await change(deps, (records) => resumeAccount(records, id, deps.now()));
  if (!edited.ok) return edited.answer;
  const { records, accounts } = edited.value;
  const report = await reportOf(deps, records, accounts[0] as AccountRecord);
  deps.log.info("account_resumed", { account: report.account, env: report.environment });
  return json(200, report);
}
