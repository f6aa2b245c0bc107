const TRACEPARENT = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;
const ZERO_TRACE = "0".repeat(32);
const ZERO_SPAN = "0".repeat(16);

/** The fields of a request, each as often as it came. */
export type ReceivedTrace = {
  readonly parents: readonly string[];
  readonly states: readonly string[];
};

/** `continued`: the trace came in with the request, so its tracestate still belongs to it. */
export type Trace = {
  readonly traceparent: string;
  readonly tracestate: string | undefined;
  readonly continued: boolean;
};

/**
 * W3C Trace Context: a valid traceparent is continued under a new parent id, anything else starts a
 * new trace, without the tracestate of the old one. More than one traceparent is invalid. `random`
 * is 48 hexadecimal digits, of which the first 32 become the trace id and the last 16 the parent id.
 */
export function continueTrace({ parents, states }: ReceivedTrace, random: string): Trace {
  const parentId = random.slice(32, 48);
  const match = parents.length === 1 ? TRACEPARENT.exec(parents[0] as string) : null;
  if (match !== null) {
    const [, version, traceId, parent, flags, rest] = match;
    const valid =
      version !== "ff" &&
      (version !== "00" || rest === undefined) &&
      traceId !== ZERO_TRACE &&
      parent !== ZERO_SPAN;
    if (valid) {
      // Unknown flags are zero; sampled (1) and random (2) go on as received.
      const known = (Number.parseInt(flags as string, 16) & 3).toString(16).padStart(2, "0");
      const traceparent = `00-${traceId}-${parentId}-${known}`;
      return { traceparent, tracestate: stateOf(states), continued: true };
    }
  }
  const traceparent = `00-${random.slice(0, 32)}-${parentId}-00`;
  return { traceparent, tracestate: undefined, continued: false };
}

/** Trace Context 3.3.1.3: a key and a value of at most 256 characters, none of them a separator. */
const MEMBER =
  /^[a-z0-9][a-z0-9_\-*/@]{0,255}=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]$/;
const MEMBERS_MAX = 32;
const LENGTH_MAX = 512;
/** Trace Context 3.3.1.5: of a list too long, members longer than this go first. */
const LONG_MEMBER_LENGTH = 128;

/** The members of all fields as one list, or undefined where there is none that could go on. */
function stateOf(states: readonly string[]): string | undefined {
  const members: string[] = [];
  for (const member of states.join(",").split(",")) {
    const text = member.trim();
    if (text === "") continue;
    if (members.length === MEMBERS_MAX || !MEMBER.test(text)) return undefined;
    members.push(text);
  }
  return shortened(members).join(",") || undefined;
}

function shortened(members: readonly string[]): readonly string[] {
  if (lengthOf(members) <= LENGTH_MAX) return members;
  const kept = members.filter((member) => member.length <= LONG_MEMBER_LENGTH);
  while (lengthOf(kept) > LENGTH_MAX) kept.pop();
  return kept;
}

function lengthOf(members: readonly string[]): number {
  return members.reduce((sum, { length }) => sum + length + 1, -1);
}
