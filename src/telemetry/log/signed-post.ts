import { createHmac } from "node:crypto";
import type { OutgoingHttpHeaders } from "node:http";
import { request } from "../../base/node-http.ts";

/** A message for a receiver of webhooks. A repeated message has the same id and the same body. */
export type SignedMessage = {
  readonly id: string;
  /** The media type of the body. */
  readonly type: string;
  readonly body: string;
};

/** Where messages go, and the key that signs them: `whsec_` and the key in base64. */
export type Receiver = { readonly url: string; readonly secret: string };

/** Why a message was not accepted, in words without the URL, and the status if there was one. */
export type PostFailure = { readonly why: string; readonly status?: number };

const ANSWER_MS_MAX = 10_000;
const PAUSE_MS = 1_000;
const PAUSE_MS_MAX = 300_000;

/** The pause before a message is sent again. Each of the `failures` ahead of the last one doubles it. */
export function retryPauseMs(failures: number, firstMs = PAUSE_MS): number {
  return Math.min(firstMs * 2 ** failures, PAUSE_MS_MAX);
}

/** A pause is for the receiver that failed, and may be long: it ends where a reload names another. */
export function isSameReceiver(one: Receiver | undefined, other: Receiver | undefined): boolean {
  return one?.url === other?.url && one?.secret === other?.secret;
}

/**
 * Sends a message, signed at `nowMs` (Standard Webhooks 1.0). Returns undefined if the receiver
 * accepted it, which is any response of 2xx, else why not. `cut` ends the wait for the response.
 */
export async function postSigned(
  { url, secret }: Receiver,
  { id, type, body }: SignedMessage,
  nowMs: number,
  cut?: AbortSignal,
): Promise<PostFailure | undefined> {
  const timestamp = String(Math.floor(nowMs / 1000));
  const headers = {
    "content-type": type,
    "content-length": Buffer.byteLength(body),
    "webhook-id": id,
    "webhook-timestamp": timestamp,
    "webhook-signature": sign(secret, `${id}.${timestamp}.${body}`),
  };
  const timeout = AbortSignal.timeout(ANSWER_MS_MAX);
  const signal = cut === undefined ? timeout : AbortSignal.any([timeout, cut]);
  const answer = await post(new URL(url), headers, body, signal);
  if (typeof answer === "number") {
    if (answer >= 200 && answer < 300) return undefined;
    return { why: `the receiver answered ${answer}`, status: answer };
  }
  if (timeout.aborted)
    return { why: `the receiver did not answer within ${ANSWER_MS_MAX / 1000} s` };
  if (cut?.aborted) return { why: "the wait for an answer was cut" };
  const { connected, code } = answer;
  const what = connected ? "sent no valid answer" : "cannot be reached";
  return { why: `the receiver ${what}${code === undefined ? "" : ` (${code})`}` };
}

type NoAnswer = { readonly connected: boolean; readonly code: string | undefined };

/**
 * Resolves with the status, as soon as the head of the response has arrived. Uses Node's client and
 * not `fetch`, which refuses the ports that browsers block, such as 6000 and 10080.
 */
async function post(
  url: URL,
  headers: OutgoingHttpHeaders,
  body: string,
  signal: AbortSignal,
): Promise<number | NoAnswer> {
  const isSecure = url.protocol === "https:";
  const send = isSecure ? (await import("node:https")).request : request;
  return new Promise((resolve) => {
    let connected = false;
    const asked = send(url, { method: "POST", headers, agent: false, signal }, (response) => {
      resolve(response.statusCode as number);
      // The body is of no use, and may have no end.
      response.destroy();
    });
    asked.once("socket", (socket) => {
      socket.once(isSecure ? "secureConnect" : "connect", () => {
        connected = true;
      });
    });
    asked.on("error", ({ code }: NodeJS.ErrnoException) => resolve({ connected, code }));
    // A 101 that was not asked for closes the connection without an error.
    asked.on("close", () => resolve({ connected, code: undefined }));
    asked.end(body);
  });
}

function sign(secret: string, text: string): string {
  const key = Buffer.from(secret.replace(/^whsec_/, ""), "base64");
  return `v1,${createHmac("sha256", key).update(text).digest("base64")}`;
}
