import { findHolder } from "../../core/keys/report.ts";
import {
  type DayReport,
  noHistory,
  periodOf,
  readHistory,
  spanOf,
} from "../../stores/interface/read-history.ts";
import { type Answer, json, problem, unknownId } from "../http/answer.ts";
import type { Call } from "./call.ts";
import { nextPage, readLimit } from "./pages.ts";
import { askStore } from "./usage.ts";

/**
 * The usage of all accounts, or of one, by UTC day (docs/reference/history.md). A page is read from
 * the store by itself, so that a list of any length costs the same memory.
 */
export async function listHistory({ deps, query }: Call): Promise<Answer> {
  const off = noHistory(deps.config());
  if (off !== undefined) return problem("conflict", off);
  const given = (name: string) => query.get(name) ?? undefined;
  const period = periodOf({ days: given("days"), month: given("month") }, (name) => name);
  if (typeof period === "string") return problem("bad_request", period);
  const limit = readLimit(query);
  if (!limit.ok) return limit.answer;
  const records = deps.keys.records();
  const holder =
    given("account") === undefined ? undefined : findHolder(records, given("account") as string);
  if (given("account") !== undefined && holder === undefined) return unknownId();
  const filter = {
    environment: given("env"),
    plan: given("plan"),
    account: holder?.account,
    after: readAfter(given("after")),
  };
  return askStore(deps, async () => {
    if (filter.after === undefined) await deps.recall.tellStore();
    const span = spanOf(period, deps.now());
    const page: DayReport[] = [];
    for await (const rows of readHistory(deps.quotas, records.accounts, span, filter)) {
      page.push(...rows);
      if (page.length > limit.value) break;
    }
    const told = page.slice(0, limit.value);
    const last = told.at(-1);
    const answer = json(200, told);
    if (last === undefined || page.length <= limit.value) return answer;
    return nextPage(answer, { path: "/api/history", query }, `${last.account} ${last.day}`);
  });
}

function readAfter(text: string | undefined): Pick<DayReport, "account" | "day"> | undefined {
  const [account, day] = text?.split(" ") ?? [];
  return account === undefined || day === undefined ? undefined : { account, day };
}
