import { cleanText, errorMessage } from "../../base/messages.ts";
import { request } from "../../base/node-http.ts";

const ANSWER_CHARACTERS_MAX = 64 * 1024 ** 2;

type ExchangeOptions = {
  readonly method: string;
  readonly token: string;
  readonly body?: string;
  readonly withinMs: number;
  /** Called when the gateway may have some of the request. */
  readonly onSent?: () => void;
};

/** `missing` are the parts of a Cluster or the workers that the answer lacks (docs/reference/admin.md#missing-parts). */
export type AdminAnswer = {
  readonly status: number;
  readonly text: string;
  /** The path of the next page of a list. */
  readonly next: string | undefined;
  readonly missing: readonly string[];
};

/** Sends one request to an admin listener. Rejects if there is no whole answer in time. */
export function exchange(
  url: URL,
  { method, token, body = "", withinMs, onSent = () => {} }: ExchangeOptions,
): Promise<AdminAnswer> {
  const headers = {
    "Content-Type": "application/json",
    "Content-Length": Buffer.byteLength(body),
    ...(token === "" ? {} : { Authorization: `Bearer ${token}` }),
  };
  return new Promise((resolve, reject) => {
    const signal = AbortSignal.timeout(withinMs);
    const asked = request(url, { method, headers, agent: false, signal }, (answer) => {
      let text = "";
      answer.setEncoding("utf8");
      answer.on("data", (piece: string) => {
        text += piece;
        if (text.length > ANSWER_CHARACTERS_MAX)
          answer.destroy(new Error("the answer is too long"));
      });
      const next = /<(\/[^>]*)>; rel="next"/.exec(String(answer.headers.link))?.[1];
      const named = answer.headers["x-tollgate-missing"];
      const missing = named === undefined ? [] : cleanText(String(named)).split(", ");
      answer.on("end", () => resolve({ status: answer.statusCode ?? 0, text, next, missing }));
      answer.on("error", reject);
    });
    asked.on("error", reject);
    asked.on("socket", (socket) => socket.once("connect", onSent));
    asked.end(body);
  });
}

/** How many milliseconds a gateway was waited for in vain, by the settings that name it. */
const waitedMs = new WeakMap<object, number>();

/**
 * The same as `exchange`. The time for which the verb has waited for this gateway in vain is taken off,
 * so that several questions wait no longer together than the one with the latest deadline. A change for
 * which no time is left is not sent, because nobody would hear what became of it.
 */
export async function exchangeOnce(
  admin: object,
  url: URL,
  { withinMs, isChange, ...options }: ExchangeOptions & { readonly isChange?: boolean },
): Promise<AdminAnswer> {
  const leftMs = Math.max(0, withinMs - (waitedMs.get(admin) ?? 0));
  if (isChange && leftMs === 0) throw new DOMException("No time is left", "AbortError");
  try {
    return await exchange(url, { ...options, withinMs: leftMs });
  } catch (error) {
    if (isTimeout(error)) {
      waitedMs.set(admin, Math.max(waitedMs.get(admin) ?? 0, withinMs));
    }
    throw error;
  }
}

/** Why an exchange had no whole answer. */
export function whyUnanswered(error: unknown): string {
  const { code } = (error ?? {}) as { readonly code?: unknown };
  if (code === "ECONNREFUSED") return "nothing listens there";
  if (code === "ECONNRESET") return "the connection ended before its answer";
  return isTimeout(error) ? "it does not answer" : errorMessage(error);
}

/** Whether an exchange ended because its time was over. */
export function isTimeout(error: unknown): boolean {
  return (error as { readonly name?: unknown } | undefined)?.name === "AbortError";
}
