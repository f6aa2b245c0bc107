import { isObject } from "../../base/is-object.ts";
import { cleanText } from "../../base/messages.ts";
import { parseJson } from "../../base/parse-json.ts";
import type { Config } from "../../config/config.ts";
import { formatMistake, type Mistake } from "../../config/file/mistake.ts";
import { unknownIdRefusal } from "../../core/keys/find-records.ts";
import { originOf } from "../framework/curl.ts";
import { type OperationResult, refused } from "./account-operations.ts";
import { type AdminAnswer, exchange, exchangeOnce, whyUnanswered } from "./admin-exchange.ts";

const ANSWER_MS_MAX = 10_000;

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
  | AdminRefusal;
type AdminRefusal = ReturnType<typeof refused> & { readonly status?: number };

/** The response is a list. */
export const LIST = "list" as const;

/** The response is not JSON. */
export const TEXT = "text" as const;

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
  readonly origin?: string | undefined;
  /** How long the answer may take, 10 s unless given. */
  readonly withinMs?: number | undefined;
  /** For a change: how to see whether it was made if its answer is lost. */
  readonly look?: string;
};

type ListQuestion = Omit<AdminRequest, "members">;

/** The part of a configuration that has the address of the gateway. */
export type AdminConfig = Pick<Config, "admin">;

/** One request to the admin listener of the running gateway. On failure, the error in words. */
export async function fetchAdmin<T>(
  config: AdminConfig,
  asked: AdminRequest,
): Promise<AdminResult<T>> {
  const { path, also = [], only, look, members } = asked;
  const reason = only === undefined ? "" : `, and ${only}`;
  const place = placeOf(config, asked);
  if (typeof place === "string") return refused(`Cannot ask the gateway${reason}: ${place}`);
  const gateway = `the gateway at ${place.origin} (${place.setting})`;
  const unasked = (why: string) =>
    refused(`Cannot ask ${gateway}${reason}: ${why}. Is it running?`);
  const uncertain = (why: string) =>
    refused(
      `It is not known whether this was done: it was sent to ${gateway}, and ${why}. Look with ${cleanText(look ?? "")}`,
    );
  let isSent = false;
  let answer: AdminAnswer;
  try {
    answer = await exchangeOf(config, asked, new URL(`${place.origin}${path}`), () => {
      isSent = true;
    });
  } catch (error) {
    const why = whyUnanswered(error);
    return isSent && look !== undefined ? uncertain(why) : unasked(why);
  }
  const { status, text, next, missing } = answer;
  if (status === 200 && members === TEXT) return { ok: true, value: text as T };
  const body = parseJson(text);
  if (look !== undefined && isUnread(status, body)) {
    return uncertain(`its answer (${status}) cannot be read`);
  }
  const isResult = status === 200 || also.includes(status);
  if (body === undefined || (isResult && !hasMembers(body, members))) {
    return unasked("what answered is no admin listener of Tollgate");
  }
  if (!isResult) return refusalOf(status, body, asked, place);
  return { ok: true, value: body as T, next, ...(missing.length > 0 && { missing }) };
}

/**
 * Whether an answer leaves open what became of a change. What a proxy refuses, by a status of 3xx or
 * 4xx, it does not hand on. Another program that answers in JSON makes no change.
 */
function isUnread(status: number, body: unknown): boolean {
  if (status >= 300 && status < 500) return false;
  return body === undefined || (status >= 500 && isOfProxy(status, body));
}

/** The gateway's refusal in words, which name the gateway where its own message does not tell enough. */
function refusalOf(
  status: number,
  body: unknown,
  { id }: AdminRequest,
  { origin, setting, setToken }: AdminPlace,
): AdminRefusal {
  if (id !== undefined && isUnknown(body)) {
    return refused(unknownIdRefusal(id, environmentOf(body)).message);
  }
  // The gateway's own words tell programs which field to send.
  const isTokenless = isObject(body) && body.code === "token_missing";
  const own = isTokenless ? "The gateway asks for its admin token" : messageOf(body);
  const message = own ?? `The gateway at ${origin} (${setting}) answers ${status}`;
  if (status === 400) return { ...refused(message), usage: true };
  const where = status === 401 || status === 403 ? ` (${setting}, ${origin})` : "";
  const hint = status === 401 ? `. ${setToken}` : "";
  return { ...refused(`${message}${where}${hint}`), status };
}

type AdminPlace = {
  readonly origin: string;
  readonly setting: string;
  /** How to give the token. */
  readonly setToken: string;
};

const NO_TOKEN =
  "The file has admin: off, so that no token is sent: set admin.listen and admin.token";

/** Where a request goes, and the setting that has it; or why there is no such place. */
function placeOf(
  { admin }: AdminConfig,
  { origin = admin?.url }: AdminRequest,
): AdminPlace | string {
  const setToken = admin === undefined ? NO_TOKEN : tokenHint(admin);
  if (origin !== undefined) return { origin, setting: "--admin", setToken };
  if (admin === undefined) return "admin is off, set admin.listen";
  if (admin.listen.port === 0) return "admin.listen has port 0, name one";
  return { origin: addressOf(admin), setting: "admin.listen", setToken };
}

/** The variable of the token that a command sends. With --admin the file has none. */
export const TOKEN = "TOLLGATE_ADMIN_TOKEN";

/** How to give a command the token of the gateway. */
export function tokenHint({ url }: NonNullable<AdminConfig["admin"]>): string {
  return `Set ${TOKEN}${url === undefined ? ", or admin.token in the file," : ""} to its token`;
}

/** The address before the path of each route. */
export function addressOf({ url, listen }: NonNullable<AdminConfig["admin"]>): string {
  return url ?? originOf(listen);
}

/** All questions to the gateway of the configuration share their time, so that one that hangs is waited for once. */
function exchangeOf(
  { admin }: AdminConfig,
  { method = "GET", body, withinMs = ANSWER_MS_MAX, origin, look }: AdminRequest,
  url: URL,
  onSent: () => void,
): Promise<AdminAnswer> {
  const json = body === undefined ? "" : JSON.stringify(body);
  const options = { method, token: admin?.token ?? "", body: json, onSent, withinMs };
  return admin !== undefined && origin === undefined
    ? exchangeOnce(admin, url, { ...options, isChange: look !== undefined })
    : exchange(url, options);
}

/** An admin listener gives each error a code, and answers neither 502 nor 504: it has no backend. */
function isOfProxy(status: number, body: unknown): boolean {
  return status === 502 || status === 504 || !hasMembers(body, ["code"]);
}

function hasMembers(body: unknown, members: AdminRequest["members"]): boolean {
  if (typeof members === "string") return members === LIST && Array.isArray(body);
  return isObject(body) && members.every((name) => name in body);
}

/** Whether the gateway has no such path: an ID that holds a slash leads there. */
function isUnknown(body: unknown): body is Record<string, unknown> {
  return isObject(body) && (body.code === "unknown_id" || body.code === "not_found");
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
  if (!isObject(body) || typeof body.message !== "string") return undefined;
  const mistakes = Array.isArray(body.mistakes) ? body.mistakes.filter(isMistake) : [];
  const lines = [body.message, ...mistakes.map(formatMistake)].join("\n").split("\n");
  return lines.map(cleanText).join("\n");
}

/** Whether another program's mistake can be put into words as that of a gateway. */
function isMistake(value: unknown): value is Mistake {
  if (!isObject(value)) return false;
  const { file, line, column, message } = value;
  const isAtPlace = Number.isFinite(line) && Number.isFinite(column);
  return isAtPlace && typeof file === "string" && typeof message === "string";
}
