import { cleanText, errorMessage } from "../../base/messages.ts";
import { request } from "../../base/node-http.ts";
import type { Config } from "../../config/config.ts";
import { formatMistake, isYamlMap, type Mistake } from "../../config/file/mistake.ts";
import { unknownIdRefusal } from "../../core/keys/find-records.ts";
import { originOf } from "../framework/curl.ts";
import type { OperationResult } from "./account-operations.ts";

const ANSWER_MS_MAX = 10_000;
const ANSWER_CHARACTERS_MAX = 64 * 1024 ** 2;

/** A whole list, page after page (docs/reference/admin.md#pages). */
export async function fetchAllPages<T>(
  config: Config,
  question: ListQuestion,
): Promise<OperationResult<readonly T[]>> {
  const all: T[] = [];
  const asked = await fetchEachPage<T>(config, question, (page) => all.push(...page));
  return asked.ok ? { ...asked, value: all } : asked;
}

/** The same, passed on page by page as they are read. */
export async function fetchEachPage<T>(
  config: Config,
  question: ListQuestion,
  tell: (page: readonly T[]) => void,
): Promise<OperationResult<undefined>> {
  const missing = new Set<string>();
  for (let path: string | undefined = question.path; path !== undefined; ) {
    const page: AdminResult<readonly T[]> = await fetchAdmin(config, {
      ...question,
      path,
      members: LIST,
    });
    if (!page.ok) return page;
    tell(page.value);
    for (const part of page.missing ?? []) missing.add(part);
    path = page.next;
  }
  return { ok: true, value: undefined, ...(missing.size > 0 && { missing: [...missing] }) };
}

/** `next` is the path of the next page of a list. */
type AdminResult<T> =
  | (Extract<OperationResult<T>, { readonly ok: true }> & { readonly next?: string | undefined })
  | (Extract<OperationResult<T>, { readonly ok: false }> & { readonly status?: number });

/**
 * How long a command waits until the gateway has read its change. The gateway reads it within a
 * second anyway.
 */
const REFRESH_MS_MAX = 10_000;
/** The timeout of a query that the gateway can answer at once. */
export const IDENTITY_MS_MAX = 5_000;

/** `withoutLimits` are the accounts that the gateway has no limits for. */
type Refreshed = {
  readonly unread?: string | undefined;
  readonly withoutLimits?: readonly string[];
};

/**
 * Makes the running gateway read the key records now. `unread` says what is wrong, in words: if it is
 * there but does not take the token, or does not reply in time, it reads them by itself within a
 * second. It is undefined if it has read them, or if no gateway runs.
 */
export async function refreshGateway({ admin }: AdminConfig): Promise<Refreshed> {
  if (admin === undefined || admin.listen.port === 0) return {};
  const url = new URL(`${addressOf(admin)}/api/keys/refresh`);
  const { token } = admin;
  return exchangeOnce(admin, url, { method: "POST", token, withinMs: REFRESH_MS_MAX }).then(
    ({ status, text, missing }) => {
      if (status !== 200) return { unread: LATER };
      return { ...(missing.length > 0 && { unread: LATER }), ...parseRefreshed(text) };
    },
    (error) => (isTimeout(error) ? { unread: LATER } : {}),
  );
}

const LATER =
  "The gateway has not said in time that it has read this change: it takes effect within a second";

/** The answer of a gateway. Of other programs, nothing is known. */
function parseRefreshed(text: string): Refreshed {
  try {
    const body: unknown = JSON.parse(text);
    if (!isYamlMap(body)) return {};
    if (body.read === false) {
      return { unread: `The gateway cannot read this change: ${cleanText(String(body.why))}` };
    }
    return Array.isArray(body.withoutLimits) ? { withoutLimits: body.withoutLimits } : {};
  } catch {
    return {};
  }
}

/**
 * The identity of the running gateway's records. Undefined if no gateway replies, or if it cannot
 * tell: then the records cannot be compared.
 */
export async function gatewayRecordsIdentity({
  admin,
}: AdminConfig): Promise<{ readonly id: string | null; readonly place: string } | undefined> {
  if (admin === undefined || admin.listen.port === 0) return undefined;
  const url = new URL(`${addressOf(admin)}/api/records`);
  try {
    const sent = { method: "GET", token: admin.token, withinMs: IDENTITY_MS_MAX };
    const { status, text } = await exchangeOnce(admin, url, sent);
    const body: unknown = JSON.parse(text);
    if (status !== 200 || !isYamlMap(body) || typeof body.place !== "string") return undefined;
    const place = cleanText(body.place);
    return { id: typeof body.id === "string" ? body.id : null, place };
  } catch {
    return undefined;
  }
}

/** The response is a list. */
export const LIST = "list" as const;

/** The response is not JSON. */
const TEXT = "text" as const;

/**
 * `also` are statuses other than 200 whose body is a result. `only` says why no other source has
 * it. `members` are members that the result must have, because another program may listen on the
 * gateway's port.
 */
export type AdminRequest = {
  readonly method?: string;
  readonly path: string;
  readonly body?: unknown;
  readonly also?: readonly number[];
  readonly members: typeof LIST | typeof TEXT | readonly string[];
  readonly only?: string | undefined;
  /** The account or key of the query. No message of the gateway repeats it. */
  readonly id?: string | undefined;
  /** The address of another admin listener than that of the configuration, with the same token. */
  readonly origin?: string;
  /** How long the answer may take, 10 s unless given. */
  readonly withinMs?: number;
  /** For a change: how to see whether it was made if its answer is lost. */
  readonly look?: string;
};

type ListQuestion = Omit<AdminRequest, "members">;

/** The part of a configuration that has the address of the gateway. */
type AdminConfig = Pick<Config, "admin">;

/** The text of a response that is not JSON, such as an export. */
export async function fetchAdminText(
  config: AdminConfig,
  path: string,
): Promise<OperationResult<string>> {
  const asked = await fetchAdmin<string>(config, { path, members: TEXT });
  return asked.ok ? { ok: true, value: asked.value } : refused(asked.message);
}

/** One request to the admin listener of the running gateway. On failure, the error in words. */
export async function fetchAdmin<T>(
  config: AdminConfig,
  asked: AdminRequest,
): Promise<AdminResult<T>> {
  const { path, also = [], only, look } = asked;
  const reason = only === undefined ? "" : `, and ${only}`;
  const place = placeOf(config, asked);
  if (typeof place === "string") return refused(`Cannot ask the gateway${reason}: ${place}`);
  const { origin, setting } = place;
  let mayBeDone = false;
  let unread = "";
  try {
    const url = new URL(`${origin}${path}`);
    const { status, text, next, missing } = await exchangeOf(config, asked, url, () => {
      mayBeDone = look !== undefined;
    });
    // A proxy refuses with such a status what it does not hand on.
    if (status >= 300 && status < 500) mayBeDone = false;
    unread = `its answer (${status}) cannot be read`;
    if (status === 200 && asked.members === TEXT) return { ok: true, value: text as T };
    const body: unknown = JSON.parse(text);
    if (mayBeDone && status >= 500 && isOfProxy(status, body)) throw new Error(unread);
    if (status === 200 || also.includes(status)) {
      // A whole value of another form is of another program.
      mayBeDone = false;
      if (!hasMembers(body, asked.members)) throw new SyntaxError("It is not of that form");
      return { ok: true, value: body as T, next, ...(missing.length > 0 && { missing }) };
    }
    if (asked.id !== undefined && isUnknown(body)) {
      return refused(unknownIdRefusal(asked.id, environmentOf(body)).message);
    }
    const message = messageOf(body) ?? `The gateway at ${origin} (${setting}) answers ${status}`;
    if (status === 400) return { ...refused(message), usage: true };
    const where = status === 401 || status === 403 ? ` (${setting}, ${origin})` : "";
    return { ...refused(`${message}${where}`), status };
  } catch (error) {
    const why = whyUnanswered(error);
    if (mayBeDone && look !== undefined) {
      const told = unread === "" ? why : unread;
      return refused(
        `It is not known whether this was done: it was sent to the gateway at ${origin} (${setting}), and ${told}. Look with ${cleanText(look)}`,
      );
    }
    return refused(
      `Cannot ask the gateway at ${origin} (${setting})${reason}: ${why}. Is it running?`,
    );
  }
}

/** Where a request goes, and the setting that has it; or why there is no such place. */
function placeOf(
  { admin }: AdminConfig,
  { origin = admin?.url }: AdminRequest,
): { readonly origin: string; readonly setting: string } | string {
  if (origin !== undefined) return { origin, setting: "--admin" };
  if (admin === undefined) return "admin is off, set admin.listen";
  if (admin.listen.port === 0) return "admin.listen has port 0, name one";
  return { origin: addressOf(admin), setting: "admin.listen" };
}

/** The address before the path of each route. */
export function addressOf({ url, listen }: NonNullable<AdminConfig["admin"]>): string {
  return url ?? originOf(listen);
}

/** A question with a timeout of its own, to the gateway of the configuration, is one that the verb can do without. */
function exchangeOf(
  { admin }: AdminConfig,
  { method = "GET", body, withinMs, origin }: AdminRequest,
  url: URL,
  onSent: () => void,
): Promise<Answer> {
  const json = body === undefined ? "" : JSON.stringify(body);
  const options = { method, token: admin?.token ?? "", body: json, onSent };
  const isOptional = withinMs !== undefined && admin !== undefined && origin === undefined;
  return isOptional
    ? exchangeOnce(admin, url, { ...options, withinMs })
    : exchange(url, { ...options, withinMs: withinMs ?? ANSWER_MS_MAX });
}

/** An admin listener gives each error a code, and answers neither 502 nor 504: it has no backend. */
function isOfProxy(status: number, body: unknown): boolean {
  return status === 502 || status === 504 || !hasMembers(body, ["code"]);
}

function hasMembers(body: unknown, members: AdminRequest["members"]): boolean {
  if (typeof members === "string") return members === LIST && Array.isArray(body);
  return isYamlMap(body) && members.every((name) => name in body);
}

type RequestOptions = {
  readonly method: string;
  readonly token: string;
  readonly body?: string;
  readonly withinMs?: number;
  /** Called when the gateway may have some of the request. */
  readonly onSent?: () => void;
};

/** `missing` are the parts of a Cluster or the workers that the answer lacks (docs/reference/admin.md#missing-parts). */
type Answer = {
  readonly status: number;
  readonly text: string;
  readonly next: string | undefined;
  readonly missing: readonly string[];
};

/**
 * How long a gateway was waited for in vain, in milliseconds, by the settings that name it: each verb
 * reads its own.
 */
const waitedMs = new WeakMap<object, number>();

/**
 * The same as exchange, for a question whose verb goes on without an answer. The time for which the
 * verb has waited for this gateway in vain is taken off, so that several such questions wait no longer
 * together than the one with the latest deadline.
 */
async function exchangeOnce(
  admin: object,
  url: URL,
  { withinMs, ...options }: RequestOptions & { readonly withinMs: number },
): Promise<Answer> {
  const beforeMs = waitedMs.get(admin) ?? 0;
  try {
    return await exchange(url, { ...options, withinMs: Math.max(0, withinMs - beforeMs) });
  } catch (error) {
    if (isTimeout(error)) {
      waitedMs.set(admin, Math.max(waitedMs.get(admin) ?? 0, withinMs));
    }
    throw error;
  }
}

function exchange(
  url: URL,
  { method, token, body = "", withinMs = ANSWER_MS_MAX, onSent = () => {} }: RequestOptions,
): Promise<Answer> {
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

/** Why a gateway sent no readable response. */
function whyUnanswered(error: unknown): string {
  const { code, name } = (error ?? {}) as { code?: unknown; name?: unknown };
  if (code === "ECONNREFUSED") return "nothing listens there";
  if (code === "ECONNRESET") return "the connection ended before its answer";
  if (name === "SyntaxError") return "what answered is no admin listener of Tollgate";
  if (isTimeout(error)) return "it does not answer";
  return errorMessage(error);
}

function isTimeout(error: unknown): boolean {
  return (error as { readonly name?: unknown } | undefined)?.name === "AbortError";
}

/** Whether the gateway has no such path: an ID that holds a slash leads there. */
function isUnknown(body: unknown): body is Record<string, unknown> {
  return isYamlMap(body) && (body.code === "unknown_id" || body.code === "not_found");
}

/** The environment that has the ID, if the verb named another one. */
function environmentOf({ environment }: Record<string, unknown>): string | undefined {
  return typeof environment === "string" ? cleanText(environment) : undefined;
}

/**
 * The gateway's message, with the mistakes in its configuration. Such a message needs no status. What
 * answers may be another program, so nothing of it moves the cursor.
 */
function messageOf(body: unknown): string | undefined {
  if (!isYamlMap(body) || typeof body.message !== "string") return undefined;
  const mistakes = Array.isArray(body.mistakes) ? (body.mistakes as Mistake[]) : [];
  const lines = [body.message, ...mistakes.map(formatMistake)].join("\n").split("\n");
  return lines.map(cleanText).join("\n");
}

function refused(message: string): Extract<OperationResult<never>, { ok: false }> {
  return { ok: false, message };
}
