import { REASON_PHRASES } from "../http1/write/reason-phrases.ts";
import { REFUSALS, type RefusalField, type RefusalRow } from "./refusal-table.ts";

/** The code of a row, as responses and log lines name it. */
export type RefusalCode = keyof typeof REFUSALS;

/**
 * `why` goes to the log and never to the client. The other members are for the client, when the
 * row's own words are not enough: a message, the wait for Retry-After, the scopes that a challenge
 * names.
 */
export type Refusal = {
  readonly code: RefusalCode;
  readonly why?: string;
  readonly message?: string;
  readonly retryAfterSeconds?: number;
  /** The end of the brownout that refuses, in Unix seconds. */
  readonly until?: number;
  readonly scope?: string;
  /** Present if this very refusal answers one request after the other. */
  readonly repeated?: RepeatedResponse;
};

/** Keeps what the responses to one refusal have in common; undefined before the first of them. */
export type RepeatedResponse = { parts: ResponseParts | undefined };

/** The parts of a response to a refusal that do not depend on the request. */
export type ResponseParts = {
  readonly errors: ErrorFormat;
  readonly body: string;
  readonly bodyBytes: number;
  /** Field lines, with those of one response between them. */
  readonly ahead: string;
  readonly behind: string;
};

/** The result of every check in core/: a value to continue with, or one refusal to respond with. */
export type Result<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly refusal: Refusal };

export function accept<T>(value: T): Result<T> {
  return { ok: true, value };
}

export function refuse(
  code: RefusalCode,
  why?: string,
  told: Pick<Refusal, "message" | "retryAfterSeconds" | "until" | "scope" | "repeated"> = {},
): Result<never> {
  return { ok: false, refusal: why === undefined ? { code, ...told } : { code, why, ...told } };
}

const ROWS: Readonly<Record<RefusalCode, RefusalRow>> = REFUSALS;

export function statusOf(code: RefusalCode): number {
  return ROWS[code].status;
}

/** Whether the refusal replaces a decision of the store. */
export function isDecision(code: RefusalCode): boolean {
  return ROWS[code].decides === true;
}

/** Whether the upstream failed, not the client or the gateway. */
export function isUpstreamFault(code: RefusalCode): boolean {
  return ROWS[code].upstreamFault === true;
}

/** Whether the connection ends with this refusal. */
export function closesAfter(code: RefusalCode): boolean {
  return ROWS[code].closes;
}

/** The names of the fields that this refusal may add. The request determines if one has a value. */
export function refusalFieldNames(code: RefusalCode): readonly RefusalField[] {
  return ROWS[code].fields;
}

/**
 * The form of error bodies: `plain`, or problem details (RFC 9457), whose types are described under
 * `typesUrl` if there is one.
 */
export type ErrorFormat = "plain" | { readonly typesUrl: string | undefined };

/** The media type of error bodies. */
export function errorMediaType(format: ErrorFormat): string {
  return format === "plain" ? "application/json" : "application/problem+json";
}

/**
 * The body of a refusal as JSON. `status` repeats the HTTP status
 * (docs/reference/http.md#refusals).
 */
export function errorBody(
  { code, message }: Pick<Refusal, "code" | "message">,
  format: ErrorFormat,
): string {
  if (format !== "plain") return problemBody(code, message ?? ROWS[code].message, format.typesUrl);
  if (message === undefined) return BODIES[code];
  return `{"code":"${code}","message":${JSON.stringify(message)},"status":${statusOf(code)}}`;
}

/**
 * The body as problem details. RFC 9457 4.2.1: the title of about:blank is the status phrase; that
 * of another type is fixed.
 */
function problemBody(code: RefusalCode, message: string, typesUrl: string | undefined): string {
  const status = statusOf(code);
  const isNamed = typesUrl !== undefined;
  return JSON.stringify({
    type: isNamed ? `${typesUrl.replace(/\/+$/, "")}/${code}` : "about:blank",
    title: isNamed ? ROWS[code].message : REASON_PHRASES[status],
    status,
    detail: message,
    ...{ code, message },
  });
}

const BODIES = Object.fromEntries(
  Object.entries(REFUSALS).map(([code, { status, message }]) => [
    code,
    JSON.stringify({ code, message, status }),
  ]),
) as Record<RefusalCode, string>;
