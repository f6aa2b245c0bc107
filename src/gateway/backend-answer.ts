import type { Dispatcher } from "undici";
import type { Refusal } from "../core/refusal.ts";

const FIELDS_MAX = 100;
/** 103s that are passed on ahead of a response, at most (edge.md, Response back). */
export const EARLY_HINTS_MAX = 8;

/** The fields as the backend spelled them, byte for byte. */
export function textOf(raw: Dispatcher.DispatchController["rawHeaders"]): string[] {
  if (!Array.isArray(raw)) return [];
  return raw.map((part: Buffer | string) => {
    return typeof part === "string" ? part : part.toString("latin1");
  });
}

/** What makes a response unfit to be passed on, beyond what the parser refuses (edge.md). */
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
 * Names of errors go to the log, such as why a certificate is not accepted; the client learns the
 * code of contract 4 only. `started`: there was a connection; `answering`: bytes had come over it.
 */
export function refusalFor(error: Error, started: boolean, answering: boolean): Refusal {
  const code = codeOf(error);
  if (code === NOT_SENDABLE) return { code: "bad_request", why: "a field value" };
  const unreachable = !started || (isConnectionLoss(error) && !answering);
  return { code: unreachable ? "upstream_unreachable" : "upstream_invalid", why: code };
}

const SMALL_BYTES_MAX = 16_384;

/** The Content-Length where it is small and there is something to come, else -1: such a body is
 * worth waiting for, because one write for head and body takes a tenth off the cost of a request. */
export function smallLength(raw: readonly string[]): number {
  for (let i = 0; i < raw.length; i += 2) {
    const name = raw[i] as string;
    if (name.length !== 14 || name.toLowerCase() !== "content-length") continue;
    const length = Number(raw[i + 1]);
    return length > 0 && length <= SMALL_BYTES_MAX ? length : -1;
  }
  return -1;
}
