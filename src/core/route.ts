import type { Lifecycle } from "./lifecycle.ts";
import { accept, type Judged, refuse } from "./refusal.ts";

/** One operation of an environment's description. */
export type Operation = {
  readonly method: string;
  readonly operationId: string;
  /** The whole path with the base path, as in the description: "/v1/pets/{petId}". */
  readonly template: string;
  /** Its segments; undefined stands for a parameter, which any non-empty segment fits. */
  readonly segments: readonly (string | undefined)[];
  readonly hasRequestBody: boolean;
  readonly requiresScope: boolean;
  readonly lifecycle: Lifecycle;
};

/** `operations` is undefined where an environment has no description: all of basePath passes. */
export type RouteTable = {
  readonly basePath: string;
  readonly operations: readonly Operation[] | undefined;
};

/** What was found for a path and a method; judged later, after key and quota (contract 4.4). */
export type Found = {
  readonly operation: Operation | undefined;
  /** The template for the log: a path's own spelling never becomes a label. */
  readonly template: string | undefined;
  /** Methods of the path, for Allow; undefined where there is no such path. */
  readonly allow: readonly string[] | undefined;
};

const UNDESCRIBED = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];
const NOTHING: Found = { operation: undefined, template: undefined, allow: undefined };

/** Finds by the raw path: the string matched is byte for byte the string forwarded (edge.md). */
export function findRoute(table: RouteTable, method: string, path: string): Found {
  const { basePath, operations } = table;
  if (!isUnder(basePath, path)) return NOTHING;
  if (operations === undefined) {
    return { operation: undefined, template: `${basePath}/*`, allow: UNDESCRIBED };
  }
  const segments = path.split("/");
  const rows = mostLiteral(operations.filter((row) => fits(row.segments, segments)));
  const [first] = rows;
  if (first === undefined) return NOTHING;
  const wanted = method === "HEAD" && !rows.some((row) => row.method === "HEAD") ? "GET" : method;
  return {
    operation: rows.find((row) => row.method === wanted),
    template: first.template,
    allow: allowed(rows),
  };
}

/** No such path: 404. Known path, other method: 405. Past its sunset: 410. Scope: 403. */
export function judgeRoute(
  found: Found,
  { method, scopes, nowMs }: { method: string; scopes: readonly string[]; nowMs: number },
): Judged<Found> {
  const { operation, allow } = found;
  if (allow === undefined) return refuse("not_found");
  if (operation === undefined) {
    return allow === UNDESCRIBED && UNDESCRIBED.includes(method)
      ? accept(found)
      : refuse("method_not_allowed");
  }
  const { sunsetMs, stability } = operation.lifecycle;
  if (sunsetMs !== undefined && sunsetMs <= nowMs) return refuse("gone");
  if (operation.requiresScope && stability !== undefined && !scopes.includes(stability)) {
    return refuse("scope_required", `needs the scope ${stability}`);
  }
  return accept(found);
}

function isUnder(basePath: string, path: string): boolean {
  if (basePath === "/" || basePath === "") return true;
  return (
    path.startsWith(basePath) && (path.length === basePath.length || path[basePath.length] === "/")
  );
}

function fits(pattern: readonly (string | undefined)[], segments: readonly string[]): boolean {
  return (
    pattern.length === segments.length &&
    pattern.every((part, i) => (part === undefined ? segments[i] !== "" : part === segments[i]))
  );
}

/** OpenAPI 3.1, Path Templating: a concrete path is matched before a templated one. */
function mostLiteral(rows: readonly Operation[]): readonly Operation[] {
  if (rows.length < 2) return rows;
  const parameters = (row: Operation) => row.segments.filter((part) => part === undefined).length;
  const fewest = Math.min(...rows.map(parameters));
  const [best] = rows.filter((row) => parameters(row) === fewest);
  return rows.filter((row) => row.template === best?.template);
}

/** HEAD is allowed wherever GET is. */
function allowed(rows: readonly Operation[]): readonly string[] {
  const methods = rows.map((row) => row.method);
  const get = methods.indexOf("GET");
  if (get !== -1 && !methods.includes("HEAD")) methods.splice(get + 1, 0, "HEAD");
  return methods;
}
