import { isIPv6 } from "node:net";
import type { FramingError } from "../../http1/parse/framing.ts";
import { shortestInBrackets } from "../address.ts";
import { accept, type Result, refuse } from "../refusal.ts";
import type { EdgeLimits } from "./edge-limits.ts";
import { isMethod } from "./route.ts";

/** A head as the parser returned it: names and values in turn, nothing merged or dropped. */
export type RawRequestHead = {
  readonly method: string;
  readonly target: string;
  readonly version: string;
  readonly rawHeaders: readonly string[];
  /** The length of the body in bytes, or chunked, or the reason why it is unknown. */
  readonly framing: number | "chunked" | FramingError;
};

type RequestHeadLimits = Pick<EdgeLimits, "headerBytes" | "headerCount" | "urlBytes">;

/** A head that is safe to forward. `names` are those of rawHeaders in order, in lower case. */
export type RequestHead = RawRequestHead & {
  readonly names: readonly string[];
  readonly host: string;
  readonly authorization: string | undefined;
  readonly upgrade: string | undefined;
  readonly framing: number | "chunked";
  readonly expectsContinue: boolean;
};

/**
 * The fields that may occur once only; undefined if one is absent. All objects have one shape,
 * because a Map for each request costs more than all other checks here.
 */
class SingleFields {
  host: string | undefined;
  authorization: string | undefined;
  "content-length": string | undefined;
  "transfer-encoding": string | undefined;
  "content-type": string | undefined;
  expect: string | undefined;
  upgrade: string | undefined;
}

/** A name, or in brackets what may be an IPv6 address; a port. */
const HOST = /^(?:[A-Za-z0-9._-]+|\[([0-9A-Fa-f:.]+)\])(?::(\d{0,5}))?$/;
const PORT_MAX = 65_535;

/**
 * Validates everything about a head that does not depend on its route
 * (docs/reference/edge.md#request-head): limits, version, method, the fields that may occur once
 * only, Host and framing. A field that may occur once is counted over all lines of the head,
 * because two parties may each believe another one of two Hosts.
 */
export function validateHead(raw: RawRequestHead, limits: RequestHeadLimits): Result<RequestHead> {
  const { method, version } = raw;
  const sized = validateHeadSize(raw, limits);
  if (!sized.ok) return sized;
  const fields = readFields(raw.rawHeaders);
  if (!fields.ok) return fields;
  if (version !== "1.1" && version !== "1.0") return refuse("http_version", version);
  if (method === "CONNECT") return refuse("method_not_allowed");
  if (method === "TRACE") return refuseTrace(raw);
  if (!isMethod(method)) return refuse("not_implemented", "unknown method");

  const { single, names } = fields.value;
  const { host, authorization, expect, upgrade } = single;
  if (host === undefined) return refuse("bad_request", "no Host");
  if (!isHost(host)) return refuse("bad_request", "malformed Host");
  const framing = checkFraming(raw);
  if (!framing.ok) return framing;
  if (expect !== undefined && expect.toLowerCase() !== "100-continue") {
    return refuse("expectation_failed");
  }
  return accept({
    method,
    target: raw.target,
    version,
    rawHeaders: raw.rawHeaders,
    names,
    host,
    authorization,
    upgrade,
    framing: framing.value,
    // An HTTP/1.0 client would take the 100 for the answer (RFC 9110 10.1.1).
    expectsContinue: expect !== undefined && version === "1.1",
  });
}

function isHost(host: string): boolean {
  const parts = HOST.exec(host);
  if (parts === null) return false;
  const [, address, port] = parts;
  return (address === undefined || isIPv6(address)) && Number(port ?? 0) <= PORT_MAX;
}

/** Validates the fields of a head, by number and bytes with ": " and CRLF, and its target. */
export function validateHeadSize(
  { rawHeaders, target }: RawRequestHead,
  limits: RequestHeadLimits,
): Result<void> {
  if (rawHeaders.length > 2 * limits.headerCount) return refuse("headers_too_large", "too many");
  let bytes = 2 * rawHeaders.length;
  for (const part of rawHeaders) bytes += part.length;
  if (bytes > limits.headerBytes) return refuse("headers_too_large");
  return target.length > limits.urlBytes ? refuse("uri_too_long") : accept(undefined);
}

type Fields = { readonly names: string[]; readonly single: Readonly<SingleFields> };

function readFields(rawHeaders: readonly string[]): Result<Fields> {
  const names: string[] = [];
  const single = new SingleFields();
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = (rawHeaders[i] as string).toLowerCase();
    names.push(name);
    switch (name) {
      case "host":
      case "authorization":
      case "content-length":
      case "transfer-encoding":
      case "content-type":
      case "expect":
      case "upgrade":
        if (single[name] !== undefined) return refuse("bad_request", `more than one ${name}`);
        single[name] = rawHeaders[i + 1] as string;
    }
  }
  return accept({ names, single });
}

/** The refusal for each framing that the parser could not read. */
const FRAMING_REFUSALS = {
  length_and_coding: refuse("bad_request", "both length and transfer coding"),
  coding_on_1_0: refuse("bad_request", "transfer coding on HTTP/1.0"),
  coding: refuse("not_implemented", "transfer coding"),
  length: refuse("bad_request", "malformed Content-Length"),
} as const satisfies Record<FramingError, Result<never>>;

function checkFraming({ framing }: RawRequestHead): Result<number | "chunked"> {
  if (typeof framing === "number" || framing === "chunked") return accept(framing);
  return FRAMING_REFUSALS[framing];
}

/** RFC 9110 9.3.8: a client sends no body with TRACE. */
function refuseTrace(raw: RawRequestHead): Result<never> {
  const framing = checkFraming(raw);
  if (!framing.ok) return framing;
  if (framing.value !== 0) return refuse("bad_request", "a body on TRACE");
  return refuse("method_not_allowed");
}

export function hasBody({ framing }: Pick<RequestHead, "framing">): boolean {
  return framing !== 0;
}

const BODILESS = new Set(["GET", "HEAD", "OPTIONS"]);

/**
 * Validates the body against the route found and the size allowed. A body on GET, HEAD or OPTIONS
 * has no meaning and is a means of request smuggling. A body on DELETE must be declared
 * (docs/reference/edge.md#request-framing).
 */
export function validateBody(
  head: RequestHead,
  { bodyBytes, deleteBody }: { bodyBytes: number; deleteBody: boolean },
): Result<RequestHead> {
  if (!hasBody(head)) return accept(head);
  if (BODILESS.has(head.method) || (head.method === "DELETE" && !deleteBody)) {
    return refuse("bad_request", `a body on ${head.method}`);
  }
  if (head.framing !== "chunked" && head.framing > bodyBytes) {
    return refuse("body_too_large", undefined, { message: bodyTooLargeMessage(bodyBytes) });
  }
  return accept(head);
}

export function bodyTooLargeMessage(bodyBytes: number): string {
  return `The request body is larger than the ${bodyBytes} bytes that this gateway accepts here`;
}

/**
 * Removes the port from the authority, and the final dot of a complete DNS name (RFC 3986 3.2.2),
 * lowers its case and shortens IPv6, for comparison with configured hosts.
 */
export function normalizeHost(host: string): string {
  return shortestInBrackets(host.replace(/\.?(?::\d*)?$/, "").toLowerCase());
}

/** The values of one field, as sent but for blanks around them. `wanted` is in lower case. */
export function fieldValues(rawHeaders: readonly string[], wanted: string): string[] {
  const values: string[] = [];
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] as string;
    if (name.length !== wanted.length || name.toLowerCase() !== wanted) continue;
    values.push((rawHeaders[i + 1] as string).trim());
  }
  return values;
}

/**
 * How often an OPTIONS may still be forwarded, as its Max-Forwards says; undefined if it does not
 * say, or says no number. Other methods may leave the field alone, and it goes on as it came (RFC
 * 9110 7.6.2).
 */
export function forwardsLeft({
  method,
  rawHeaders,
}: Pick<RequestHead, "method" | "rawHeaders">): number | undefined {
  if (method !== "OPTIONS") return undefined;
  const [value = "", ...more] = fieldValues(rawHeaders, "max-forwards");
  if (more.length > 0 || !/^\d+$/.test(value)) return undefined;
  return Math.min(Number(value), Number.MAX_SAFE_INTEGER);
}
