import type { IncomingMessage } from "node:http";
import type { ReadinessChecks } from "../telemetry/readiness.ts";
import type { ApiDeps, ApiRequest } from "./api/api-request.ts";
import { refuseKeyIn, refuseKeyInQuery } from "./api/request-bodies.ts";
import { matchApiRoute } from "./api/router.ts";
import { checkAccess, type GuardOptions, readGuardFields } from "./http/guard.ts";
import { isJson, readJsonBody } from "./http/request-body.ts";
import {
  type AdminResponse,
  jsonResponse,
  methodNotAllowed,
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
  const asked = new URLSearchParams(query);
  const known = found.row.contract.query ?? [];
  const strange = query !== undefined && !isKnownQuery(asked, known);
  if (strange) return problemResponse("bad_request", queryMessage(known));
  const { foreignKeys } = deps.config();
  const keyedQuery = refuseKeyInQuery(asked, foreignKeys);
  if (keyedQuery !== undefined) return keyedQuery;
  const run = async (body: ApiRequest["body"]) => {
    const unanswered: number[] = [];
    const onUnanswered = (worker: number) => void unanswered.push(worker);
    const call = { deps, id: found.id, body, query: asked, onUnanswered };
    return withoutWorkers(await found.row.run(call), unanswered);
  };
  if (found.row.method === "GET") return run({});
  if (!isJson(fields.contentType)) {
    return problemResponse("unsupported_media_type", "Send Content-Type: application/json");
  }
  const members = await readJsonBody(request, found.row.bodyBytesMax);
  if (!members.ok) return members.response;
  const keyed = refuseKeyIn(members.value, foreignKeys);
  if (keyed !== undefined) return keyed;
  return run(members.value);
}

/** Whether each query member is known and is there only once. */
function isKnownQuery(query: URLSearchParams, known: readonly string[]): boolean {
  const names = [...query.keys()];
  return (
    names.length > 0 &&
    names.every((name) => known.includes(name)) &&
    new Set(names).size === names.length
  );
}

function queryMessage(known: readonly string[]): string {
  if (known.length === 0) return "Nothing here takes a query";
  return `The query may have ${known.join(", ")}, each once`;
}

async function answerOpen(deps: AnswerDeps, method: string, path: string): Promise<AdminResponse> {
  const rows: Readonly<Record<string, () => AdminResponse | Promise<AdminResponse>>> = {
    "/livez": () => text("text/plain; charset=utf-8", "ok\n"),
    "/readyz": () => readiness(deps.checks()),
    "/metrics": async () => text(METRICS_CONTENT_TYPE, await deps.metrics()),
  };
  const file = await findPageFile(path);
  const row = rows[path] ?? (file ? () => file : readinessOf(deps, path));
  if (row === undefined)
    return problemResponse("not_found", "There is nothing here: see / for what is");
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
