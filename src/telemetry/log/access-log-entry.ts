import type { LoggedMeter } from "../../core/meters/meter-charge.ts";

/**
 * One line for each request (docs/reference/http.md#request-line). Absent members are unknown,
 * because no key was accepted or no route was found.
 */
export type AccessLogEntry = {
  readonly id: string;
  readonly env: string | undefined;
  readonly account: string | undefined;
  readonly key: string | undefined;
  readonly plan: string | undefined;
  /** The metadata of the account that `log.meta` names. */
  readonly meta?: Readonly<Record<string, string>> | undefined;
  readonly method: string;
  readonly route: string | undefined;
  readonly path: string;
  readonly status: number;
  readonly code: string | undefined;
  readonly source: "gateway" | "backend";
  readonly decision: "admitted" | "refused" | "none";
  readonly charged: number;
  readonly forwards: 0 | 1 | 2;
  readonly durationMs: number;
  /** The client's address, after `trustedProxies`. */
  readonly client: string;
  readonly upstream?: string | undefined;
  readonly backend?: string | undefined;
  readonly traceId?: string | undefined;
  /** Unix milliseconds of the store's clock. */
  readonly decidedAt?: number | undefined;
  readonly cost?: number | undefined;
  readonly strikes?: number | undefined;
  readonly config?: string | undefined;
  /** The use of each meter of the route by an admitted request. */
  readonly meters?: Readonly<Record<string, LoggedMeter>> | undefined;
  readonly observed?: readonly string[] | undefined;
  readonly over?: string | undefined;
  readonly windows?: readonly WindowMember[] | undefined;
  /** Units that a refused request would have held, by meter. */
  readonly holds?: Readonly<Record<string, number>> | undefined;
  readonly monthFrom?: number | undefined;
  readonly by?: "store" | "memory" | "local" | "share" | undefined;
  /** The end of the ban in force, in Unix seconds. */
  readonly ban?: number | undefined;
  /** The end of the brownout that refused it, in Unix seconds. */
  readonly until?: number | undefined;
  /** The reason, for people; never shown to the client. */
  readonly why: string | undefined;
};

const NO_ACCOUNT = "no key was accepted, and the operation is not public";

/**
 * Every member of the line in the order in which it is written, with its meaning.
 * docs/reference/log.md is made from these rows.
 */
export const ACCESS_LOG_FIELDS: Readonly<
  Record<keyof AccessLogEntry | "level" | "time" | "msg", LogField>
> = {
  level: { meaning: "`info`" },
  time: { meaning: "Unix milliseconds at which the line was written" },
  id: { meaning: "The id of the request, as in `X-Request-Id`" },
  env: { meaning: "The environment", absent: "its host was not known to a listener of several" },
  account: {
    meaning:
      "The account that was charged or refused; `addr:…` of a public operation without a key",
    absent: NO_ACCOUNT,
  },
  key: { meaning: "The id of the key, never the key", absent: "no key was accepted" },
  plan: { meaning: "The plan of the account", absent: NO_ACCOUNT },
  meta: {
    meaning: "The metadata of the account that `log.meta` names",
    absent: "`log.meta` names none that the account has",
  },
  method: { meaning: "The method as it was sent" },
  route: {
    meaning: "The template of the operation, `basePath` included",
    absent: "none was found",
  },
  path: { meaning: "The path without its query, keys masked, up to 2,048 characters" },
  status: {
    meaning:
      "The status that was sent; 499 if the client left first or stopped reading, and with `why: the gateway is going away` if the gateway ended first; 101 for a tunnel",
  },
  code: {
    meaning:
      "The [code](refusals.md) of the refusal; with `status` 499 the client left before it was sent",
    absent:
      "nothing was refused: the backend answered, the gateway answered `standing` or OPTIONS, or the client left before that",
  },
  source: { meaning: "`gateway` or `backend`: who answered" },
  decision: { meaning: "`admitted`, `refused`, or `none` where nothing was decided" },
  charged: { meaning: "Units charged" },
  forwards: { meaning: "How often the request was sent to a backend: 0, 1, or 2 with a retry" },
  durationMs: { meaning: "From the first byte of the head to the end of the answer" },
  client: { meaning: "The address of the client, after `trustedProxies`" },
  upstream: { meaning: "The origin that was asked last", absent: "none was" },
  backend: { meaning: "The path of the backend in the configuration", absent: "it has none" },
  traceId: {
    meaning:
      "The id of the trace: the client's, or with [telemetry](telemetry.md) the one that the gateway began",
    absent: "there is no telemetry and the client sent no valid traceparent",
  },
  decidedAt: {
    meaning: "Unix milliseconds of the store's clock at the decision",
    absent:
      "no window and no ban was asked: `decision` is `none`, or `code` is `account_suspended`, `too_concurrent`, `meter_missing` or `cost_over_limit`",
  },
  cost: { meaning: "Units that the request costs", absent: "`decision` is `none`" },
  strikes: {
    meaning:
      "Strikes of the account after it; with `by: memory` as the worker [knows](store.md#known-refusals) them; the store may have another number",
    absent: "as `decidedAt`",
  },
  config: { meaning: "The first 8 digits of the configuration's hash", absent: "as `env`" },
  meters: {
    meaning:
      "By meter: `hold`, what it took when it was admitted; `used`, what the answer told, absent where it told nothing; `charged`, only where that is neither `used` nor, without `used`, `hold`",
    absent: "it took from no meter",
  },
  observed: {
    meaning: "Windows whose observed limits it crossed",
    absent: "it crossed none",
  },
  over: {
    meaning: "The window whose whole limit is below its cost",
    absent: "`code` is not `cost_over_limit`, or it is for a hold",
  },
  windows: {
    meaning:
      "All windows, each as `[name, used, limit, reset]`, with `reset` in Unix seconds; with `by: memory` without those of which the gateway [knows nothing](store.md#known-refusals), or only a count from before",
    absent: "no window and no ban refused it",
  },
  by: {
    meaning:
      "`memory`, `local` or `store`: where the refusal was decided; `share`: only this gateway's [share](store.md#shares) was used up, and the limits in `windows` are shares",
    absent: "as `windows`",
  },
  holds: {
    meaning: "Units that it would have held, by [meter](meters.md)",
    absent: "as `windows`, or its operation has no meters",
  },
  monthFrom: {
    meaning: "The start of the month in `windows`, in Unix seconds",
    absent: "as `windows`, or the account has no [anchor](keys.md#anchor)",
  },
  ban: { meaning: "The end of the ban that ran, in Unix seconds", absent: "none ran" },
  until: {
    meaning: "The end of the brownout that ran, in Unix seconds",
    absent: "`code` is not `brownout`, or it lasts until the sunset",
  },
  why: {
    meaning:
      "The reason, for people; if a connection to a backend failed, it can be a code of the system or of TLS; never shown to the client",
    absent: "there is none",
  },
  msg: { meaning: "`request`" },
};

/** A window as it was decided: name, units used, limit, and its end in Unix seconds. */
type WindowMember = readonly [name: string, used: number, limit: number, reset: number];

/** `absent` says when a line lacks the member. Without it every line has the member. */
type LogField = { readonly meaning: string; readonly absent?: string };

/**
 * Writes the line of a request as text. It is the only line on the hot path, and naming its members
 * costs a fifth of the time of a logger for any object (0.4 µs instead of 2). Ids, codes and fixed
 * words need no escaping; JSON escapes the rest.
 */
export function formatAccessLogEntry(entry: AccessLogEntry): string {
  const { id, env, account, key, plan, method, route, path, code, why } = entry;
  let text = `{"level":"info","time":${Date.now()},"id":"${id}"`;
  if (env !== undefined) text += `,"env":"${env}"`;
  if (account !== undefined) text += `,"account":"${account}"`;
  if (key !== undefined) text += `,"key":"${key}"`;
  if (plan !== undefined) text += `,"plan":${quoted(plan)}`;
  if (entry.meta !== undefined) text += `,"meta":${JSON.stringify(entry.meta)}`;
  text += `,"method":${quoted(method)}`;
  if (route !== undefined) text += `,"route":${quoted(route)}`;
  text += `,"path":${quoted(path)},"status":${entry.status}`;
  if (code !== undefined) text += `,"code":"${code}"`;
  text += `,"source":"${entry.source}","decision":"${entry.decision}","charged":${entry.charged}`;
  text += `,"forwards":${entry.forwards},"durationMs":${thousandths(entry.durationMs)}`;
  text += `,"client":"${entry.client}"`;
  if (entry.upstream !== undefined) text += `,"upstream":"${entry.upstream}"`;
  if (entry.backend !== undefined) text += `,"backend":${JSON.stringify(entry.backend)}`;
  if (entry.traceId !== undefined) text += `,"traceId":"${entry.traceId}"`;
  if (entry.decidedAt !== undefined) text += `,"decidedAt":${entry.decidedAt}`;
  if (entry.cost !== undefined) text += `,"cost":${entry.cost}`;
  if (entry.strikes !== undefined) text += `,"strikes":${entry.strikes}`;
  if (entry.config !== undefined) text += `,"config":"${entry.config}"`;
  if (entry.meters !== undefined) text += `,"meters":${JSON.stringify(entry.meters)}`;
  if (entry.observed !== undefined) text += `,"observed":${JSON.stringify(entry.observed)}`;
  if (entry.over !== undefined) text += `,"over":"${entry.over}"`;
  if (entry.windows !== undefined) {
    text += `,"windows":${windowsText(entry.windows, entry.by)},"by":"${entry.by}"`;
  }
  if (entry.holds !== undefined) text += `,"holds":${JSON.stringify(entry.holds)}`;
  if (entry.monthFrom !== undefined) text += `,"monthFrom":${entry.monthFrom}`;
  if (entry.ban !== undefined) text += `,"ban":${entry.ban}`;
  if (entry.until !== undefined) text += `,"until":${entry.until}`;
  if (why !== undefined) text += `,"why":${JSON.stringify(why)}`;
  return `${text},"msg":"request"}\n`;
}

/** Printable ASCII that JSON writes as it is. */
const PLAIN = /^[ !#-[\]-~]*$/;

/** The text as JSON. Nearly all are plain, and are looked at in half the time of JSON's writer. */
function quoted(text: string): string {
  return PLAIN.test(text) ? `"${text}"` : JSON.stringify(text);
}

/** A number with three decimals at most, as text: whole numbers are written in a fifth of the time. */
function thousandths(value: number): string {
  const whole = Math.trunc(value);
  const rest = Math.round((value - whole) * 1000);
  if (rest === 0) return String(whole);
  return `${whole}.${rest < 10 ? "00" : rest < 100 ? "0" : ""}${rest}`;
}

/** By the list of a refusal from memory, which is the same one for each such refusal. */
const windowTexts = new WeakMap<readonly WindowMember[], string>();

function windowsText(windows: readonly WindowMember[], by: AccessLogEntry["by"]): string {
  if (by !== "memory") return JSON.stringify(windows);
  let text = windowTexts.get(windows);
  if (text === undefined) {
    text = JSON.stringify(windows);
    windowTexts.set(windows, text);
  }
  return text;
}
