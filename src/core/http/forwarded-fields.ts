import type { AccountRecord, KeyRecord } from "../keys/records.ts";
import { forwardsLeft, type RequestHead } from "./head.ts";
import { parseTraceContext, type TraceFields } from "./trace-context.ts";

/**
 * Fields of one connection, never of the message: RFC 9110 7.6.1, and HTTP/2's upgrade field. Close
 * is not a field (RFC 9110 18.4), but a field of that name is what `Connection: close` nominates.
 */
const HOP_BY_HOP = new Set([
  "close",
  "connection",
  "keep-alive",
  "proxy-connection",
  "proxy-authenticate",
  "proxy-authorization",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
  "http2-settings",
]);

/** Whether a field, named in lower case, is of one connection and not of the message. */
export function isHopByHop(name: string): boolean {
  return HOP_BY_HOP.has(name);
}

/** Fields replaced for the backend, or not sent (docs/reference/edge.md#request-fields). */
const NOT_FORWARDED = new Set([
  "authorization",
  "content-length",
  "expect",
  "host",
  "x-request-id",
  "x-client-request-id",
  "x-original-url",
  "x-rewrite-url",
  "x-http-method-override",
  "x-http-method",
  "x-method-override",
  "traceparent",
  "tracestate",
  "via",
]);

/** Fields other than `X-Forwarded-*` in which proxies name the client. */
export const FROM_PROXIES: ReadonlySet<string> = new Set([
  "forwarded",
  "x-real-ip",
  "x-original-forwarded-for",
  "x-client-ip",
  "true-client-ip",
  "cf-connecting-ip",
  "client-ip",
  "x-cluster-client-ip",
  "fastly-client-ip",
]);

/**
 * Fields that the gateway writes with what a trusted proxy said in them. No nomination takes that
 * away: HAProxy passes on what its client nominates.
 */
const CONTINUED = new Set(["x-forwarded-for", "x-forwarded-host", "x-forwarded-proto"]);

/** The gateway's own statements about a request, for the backend. */
export type ForwardedIdentity = {
  readonly requestId: string;
  /** Both are undefined if the request had no key. */
  readonly key: Pick<KeyRecord, "id" | "scopes"> | undefined;
  readonly owner: Pick<AccountRecord, "id" | "plan" | "meta"> | undefined;
  /** Names of the fields that may carry a key, in lower case. None of them is forwarded. */
  readonly keyHeaders: readonly string[];
  readonly peer: string;
  readonly peerIsTrusted: boolean;
  readonly scheme: "http" | "https";
  /** The path prefix that is hidden from the backend, or "". */
  readonly prefix: string;
  /** Whether the gateway reads the answer: then the backend must not code it. */
  readonly readsAnswer?: boolean;
  /** The trace that the gateway continues or begins; undefined if it sends none. */
  readonly trace?: TraceFields | undefined;
};

/** The gateway's name in Via: RFC 9110 7.6.3 allows a pseudonym. */
const PSEUDONYM = "tollgate";
/** Gateways in a row are fine, but a request that passes this one more often is in a loop. */
const PASSES_MAX = 3;

/** Whether a request loops. RFC 9110 7.6: a message must not be forwarded to oneself endlessly. */
export function isLoop({ names, rawHeaders }: Pick<RequestHead, "names" | "rawHeaders">): boolean {
  let passes = 0;
  for (let i = 0; i < names.length; i++) {
    if (names[i] !== "via") continue;
    for (const member of (rawHeaders[2 * i + 1] as string).split(",")) {
      if (member.trim().split(/\s+/)[1] === PSEUDONYM) passes += 1;
    }
  }
  return passes > PASSES_MAX;
}

const NONE: ReadonlySet<string> = new Set();

/** The names that Connection nominates, in lower case: none in nearly all requests. */
function nominated(names: readonly string[], raw: readonly string[]): ReadonlySet<string> {
  let set: Set<string> | undefined;
  for (let i = 0; i < names.length; i++) {
    if (names[i] !== "connection") continue;
    const value = (raw[2 * i + 1] as string).toLowerCase();
    if (value === "keep-alive" || value === "close") continue;
    set ??= new Set();
    for (const option of value.split(",")) set.add(option.trim());
  }
  return set ?? NONE;
}

/** Whether a field tells a backend about its consumer. `name` is in lower case. */
export function isConsumerField(name: string): boolean {
  return name.startsWith("x-consumer-");
}

function isOurs(name: string): boolean {
  return isConsumerField(name) || name.startsWith("x-ratelimit-");
}

/** The characters of a name other than letters, digits and "-". */
const ODD = /[^a-z0-9-]/g;

/**
 * Whether a backend may read a name with such characters as another name that is not forwarded. A
 * CGI variable has "_" for "-" and, from PHP and some servers, for every other such character.
 */
function isMisread(name: string, keyHeaders: readonly string[]): boolean {
  if (name.search(ODD) === -1) return false;
  if (name.includes("_")) return true;
  const read = name.replace(ODD, "-");
  if (isOurs(read) || read.startsWith("x-forwarded-") || FROM_PROXIES.has(read)) return true;
  return HOP_BY_HOP.has(read) || NOT_FORWARDED.has(read) || keyHeaders.includes(read);
}

/**
 * The fields of the request to the backend, as a flat list. The client's fields come first, without
 * the fields of the connection, those that a client may not set, and those that a backend may read
 * as one of these. The gateway's fields follow, so that a nomination can never remove them. The
 * client library writes the framing from the body.
 */
export function upstreamRequestFields(head: RequestHead, identity: ForwardedIdentity): string[] {
  const { names, rawHeaders } = head;
  const dropped = nominated(names, rawHeaders);
  const nominates = dropped.size > 0;
  const fields: string[] = [];
  const traceparents: string[] = [];
  const tracestates: string[] = [];
  const vias: string[] = [];
  const forwardedFor: string[] = [];
  let clientRequestId: string | undefined;
  let host = head.host;
  let scheme: string = identity.scheme;
  const hops = forwardsLeft(head);

  for (let i = 0; i < names.length; i++) {
    const name = names[i] as string;
    const value = rawHeaders[2 * i + 1] as string;
    if (HOP_BY_HOP.has(name)) continue;
    if (nominates && dropped.has(name) && !CONTINUED.has(name)) continue;
    if (isOurs(name) || identity.keyHeaders.includes(name)) continue;
    if (isMisread(name, identity.keyHeaders)) continue;
    if (identity.readsAnswer && name === "accept-encoding") continue;
    if (NOT_FORWARDED.has(name)) {
      if (name === "traceparent") traceparents.push(value);
      else if (name === "tracestate") tracestates.push(value);
      else if (name === "via") pushMembers(vias, value);
      else if (name === "x-request-id") clientRequestId = value;
    } else if (FROM_PROXIES.has(name) || name.startsWith("x-forwarded-")) {
      if (!identity.peerIsTrusted) continue;
      if (name === "x-forwarded-for") pushMembers(forwardedFor, value);
      else if (name === "x-forwarded-host") host = value || host;
      else if (name === "x-forwarded-proto") scheme = value || scheme;
      else if (name === "x-forwarded-prefix") continue;
      else fields.push(rawHeaders[2 * i] as string, value);
    } else if (name === "max-forwards" && hops !== undefined) {
      fields.push(rawHeaders[2 * i] as string, String(hops - 1));
    } else {
      fields.push(rawHeaders[2 * i] as string, value);
    }
  }

  const received = { parents: traceparents, states: tracestates };
  const trace = identity.trace ?? parseTraceContext(received);
  pushConsumer(fields, identity);
  if (identity.readsAnswer) fields.push("Accept-Encoding", "identity");
  fields.push("X-Request-Id", identity.requestId);
  if (clientRequestId !== undefined && isPlain(clientRequestId)) {
    fields.push("X-Client-Request-Id", clientRequestId);
  }
  forwardedFor.push(identity.peer);
  fields.push("X-Forwarded-For", forwardedFor.join(", "));
  fields.push("X-Forwarded-Proto", scheme, "X-Forwarded-Host", host);
  if (identity.prefix !== "") fields.push("X-Forwarded-Prefix", identity.prefix);
  vias.push(`${head.version} ${PSEUDONYM}`);
  fields.push("Via", vias.join(", "));
  if (trace !== undefined) fields.push("traceparent", trace.traceparent);
  if (trace?.tracestate !== undefined) fields.push("tracestate", trace.tracestate);
  return fields;
}

const EMPTY_MEMBER = /(?:^|,)[ \t]*(?:,|$)/;

/** A list that is sent on must not have empty members (RFC 9110 5.6.1.1). */
function pushMembers(members: string[], value: string): void {
  if (!EMPTY_MEMBER.test(value)) members.push(value);
  else members.push(...value.split(",").flatMap((member) => member.trim() || []));
}

/** The account and the key of the request (docs/reference/http.md#backend-fields). */
function pushConsumer(fields: string[], { key, owner }: ForwardedIdentity): void {
  if (key === undefined || owner === undefined) return;
  fields.push("X-Consumer-Id", owner.id, "X-Consumer-Plan", owner.plan);
  fields.push("X-Consumer-Key-Id", key.id);
  if (key.scopes.length > 0) fields.push("X-Consumer-Scopes", key.scopes.join(" "));
  for (const name of Object.keys(owner.meta)) {
    fields.push(`X-Consumer-Meta-${capitalized(name)}`, owner.meta[name] as string);
  }
}

/** Capitalizes "tenant-id" as field names are written: "Tenant-Id". */
function capitalized(name: string): string {
  return name.replace(/(?:^|-)[a-z]/g, (start) => start.toUpperCase());
}

/** Whether a client's own id is a plain token: no log is to carry control characters. */
function isPlain(value: string): boolean {
  return value.length <= 128 && /^[\x21-\x7e]+$/.test(value);
}

/**
 * The backend's fields for the client, as a flat list: without the fields of the connection and
 * those in `replaced` (lower case), and with only the first Date. Interim responses and a 204 have no
 * length (RFC 9110 8.6). HEAD and 304 may state the length that GET would have.
 */
export function clientResponseFields(
  raw: readonly string[],
  { replaced, status }: { replaced: ReadonlySet<string>; status: number },
): string[] {
  const names: string[] = [];
  for (let i = 0; i < raw.length; i += 2) names.push((raw[i] as string).toLowerCase());
  const dropped = nominated(names, raw);
  const nominates = dropped.size > 0;
  const hasLength = status >= 200 && status !== 204;
  const fields: string[] = [];
  for (let i = 0; i < names.length; i++) {
    const name = names[i] as string;
    if (HOP_BY_HOP.has(name) || (nominates && dropped.has(name))) continue;
    if (replaced.has(name) || (!hasLength && name === "content-length")) continue;
    if (name === "date" && names.indexOf(name) < i) continue;
    fields.push(raw[2 * i] as string, raw[2 * i + 1] as string);
  }
  return fields;
}
