import type { IncomingMessage } from "node:http";
import type { ReadinessChecks } from "../telemetry/readiness.ts";
import type { ApiDeps, ApiRequest } from "./api/api-request.ts";
import {
  refuseByContract,
  refuseKeyIn,
  refuseKeyInQuery,
  refuseQuery,
} from "./api/refuse-request.ts";
import { matchApiRoute } from "./api/router.ts";
import type { ApiRoute } from "./api/routes.ts";
import { checkAccess, type GuardOptions, readGuardFields } from "./http/guard.ts";
import { isJson, readJsonBody } from "./http/request-body.ts";
import {
  type AdminResponse,
  jsonResponse,
  methodNotAllowed,
  notFound,
  problemResponse,
  withoutWorkers,
} from "./http/response.ts";
import { findPageFile } from "./page-files.ts";
import { METRICS_CONTENT_TYPE } from "./prometheus.ts";

export type AnswerDeps = ApiDeps & {
  /** The readiness checks; if an environment is named, those of that environment. */
  readonly checks: (environment?: string) => ReadinessChecks;
  /** The metrics as text, current or a moment old. */
  readonly metrics: () => Promise<Buffer>;
};

/** Responds to a request: the open endpoints come first, then /api behind the guard. */
export async function answerRequest(
  deps: AnswerDeps,
  guarded: GuardOptions,
  request: IncomingMessage,
): Promise<AdminResponse> {
  const { method = "", url = "" } = request;
  const fields = readGuardFields(request.rawHeaders);
  const [path = "", query] = url.split(/\?(.*)/s);
  if (fields === undefined || !path.startsWith("/")) {
    const message =
      "A request needs exactly one Host, no repeated fields, and a path as its target";
    return problemResponse("bad_request", message);
  }
  if (path !== "/api" && !path.startsWith("/api/")) return answerOpen(deps, method, path);

  const refused = checkAccess(fields, guarded);
  if (refused !== undefined) return refused;
  const found = matchApiRoute(method, path);
  if (!found.ok) return found.response;
  const { row, id } = found;
  const asked = new URLSearchParams(query);
  const strange = query === undefined ? undefined : refuseQuery(asked, row.contract);
  if (strange !== undefined) return strange;
  const { foreignKeys } = deps.config();
  const keyedQuery = refuseKeyInQuery(asked, foreignKeys);
  if (keyedQuery !== undefined) return keyedQuery;
  if (row.method === "GET") return runRoute(row, { deps, id, query: asked, body: {} });
  if (!isJson(fields.contentType)) {
    return problemResponse("unsupported_media_type", "Send Content-Type: application/json");
  }
  const members = await readJsonBody(request, row.contract.bodyBytesMax);
  if (!members.ok) return members.response;
  const keyed = refuseKeyIn(members.value, foreignKeys);
  if (keyed !== undefined) return keyed;
  return runRoute(row, { deps, id, query: asked, body: members.value });
}

/** The answer of a route, which names the workers that have not answered it. */
async function runRoute(
  row: ApiRoute,
  request: Omit<ApiRequest, "onUnanswered">,
): Promise<AdminResponse> {
  const refused = refuseByContract(row, request);
  if (refused !== undefined) return refused;
  const unanswered: number[] = [];
  const onUnanswered = (worker: number) => void unanswered.push(worker);
  return withoutWorkers(await row.run({ ...request, onUnanswered }), unanswered);
}

async function answerOpen(deps: AnswerDeps, method: string, path: string): Promise<AdminResponse> {
  const rows: Readonly<Record<string, () => AdminResponse | Promise<AdminResponse>>> = {
    "/livez": () => text("text/plain; charset=utf-8", "ok\n"),
    "/readyz": () => readiness(deps.checks()),
    "/metrics": async () => text(METRICS_CONTENT_TYPE, await deps.metrics()),
  };
  const file = await findPageFile(path);
  const row = rows[path] ?? (file ? () => file : readinessOf(deps, path));
  if (row === undefined) return notFound();
  return method === "GET" || method === "HEAD" ? row() : methodNotAllowed(["GET", "HEAD"]);
}

/** Finds `/readyz/ENV` for an existing environment. */
function readinessOf(deps: AnswerDeps, path: string): (() => AdminResponse) | undefined {
  const found = deps.config().environments.find(({ name }) => path === `/readyz/${name}`);
  return found && (() => readiness(deps.checks(found.name)));
}

function text(type: string, body: string | Buffer): AdminResponse {
  return { status: 200, type, body, fields: [] };
}

/** Returns 200 if all checks pass, else 503. Machines read the status, people the reasons. */
function readiness(checks: ReadinessChecks): AdminResponse {
  const ready = Object.values(checks).every(({ ok }) => ok);
  return jsonResponse(ready ? 200 : 503, { status: ready ? "ready" : "not ready", checks });
}
