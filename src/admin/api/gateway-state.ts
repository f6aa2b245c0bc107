import { formatCount } from "../../base/messages.ts";
import { maskedConfig } from "../../config/queries/masked-config.ts";
import { plansReport } from "../../config/queries/plans-report.ts";
import { gatewayReports } from "../../telemetry/gateway-status.ts";
import { type AdminResponse, jsonResponse, problemResponse } from "../http/response.ts";
import { openApiDocument, type RouteSpec } from "../openapi/document.ts";
import type { ApiRequest } from "./api-request.ts";
import { pageResponse, rankedId } from "./pagination.ts";
import { storeOr503 } from "./reachable-store.ts";

/** The configuration in force, by the keys of its file, with every secret masked, and its hash. */
export function showConfig({ deps }: ApiRequest): AdminResponse {
  return jsonResponse(200, maskedConfig(deps.config()));
}

/** The plans in force, with the accounts on each. */
export function listPlans({ deps }: ApiRequest): AdminResponse {
  return jsonResponse(200, plansReport(deps.config(), deps.keys.records().accounts));
}

/**
 * The stream begins with the last events, the figures of the last 15 minutes and the list of
 * routes. From the routes the page knows which sections it can offer.
 */
export function openEventStream({ deps }: ApiRequest, rows: readonly RouteSpec[]): AdminResponse {
  const routes = rows.map(({ method, template }) => `${method} ${template}`);
  const { recent, readings } = deps;
  return deps.events.open({ routes, happened: recent.since(0), readings: readings() });
}

/** The gateways that share this gateway's store, from the last message of each. */
export function listGateways({ deps, query }: ApiRequest): Promise<AdminResponse> {
  return storeOr503(deps, async () => {
    const reports = gatewayReports(await deps.quotas.gateways.list(), deps.name);
    const named = reports.map((report) => ({ id: rankedId(0, report.name), report }));
    const listing = { path: "/api/gateways", query };
    return pageResponse(named, listing, (page) => page.map(({ report }) => report));
  });
}

/** The OpenAPI description of this API. */
export function showOpenApi({ deps }: ApiRequest, rows: readonly RouteSpec[]): AdminResponse {
  const { admin } = deps.config();
  const hasToken = admin !== undefined && admin.token !== "";
  return jsonResponse(200, openApiDocument(rows, { version: deps.version, hasToken }));
}

/** All that the last reload was refused for, which /readyz does not tell to everybody. */
export function showReload({ deps }: ApiRequest): AdminResponse {
  return jsonResponse(200, { notReloaded: deps.notReloaded() });
}

/** Reloads the configuration. The response says what is in force, or why nothing changed. */
export async function reloadConfig({ deps }: ApiRequest): Promise<AdminResponse> {
  const reloaded = await deps.reload();
  if (reloaded.ok) return jsonResponse(200, { hash: reloaded.hash });
  const { mistakes, reasons = [], partly } = reloaded;
  if (partly) {
    const message = `The new configuration is not in force everywhere yet: ${reasons.join("; ")}`;
    return problemResponse("reload_incomplete", message, { more: { reasons } });
  }
  if (reasons.length > 0) {
    const message = `The old configuration stays in force: ${reasons.join("; ")}`;
    return problemResponse("reload_refused", message, { more: { reasons } });
  }
  const message = `The old configuration stays in force: the new one has ${formatCount(mistakes.length, "mistake")}`;
  return problemResponse("config_invalid", message, { more: { mistakes } });
}
