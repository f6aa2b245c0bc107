import { errorMessage } from "../../base/messages.ts";
import { deprecatedOperations, deprecationReport } from "../../config/queries/deprecations.ts";
import { explainRefusal, type KnownBan } from "../../core/quota/explain.ts";
import { roundUpToSeconds } from "../../core/quota/whole-seconds.ts";
import type { AccessLogEntry } from "../../telemetry/log/access-log-entry.ts";
import {
  type AdminResponse,
  jsonResponse,
  nameWorkers,
  problemResponse,
  RETRY_AFTER_1,
} from "../http/response.ts";
import type { ApiRequest } from "./api-request.ts";
import { pageResponse } from "./pagination.ts";

/** Explains by its ID why a request was refused, from the memory of the gateway. */
export async function explainRequest({ deps, id }: ApiRequest): Promise<AdminResponse> {
  const unanswered: number[] = [];
  const entry = await deps.diagnostics.refusal(id, (worker) => void unanswered.push(worker));
  if (entry !== undefined)
    return jsonResponse(200, explainRefusal(entry, await banOf(deps, entry)));
  if (unanswered.length > 0) {
    const silent = nameWorkers(unanswered);
    const message = `No process that answers remembers a refusal with this request id, and there is no answer from ${silent}: ask again, or its line in the log explains it`;
    return problemResponse("worker_unavailable", message, RETRY_AFTER_1);
  }
  const message = "No refusal with this request id is remembered: its line in the log explains it";
  return problemResponse("unknown_request", message);
}

/**
 * The cause of the ban that refused a request, from its event or the store; undefined if unknown.
 */
async function banOf(
  { recent, quotas }: ApiRequest["deps"],
  { account, env: environment, ban: until }: AccessLogEntry,
): Promise<KnownBan | undefined> {
  if (account === undefined || environment === undefined || until === undefined) return undefined;
  const accountRef = { account, environment };
  const told = recent.bansOf(accountRef).find((one) => one.until === until);
  if (told !== undefined) return { imposed: told.imposed === true, reason: told.reason };
  const cause = await quotas.banCause(accountRef).catch(() => undefined);
  return cause !== undefined && roundUpToSeconds(cause.untilMs) === until ? cause : undefined;
}

/**
 * Units that were charged for requests in progress. The log has no lines for these requests yet.
 * X-Tollgate-Missing names the processes that have not answered.
 */
export async function listOpenCharges({ deps, onUnanswered }: ApiRequest): Promise<AdminResponse> {
  return jsonResponse(200, await deps.diagnostics.openCharges(onUnanswered));
}

/** Deprecated operations, with the accounts that called them if the store can be asked. */
export async function listDeprecations({
  deps,
  query,
  onUnanswered,
}: ApiRequest): Promise<AdminResponse> {
  const config = deps.config();
  await deps.diagnostics.flushToStore(onUnanswered);
  const asked = deps.quotas.activity.calls(deprecatedOperations(config));
  const calls = await asked.catch((error: unknown) => {
    deps.log.error("store_no_answer", { why: errorMessage(error) });
    return undefined;
  });
  const named = deprecationReport(config, calls, deps.now()).map((one) => {
    return { id: `${one.environment} ${one.method} ${one.route}`, one };
  });
  const tell = (page: readonly (typeof named)[number][]) => page.map(({ one }) => one);
  return pageResponse(named, { path: "/api/deprecations", query }, tell, named);
}
