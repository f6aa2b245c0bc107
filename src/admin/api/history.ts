import { addressHistoryError } from "../../core/keys/find-records.ts";
import { findById } from "../../core/keys/record-index.ts";
import { findNamedAccount } from "../../stores/queries/find-account.ts";
import {
  type DayReport,
  historyDisabledError,
  monthlyIncluded,
  parsePeriod,
  readHistory,
  spansOf,
} from "../../stores/queries/read-history.ts";
import { type AdminResponse, jsonResponse, problemResponse } from "../http/response.ts";
import { type ApiRequest, unknownIdResponse } from "./api-request.ts";
import { noPlaceResponse, parsePageLimit, withNextLink } from "./pagination.ts";
import { fromReachableStore } from "./reachable-store.ts";

/**
 * The usage of all accounts, or of one, by UTC day (docs/reference/history.md). Each page is a read
 * of its own from the store, so a list of any length takes the same memory.
 */
export async function listHistory({
  deps,
  query,
  onUnanswered,
}: ApiRequest): Promise<AdminResponse> {
  const off = historyDisabledError(deps.config());
  if (off !== undefined) return problemResponse("conflict", off);
  const given = (name: string) => query.get(name) ?? undefined;
  const period = parsePeriod({ days: given("days"), month: given("month") }, (name) => name);
  if (typeof period === "string") return problemResponse("bad_request", period);
  const limit = parsePageLimit(query);
  if (!limit.ok) return limit.response;
  const records = deps.keys.records();
  const [id, environment] = [given("account"), given("env")];
  const found = id === undefined ? undefined : findNamedAccount(records, { id, environment });
  if (found?.ok === false) {
    const noHistory = addressHistoryError(id ?? "");
    return noHistory
      ? problemResponse("unknown_id", noHistory)
      : unknownIdResponse(deps, found.environment);
  }
  const after = readAfter(given("after"));
  const isPlace = after !== undefined && findById(records.accounts, after.account) !== undefined;
  if (given("after") !== undefined && !isPlace) return noPlaceResponse();
  const filter = {
    environment,
    plan: given("plan"),
    account: found?.subject.account,
    after,
    includedOf: monthlyIncluded(period, deps.config()),
  };
  return fromReachableStore(deps, async (onMissing) => {
    if (filter.after === undefined) await deps.diagnostics.flushToStore(onUnanswered);
    const spans = spansOf(period, deps.now());
    const page: DayReport[] = [];
    for await (const rows of readHistory(deps.quotas, records.accounts, spans, filter, onMissing)) {
      page.push(...rows);
      if (page.length > limit.value) break;
    }
    const rows = page.slice(0, limit.value);
    const last = rows.at(-1);
    const response = jsonResponse(200, rows);
    if (last === undefined || page.length <= limit.value) return response;
    return withNextLink(response, { path: "/api/history", query }, `${last.account} ${last.day}`);
  });
}

function readAfter(text: string | undefined): Pick<DayReport, "account" | "day"> | undefined {
  const [, account, day] = /^(\S+) (\d{4}-\d\d-\d\d)$/.exec(text ?? "") ?? [];
  return account === undefined || day === undefined ? undefined : { account, day };
}
