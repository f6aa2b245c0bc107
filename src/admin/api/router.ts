import { isAccountName } from "../../stores/quotas/account-ref.ts";
import { type AdminResponse, methodNotAllowed, notFound } from "../http/response.ts";
import { API_ROUTES, type ApiRoute } from "./routes.ts";

const ROWS = API_ROUTES.map((row) => ({ row, segments: row.template.split("/") }));

/** Finds the route for a method and a path, with the ID in the path; or 404, or 405 with Allow. */
export function matchApiRoute(
  method: string,
  path: string,
):
  | { readonly ok: true; readonly row: ApiRoute; readonly id: string }
  | { ok: false; response: AdminResponse } {
  const segments = path.split("/");
  const rows = ROWS.filter((candidate) => fits(candidate.segments, segments));
  if (rows.length === 0) return { ok: false, response: notFound() };
  const wanted = method === "HEAD" ? "GET" : method;
  const found = rows.find(({ row }) => row.method === wanted);
  if (found === undefined) {
    const allow = rows.flatMap(({ row }) =>
      row.method === "GET" ? ["GET", "HEAD"] : [row.method],
    );
    return { ok: false, response: methodNotAllowed([...new Set(allow)]) };
  }
  const at = found.segments.findIndex(isVariable);
  return { ok: true, row: found.row, id: idIn(found.segments[at], segments[at]) ?? "" };
}

function fits(pattern: readonly string[], segments: readonly string[]): boolean {
  return (
    pattern.length === segments.length &&
    pattern.every((part, i) =>
      isVariable(part) ? idIn(part, segments[i]) !== undefined : part === segments[i],
    )
  );
}

function isVariable(part: string): boolean {
  return part.startsWith(":");
}

/**
 * The ID in a segment of a path. It may be a client address, whose "/64" is percent-encoded.
 * Undefined if the segment cannot be an ID. The ID of a request is text that people paste: one that
 * no request can have is unknown like any other.
 */
function idIn(part = "", segment = ""): string | undefined {
  try {
    const text = decodeURIComponent(segment);
    return part === ":request" || isAccountName(text) ? text : undefined;
  } catch {
    return undefined;
  }
}
