import { isObject } from "../../base/is-object.ts";
import { cleanText } from "../../base/messages.ts";
import { type AdminConfig, addressOf, tokenHint } from "./admin-client.ts";
import { exchangeOnce, isTimeout } from "./admin-exchange.ts";

/** How long a command waits until the gateway has read its change, as it soon does anyway. */
const REFRESH_MS_MAX = 10_000;

/** `withoutLimits` are the accounts that the gateway has no limits for. */
type Refreshed = {
  readonly unread?: string | undefined;
  readonly withoutLimits?: readonly string[];
};

/**
 * Makes the running gateway read the key records now. `unread` says what is wrong, in words: if it is
 * there but refuses, or does not reply in time, it reads them by itself within a second. It is
 * undefined if it has read them, or if no gateway runs.
 */
export async function refreshGateway({ admin }: AdminConfig): Promise<Refreshed> {
  if (admin === undefined || admin.listen.port === 0) return {};
  const url = new URL(`${addressOf(admin)}/api/keys/refresh`);
  const { token } = admin;
  return exchangeOnce(admin, url, { method: "POST", token, withinMs: REFRESH_MS_MAX }).then(
    ({ status, text, missing }) => {
      if (status === 401) return { unread: `${REFUSED}. ${tokenHint(admin)}. ${BY_ITSELF}` };
      if (status !== 200)
        return { unread: `The gateway at ${addressOf(admin)} answers ${status}. ${BY_ITSELF}` };
      return { ...(missing.length > 0 && { unread: LATER }), ...parseRefreshed(text) };
    },
    (error) => (isTimeout(error) ? { unread: LATER } : {}),
  );
}

const LATER =
  "The gateway has not said in time that it has read this change: it takes effect within a second";

const REFUSED = "The gateway does not take the admin token";
const BY_ITSELF = "It reads this change by itself: it takes effect within a second";

/** The answer of a gateway. Of other programs, nothing is known. */
function parseRefreshed(text: string): Refreshed {
  try {
    const body: unknown = JSON.parse(text);
    if (!isObject(body)) return {};
    if (body.read === false) {
      return { unread: `The gateway cannot read this change: ${cleanText(String(body.why))}` };
    }
    return Array.isArray(body.withoutLimits) ? { withoutLimits: body.withoutLimits } : {};
  } catch {
    return {};
  }
}
