const TRACEPARENT = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;
const ZERO_TRACE = "0".repeat(32);
const ZERO_SPAN = "0".repeat(16);

/** `continued`: the trace came in with the request, so its tracestate still belongs to it. */
export type Trace = { readonly traceparent: string; readonly continued: boolean };

/**
 * W3C Trace Context: a valid traceparent is continued under a new parent id, anything else starts a
 * new trace. `received` holds every traceparent field, since more than one is invalid; `random` is
 * 48 hexadecimal digits, of which the first 32 become the trace id and the last 16 the parent id.
 */
export function continueTrace(received: readonly string[], random: string): Trace {
  const parentId = random.slice(32, 48);
  const match = received.length === 1 ? TRACEPARENT.exec(received[0] as string) : null;
  if (match !== null) {
    const [, version = "", traceId = "", parent = "", flags = "", rest] = match;
    const valid =
      version !== "ff" &&
      (version !== "00" || rest === undefined) &&
      traceId !== ZERO_TRACE &&
      parent !== ZERO_SPAN;
    if (valid) {
      // Unknown flags are zero; sampled (1) and random (2) go on as received.
      const known = (Number.parseInt(flags, 16) & 3).toString(16).padStart(2, "0");
      return { traceparent: `00-${traceId}-${parentId}-${known}`, continued: true };
    }
  }
  return { traceparent: `00-${random.slice(0, 32)}-${parentId}-00`, continued: false };
}
