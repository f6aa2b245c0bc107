import type { ServerResponse } from "node:http";

/** A whole response, before it is written. `fields` is a flat list of names and values. */
export type AdminResponse = {
  readonly status: number;
  readonly type: string;
  readonly body: string | Buffer;
  readonly fields: readonly string[];
  /** The Content-Security-Policy, if it is not the default, which forbids everything. */
  readonly policy?: string;
  /** Writes the content instead of `body`, once the head is written; there is no time limit. */
  readonly stream?: (response: ServerResponse) => void;
};

/** Every refusal of the admin listener: one row per code. */
export const ADMIN_PROBLEMS = {
  bad_request: 400,
  token_missing: 401,
  token_invalid: 401,
  host_refused: 403,
  origin_refused: 403,
  not_found: 404,
  unknown_id: 404,
  unknown_request: 404,
  not_banned: 404,
  method_not_allowed: 405,
  request_timeout: 408,
  conflict: 409,
  reload_refused: 409,
  reload_incomplete: 500,
  body_too_large: 413,
  unsupported_media_type: 415,
  expectation_failed: 417,
  config_invalid: 422,
  headers_too_large: 431,
  internal_error: 500,
  plan_missing: 503,
  store_unavailable: 503,
  too_many_watchers: 503,
  worker_unavailable: 503,
} as const satisfies Record<string, number>;

export type ProblemCode = keyof typeof ADMIN_PROBLEMS;

/** Expected refusals are values, as in core. */
export type BodyResult<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly response: AdminResponse };

export function jsonResponse(status: number, value: unknown): AdminResponse {
  return { status, type: "application/json", body: JSON.stringify(value), fields: [] };
}

/** The Error shape of the spec; `more` adds members with details. */
export function problemResponse(
  code: ProblemCode,
  message: string,
  { more = {}, fields = [] }: { more?: Record<string, unknown>; fields?: readonly string[] } = {},
): AdminResponse {
  const status = ADMIN_PROBLEMS[code];
  return { ...jsonResponse(status, { code, message, status, ...more }), fields };
}

/** The field that names the parts which an answer is without. */
export const MISSING_NAME = "X-Tollgate-Missing";

/**
 * Names the workers that an answer is without (docs/reference/admin.md#missing-parts), after the
 * parts of the store that it names. A refusal is without none.
 */
export function withoutWorkers(
  response: AdminResponse,
  unanswered: readonly number[],
): AdminResponse {
  return withMissing(response, unanswered.length === 0 ? undefined : nameWorkers(unanswered));
}

/** The response, which names what it is without after what it already names. */
export function withMissing(response: AdminResponse, named: string | undefined): AdminResponse {
  if (named === undefined || response.status >= 400) return response;
  const { fields } = response;
  const at = fields.indexOf(MISSING_NAME) + 1;
  if (at > 0) return { ...response, fields: fields.with(at, `${fields[at]}, ${named}`) };
  return { ...response, fields: [...fields, MISSING_NAME, named] };
}

/** Names several workers in words. */
export function nameWorkers(numbers: readonly number[]): string {
  return `${numbers.length === 1 ? "worker" : "workers"} ${numbers.join(" ")}`;
}

/** Most responses are data. They need neither script nor style, so both are forbidden. */
const POLICY = "default-src 'none'; base-uri 'none'; frame-ancestors 'none'";

/**
 * Fields of every response: no caching, no type sniffing, no framing, no loading by another site.
 */
export function securityFields(policy: string = POLICY): readonly string[] {
  return [
    ...["Cache-Control", "no-store", "X-Content-Type-Options", "nosniff"],
    ...["Content-Security-Policy", policy, "X-Frame-Options", "DENY"],
    ...["Referrer-Policy", "no-referrer", "Cross-Origin-Resource-Policy", "same-origin"],
  ];
}

export function notFound(): AdminResponse {
  return problemResponse("not_found", "There is nothing here: see / for what is");
}

export function methodNotAllowed(allow: readonly string[]): AdminResponse {
  const fields = ["Allow", allow.join(", ")];
  return problemResponse("method_not_allowed", `Here the methods are ${allow.join(", ")}`, {
    fields,
  });
}

export const RETRY_AFTER_1 = { fields: ["Retry-After", "1"] } as const;
