const TRACEPARENT = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(-.*)?$/;
const ZERO_TRACE = "0".repeat(32);
const ZERO_SPAN = "0".repeat(16);

/** The fields of a request, each as often as it came. */
export type ReceivedTrace = {
  readonly parents: readonly string[];
  readonly states: readonly string[];
};

/** A client's trace, as it goes on to the backend. */
export type Trace = {
  readonly traceId: string;
  readonly traceparent: string;
  readonly tracestate: string | undefined;
};

/**
 * The client's trace, unchanged; undefined where there is no valid one, and its tracestate goes with
 * it. None is begun here: a backend that follows the flag of its parent would stop recording (W3C
 * Trace Context 2.2 and 3.3). More than one traceparent is invalid.
 */
export function passTrace({ parents, states }: ReceivedTrace): Trace | undefined {
  const [traceparent] = parents;
  if (traceparent === undefined || parents.length > 1) return undefined;
  const match = TRACEPARENT.exec(traceparent);
  if (match === null) return undefined;
  const [version, traceId, parent] = match.slice(1, 4) as [string, string, string];
  const rest = match[4];
  if (version === "ff" || (version === "00" && rest !== undefined)) return undefined;
  if (traceId === ZERO_TRACE || parent === ZERO_SPAN) return undefined;
  return { traceId, traceparent, tracestate: stateOf(states) };
}

/** The id of the trace that a request belongs to, where it says so. */
export function traceIdOf({
  names,
  rawHeaders,
}: {
  readonly names: readonly string[];
  readonly rawHeaders: readonly string[];
}): string | undefined {
  const place = names.indexOf("traceparent");
  if (place === -1 || names.includes("traceparent", place + 1)) return undefined;
  return passTrace({ parents: [rawHeaders[2 * place + 1] as string], states: [] })?.traceId;
}

/** Trace Context 3.3.1.3: a key and a value of at most 256 characters, none of them a separator. */
const MEMBER =
  /^[a-z0-9][a-z0-9_\-*/@]{0,255}=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]$/;
const MEMBERS_MAX = 32;

/** All fields as one list, or undefined where it has no member, too many, or a malformed one. */
function stateOf(states: readonly string[]): string | undefined {
  const list = states.join(",");
  const members = list
    .split(",")
    .map((member) => member.trim())
    .filter((member) => member !== "");
  const isValid = members.length <= MEMBERS_MAX && members.every((member) => MEMBER.test(member));
  return members.length > 0 && isValid ? list : undefined;
}
