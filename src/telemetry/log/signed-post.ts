import { createHmac } from "node:crypto";

/** A message for a receiver of webhooks. A repeated message has the same id and the same body. */
export type SignedMessage = {
  readonly id: string;
  /** The media type of the body. */
  readonly type: string;
  readonly body: string;
};

const ANSWER_MS_MAX = 10_000;

/**
 * Sends a message, signed at `nowMs` (Standard Webhooks 1.0). Returns undefined if the receiver
 * accepted it, which is any response of 2xx, else why not, in words without the URL. `cut` ends the
 * wait for the response.
 */
export async function postSigned(
  { url, secret }: { readonly url: string; readonly secret: string },
  { id, type, body }: SignedMessage,
  nowMs: number,
  cut?: AbortSignal,
): Promise<string | undefined> {
  const timestamp = String(Math.floor(nowMs / 1000));
  const timeout = AbortSignal.timeout(ANSWER_MS_MAX);
  try {
    const response = await fetch(url, {
      method: "POST",
      headers: {
        "content-type": type,
        "webhook-id": id,
        "webhook-timestamp": timestamp,
        "webhook-signature": sign(secret, `${id}.${timestamp}.${body}`),
      },
      body,
      redirect: "error",
      signal: cut === undefined ? timeout : AbortSignal.any([timeout, cut]),
    });
    await response.body?.cancel();
    return response.ok ? undefined : `the receiver answered ${response.status}`;
  } catch (error) {
    if (timeout.aborted) return `the receiver did not answer within ${ANSWER_MS_MAX / 1000} s`;
    const { cause } = error as { readonly cause?: { readonly code?: unknown } };
    const code = typeof cause?.code === "string" ? ` (${cause.code})` : "";
    return `the receiver cannot be reached${code}`;
  }
}

function sign(secret: string, text: string): string {
  const key = Buffer.from(secret.replace(/^whsec_/, ""), "base64");
  return `v1,${createHmac("sha256", key).update(text).digest("base64")}`;
}
