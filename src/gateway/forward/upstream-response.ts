import { clientResponseFields } from "../../core/http/forwarded-fields.ts";
import { replacedFields } from "../../core/http/gateway-fields.ts";
import { isUpstreamFault, type Refusal } from "../../core/refusal.ts";
import type { RequestFailure } from "../../http1/client/outgoing-request.ts";
import type { Exchange } from "../exchange/exchange.ts";
import { describeFailure, FAILURE_REASONS } from "../upstreams/failure-reasons.ts";
import type { ForwardContext } from "./upstream-request.ts";

const FIELDS_MAX = 100;

/**
 * The reason why a response must not be passed on, in addition to the parser's reasons
 * (docs/reference/edge.md#response-head). Undefined if it may be passed on.
 */
export function validateResponse(status: number, raw: readonly string[]): string | undefined {
  if (status > 599) return `status ${status}`;
  const wrong = validateFieldCount(raw);
  if (wrong !== undefined) return wrong;
  let codings = 0;
  for (let i = 0; i < raw.length; i += 2) {
    if ((raw[i] as string).toLowerCase() !== "transfer-encoding") continue;
    codings += 1;
    if (codings > 1 || raw[i + 1]?.toLowerCase() !== "chunked") return FAILURE_REASONS.coding;
  }
  return undefined;
}

/** The same for what holds of interim heads too. */
export function validateFieldCount(raw: readonly string[]): string | undefined {
  return raw.length > 2 * FIELDS_MAX ? "too many fields" : undefined;
}

/**
 * The refusal for a request that was lost on the way to an upstream or back. The reason is for the
 * log, for example why a certificate is not accepted. The client learns only the code
 * (docs/reference/http.md#backend-failures).
 */
export function failureRefusal({ kind, why }: Pick<RequestFailure, "kind" | "why">): Refusal {
  if (kind === "misframed") return { code: "bad_request", why };
  const isUnreachable = kind === "unreached" || kind === "unanswered";
  const code = isUnreachable ? "upstream_unreachable" : "upstream_invalid";
  return { code, why: describeFailure(why) };
}

/**
 * The reason why an exchange ended early. If the upstream broke off its response, the reason says
 * how much of the body had arrived, because the client can only see that it broke off.
 */
export function endReason({ code, why = code }: Refusal, exchange: Exchange): string {
  const { response, bodyBytes, answer } = exchange;
  if (!response.headWritten || !isUpstreamFault(code)) return why;
  const what = code === "upstream_timeout" ? why : `upstream_aborted: ${why}`;
  const promisedBytes = answer?.promisedBytes ?? -1;
  const promised = promisedBytes === -1 ? "" : ` of ${promisedBytes}`;
  return `${what}, after ${bodyBytes}${promised} bytes of the body`;
}

const SMALL_BYTES_MAX = 16_384;

/**
 * Whether a body is small and not empty. Such a body is worth waiting for, because one write for
 * head and body saves a tenth of the cost of a request.
 */
export function isSmall(length: number): boolean {
  return length > 0 && length <= SMALL_BYTES_MAX;
}

/**
 * The most 103s that are passed on before one response
 * (docs/reference/edge.md#informational-responses).
 */
const HINTS_MAX = 8;

/**
 * Passes on an upstream's 103s to clients that understand them. Other interim responses are
 * dropped.
 */
export class EarlyHints {
  #passed = 0;

  pass({ exchange, head }: ForwardContext, status: number, raw: readonly string[]): void {
    if (status !== 103 || head.version !== "1.1" || this.#passed >= HINTS_MAX) return;
    this.#passed += 1;
    const fields = clientResponseFields(raw, { replaced: replacedFields(exchange), status });
    exchange.response.writeInterim(status, fields);
  }
}
