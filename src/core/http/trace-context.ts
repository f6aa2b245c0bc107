const TRACEPARENT = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;
const ZERO_TRACE = "0".repeat(32);
const ZERO_SPAN = "0".repeat(16);

/** The values of each trace field of a request, one for every time that it occurred. */
type TraceFieldValues = {
  readonly parents: readonly string[];
  readonly states: readonly string[];
};

/** The fields of a trace, as they are sent to the backend. */
export type TraceFields = {
  readonly traceparent: string;
  readonly tracestate: string | undefined;
};

/** A client's trace, as it is sent to the backend, and the parts of its traceparent. */
export type TraceContext = TraceFields & {
  readonly traceId: string;
  readonly parentId: string;
  readonly flags: number;
};

/**
 * The client's trace, unchanged. Undefined if there is no valid traceparent; its tracestate is then
 * dropped too. No trace begins here, because a backend that follows the flag of its parent would
 * stop recording (W3C Trace Context 2.2 and 3.3). More than one traceparent is invalid.
 */
export function parseTraceContext({ parents, states }: TraceFieldValues): TraceContext | undefined {
  const [traceparent] = parents;
  if (traceparent === undefined || parents.length > 1) return undefined;
  const match = TRACEPARENT.exec(traceparent);
  if (match === null) return undefined;
  const [version, traceId, parentId, flags] = match.slice(1, 5) as [string, string, string, string];
  const rest = match[5];
  if (version === "ff" || (version === "00" && rest !== undefined)) return undefined;
  if (traceId === ZERO_TRACE || parentId === ZERO_SPAN) return undefined;
  const parsed = { traceId, parentId, flags: Number.parseInt(flags, 16) };
  return { ...parsed, traceparent, tracestate: stateOf(states) };
}

/** The client's trace, from the fields of its request; undefined as in `parseTraceContext`. */
export function readTraceContext(rawHeaders: readonly string[]): TraceContext | undefined {
  const parents: string[] = [];
  const states: string[] = [];
  for (let i = 0; i < rawHeaders.length; i += 2) {
    // Few other names have the length of these two, so most fields need no copy in lower case.
    const { length } = rawHeaders[i] as string;
    if (length !== TRACEPARENT_LENGTH && length !== TRACESTATE_LENGTH) continue;
    const name = (rawHeaders[i] as string).toLowerCase();
    if (name === "traceparent") parents.push(rawHeaders[i + 1] as string);
    else if (name === "tracestate") states.push(rawHeaders[i + 1] as string);
  }
  return parseTraceContext({ parents, states });
}

const TRACEPARENT_LENGTH = "traceparent".length;
const TRACESTATE_LENGTH = "tracestate".length;

const SAMPLED = 0x01;
/** The trace id was made at random, which stays true (Trace Context Level 2, 3.2.2.2). */
const RANDOM = 0x02;

/**
 * The trace fields that a span of the gateway sends, in the client's trace or in a new one (Trace
 * Context 3.4). The span is the new parent. The client's tracestate is passed on as it is.
 */
export function childTraceFields(
  span: { readonly traceId: string; readonly spanId: string; readonly sampled: boolean },
  received: TraceContext | undefined,
): TraceFields {
  const flags = (span.sampled ? SAMPLED : 0) | ((received?.flags ?? 0) & RANDOM);
  const traceparent = `00-${span.traceId}-${span.spanId}-${flags.toString(16).padStart(2, "0")}`;
  return { traceparent, tracestate: received?.tracestate };
}

/** The id of the trace that a request belongs to, if it names one. */
export function traceIdOf({
  names,
  rawHeaders,
}: {
  readonly names: readonly string[];
  readonly rawHeaders: readonly string[];
}): string | undefined {
  const place = names.indexOf("traceparent");
  if (place === -1 || names.includes("traceparent", place + 1)) return undefined;
  return parseTraceContext({ parents: [rawHeaders[2 * place + 1] as string], states: [] })?.traceId;
}

/** Trace Context 3.3.1.3: a key and a value of at most 256 characters, none of them a separator. */
const MEMBER =
  /^[a-z0-9][a-z0-9_\-*/@]{0,255}=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]$/;
const MEMBERS_MAX = 32;

/** All fields as one list; undefined if it has no member, too many, or a malformed one. */
function stateOf(states: readonly string[]): string | undefined {
  const list = states.join(",");
  const members = list
    .split(",")
    .map((member) => member.trim())
    .filter((member) => member !== "");
  const isValid = members.length <= MEMBERS_MAX && members.every((member) => MEMBER.test(member));
  return members.length > 0 && isValid ? list : undefined;
}
