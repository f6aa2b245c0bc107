import { deprecatedOperations, deprecationReport } from "../../config/queries/deprecations.ts";
import { explainRefusal } from "../../core/quota/explain.ts";
import { type AdminResponse, jsonResponse, problemResponse } from "../http/response.ts";
import type { ApiRequest } from "./api-request.ts";
import { pageResponse } from "./pagination.ts";
import { withAccountUsage } from "./usage.ts";

/** Why a request was refused, by its id, from the memory of the gateway. */
export async function explainRequest({ deps, id }: ApiRequest): Promise<AdminResponse> {
  const line = await deps.recall.refusal(id);
  if (line !== undefined) return jsonResponse(200, explainRefusal(line));
  const message = "No refusal with this request id is remembered: its line in the log explains it";
  return problemResponse("unknown_request", message);
}

/** Units that were charged for requests under way: no line of the log tells of them yet. */
export async function listOpenCharges({ deps }: ApiRequest): Promise<AdminResponse> {
  return jsonResponse(200, await deps.recall.open());
}

/** Operations that go away, with the accounts that called them. */
export async function listDeprecations({ deps, query }: ApiRequest): Promise<AdminResponse> {
  const config = deps.config();
  await deps.recall.tellStore();
  // While the store is away, as far as this gateway remembers.
  const calls = await deps.quotas.activity
    .calls(deprecatedOperations(config))
    .catch(() => deps.recall.deprecated());
  const found = deprecationReport(config, calls, deps.now());
  const named = found.map((one) => {
    return { id: `${one.environment} ${one.method} ${one.route}`, one };
  });
  return pageResponse(named, { path: "/api/deprecations", query }, (page) =>
    page.map(({ one }) => one),
  );
}

/** Why an account is or was banned: its running strikes, and the bans that are remembered. */
export function explainBan(call: ApiRequest): Promise<AdminResponse> {
  return withAccountUsage(call, async ({ account, environment, strikes, ban }) => {
    const bans = await call.deps.recall.bansOf({ account, environment });
    return { account, environment, strikes, ban, bans };
  });
}
