import type { Dispatcher } from "undici";
import { responseFields } from "../../core/http/fields.ts";
import { replacedFields } from "../../core/http/own-fields.ts";
import type { Refusal } from "../../core/refusal.ts";
import type { Exchange } from "../exchange/exchange.ts";
import type { Admitted } from "./backend-request.ts";

const FIELDS_MAX = 100;

/** The fields as the backend spelled them, byte for byte. */
export function textOf(raw: Dispatcher.DispatchController["rawHeaders"]): string[] {
  return (raw as readonly Buffer[]).map((part) => part.toString("latin1"));
}

/**
 * The reason why a response must not be passed on, beyond those of the parser
 * (docs/reference/edge.md#response-head). Undefined when it may be.
 */
export function judgeResponse(status: number, raw: readonly string[]): string | undefined {
  if (status > 599) return `status ${status}`;
  if (raw.length > 2 * FIELDS_MAX) return "too many fields";
  let codings = 0;
  for (let i = 0; i < raw.length; i += 2) {
    if ((raw[i] as string).toLowerCase() !== "transfer-encoding") continue;
    codings += 1;
    if (codings > 1 || raw[i + 1]?.toLowerCase() !== "chunked") return "transfer coding";
  }
  return undefined;
}

const LOST = new Set([
  ...["UND_ERR_SOCKET", "ECONNRESET", "EPIPE", "ECONNABORTED"],
  ...["ETIMEDOUT", "EHOSTUNREACH", "ENETUNREACH"],
]);

function codeOf(error: Error): string {
  return "code" in error && error.code !== undefined ? String(error.code) : error.name;
}

/** The connection went away, as one that was kept too long does. */
export function isConnectionLoss(error: Error): boolean {
  return LOST.has(codeOf(error)) && !/^bad /.test(error.message);
}

const NOT_SENDABLE = "UND_ERR_INVALID_ARG";

/** There was no connection to be had, for a reason that lies with the backend or on the way to it. */
export function isUnreached(error: Error): boolean {
  return codeOf(error) !== NOT_SENDABLE;
}

/**
 * The refusal for an error of the client library. The error's name goes to the log, such as why a
 * certificate is not accepted; the client learns the code only
 * (docs/reference/http.md#backend-failures). `started`: there was a connection; `answering`: bytes
 * had come over it.
 */
export function refusalFor(error: Error, started: boolean, answering: boolean): Refusal {
  const code = codeOf(error);
  if (code === NOT_SENDABLE) return { code: "bad_request", why: "a field value" };
  const unreachable = !started || (isConnectionLoss(error) && !answering);
  return { code: unreachable ? "upstream_unreachable" : "upstream_invalid", why: code };
}

/**
 * The reason why an exchange ended before its time. If the backend broke off its response, the
 * reason says how much of the body had come: the client can only tell that it broke off.
 */
export function whyEnded({ code, why = code }: Refusal, exchange: Exchange): string {
  const { response, bodyBytes, promisedBytes } = exchange;
  if (!response.headersSent || !code.startsWith("upstream")) return why;
  const what = code === "upstream_timeout" ? why : `upstream_aborted: ${why}`;
  const whole = promisedBytes === -1 ? "" : ` of ${promisedBytes}`;
  return `${what}, after ${bodyBytes}${whole} bytes of the body`;
}

const SMALL_BYTES_MAX = 16_384;

/** The length that a response promises; -1 where it does not say, or not by one whole number. */
export function promisedLength(raw: readonly string[]): number {
  for (let i = 0; i < raw.length; i += 2) {
    const name = raw[i] as string;
    if (name.length !== 14 || name.toLowerCase() !== "content-length") continue;
    const length = Number(raw[i + 1]);
    return Number.isSafeInteger(length) ? length : -1;
  }
  return -1;
}

/**
 * Whether a body is small and there is something to come: such a one is worth waiting for, because
 * one write for head and body takes a tenth off the cost of a request.
 */
export function isSmall(length: number): boolean {
  return length > 0 && length <= SMALL_BYTES_MAX;
}

/**
 * So many 103s are passed on ahead of one response
 * (docs/reference/edge.md#informational-responses).
 */
const HINTS_MAX = 8;

/**
 * Passes on the 103s of a backend, to clients that know of them; other interim responses are
 * dropped.
 */
export class EarlyHints {
  #passed = 0;

  pass({ exchange, head }: Admitted, status: number, raw: readonly string[]): void {
    if (status !== 103 || head.version !== "1.1" || this.#passed >= HINTS_MAX) return;
    this.#passed += 1;
    const fields = responseFields(raw, { replaced: replacedFields(exchange), status });
    exchange.response.writeInformation(status, fields);
  }
}
