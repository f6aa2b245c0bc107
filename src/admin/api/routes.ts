import { shownConfig } from "../../config/shown.ts";
import { ID_PATTERN } from "../../core/keys/records.ts";
import { type Answer, json, problem, refuseMethod } from "../http/answer.ts";
import {
  listAccounts,
  resume,
  setAccount,
  setAccountsOn,
  showAccount,
  suspend,
} from "./accounts.ts";
import type { Call } from "./call.ts";
import { explainRequest, tellDeprecations, tellOpen, whyBanned } from "./explain.ts";
import {
  createKeys,
  findKey,
  listKeys,
  refreshKeys,
  revoke,
  rotate,
  setOneKey,
  showKeys,
} from "./keys.ts";
import { readNothing } from "./members.ts";
import { exportKeys, importKeys } from "./transfer.ts";
import { addBan, liftBan, listUsage, resetAccount, tellBans, tellUsage } from "./usage.ts";

export type Row = {
  readonly method: "GET" | "POST" | "PATCH" | "DELETE";
  readonly segments: readonly string[];
  readonly run: (call: Call) => Answer | Promise<Answer>;
  /** Where a body may be longer than others. */
  readonly bodyBytesMax?: number;
  /** Members of the query that it takes. */
  readonly query: readonly string[];
};

const PAGE = ["limit", "after"];
/** 100,000 keys. */
const IMPORT_BYTES_MAX = 64 * 1_048_576;

/**
 * All of /api (docs/reference/admin.md#routes). ":id" stands for one ID, of an account or one of
 * its keys.
 */
const TABLE: readonly Row[] = [
  row("GET", "/api/keys", listKeys, PAGE),
  row("POST", "/api/keys", createKeys),
  row("POST", "/api/keys/find", findKey),
  row("POST", "/api/keys/refresh", refreshKeys),
  row("GET", "/api/keys/export", exportKeys),
  { ...row("POST", "/api/keys/import", importKeys), bodyBytesMax: IMPORT_BYTES_MAX },
  row("GET", "/api/keys/:id", showKeys),
  row("PATCH", "/api/keys/:id", setOneKey),
  row("POST", "/api/keys/:id/rotate", rotate),
  row("POST", "/api/keys/:id/revoke", revoke),
  row("GET", "/api/accounts", listAccounts, [...PAGE, "env", "plan"]),
  row("PATCH", "/api/accounts", setAccountsOn, ["plan"]),
  row("GET", "/api/accounts/:id", showAccount),
  row("PATCH", "/api/accounts/:id", setAccount),
  row("POST", "/api/accounts/:id/suspend", suspend),
  row("POST", "/api/accounts/:id/resume", resume),
  row("POST", "/api/accounts/:id/reset", resetAccount, ["env"]),
  row("GET", "/api/bans", tellBans),
  row("POST", "/api/bans", addBan),
  row("GET", "/api/bans/:id", whyBanned),
  row("DELETE", "/api/bans/:id", liftBan),
  row("GET", "/api/usage", listUsage, [...PAGE, "env", "plan", "over", "top"]),
  row("GET", "/api/usage/:id", tellUsage, ["env"]),
  row("GET", "/api/explain/:id", explainRequest),
  row("GET", "/api/open", tellOpen),
  row("GET", "/api/deprecations", tellDeprecations),
  row("GET", "/api/config", tellConfig),
  row("POST", "/api/reload", reload),
  row("GET", "/api/events", watch),
];

function row(
  method: Row["method"],
  template: string,
  run: Row["run"],
  query: readonly string[] = [],
): Row {
  return { method, segments: template.split("/"), run, query };
}

/** The row for a method and a path, with the ID in it; or 404, or 405 with Allow. */
export function findRow(
  method: string,
  path: string,
): { readonly ok: true; readonly row: Row; readonly id: string } | { ok: false; answer: Answer } {
  const segments = path.split("/");
  const rows = TABLE.filter((candidate) => fits(candidate.segments, segments));
  if (rows.length === 0) {
    return { ok: false, answer: problem("not_found", "There is nothing here: see / for what is") };
  }
  const wanted = method === "HEAD" ? "GET" : method;
  const found = rows.find((candidate) => candidate.method === wanted);
  if (found === undefined) {
    const allow = rows.flatMap((one) => (one.method === "GET" ? ["GET", "HEAD"] : [one.method]));
    return { ok: false, answer: refuseMethod(allow) };
  }
  const at = found.segments.indexOf(":id");
  return { ok: true, row: found, id: (at !== -1 && idIn(segments[at])) || "" };
}

function fits(pattern: readonly string[], segments: readonly string[]): boolean {
  return (
    pattern.length === segments.length &&
    pattern.every((part, i) =>
      part === ":id" ? idIn(segments[i]) !== undefined : part === segments[i],
    )
  );
}

/** Requests without a key are counted under such a name; its "/64" is percent-encoded in a path. */
const ADDRESS = /^addr:(?:other|[0-9a-f:.]{1,60}(?:\/64)?)$/;

/** The id in a segment of a path; undefined where it cannot be one. */
function idIn(segment = ""): string | undefined {
  if (ID_PATTERN.test(segment)) return segment;
  try {
    const text = decodeURIComponent(segment);
    return ADDRESS.test(text) ? text : undefined;
  } catch {
    return undefined;
  }
}

/** The configuration in force, by the keys of its file, every secret masked, with its hash. */
function tellConfig({ deps }: Call): Answer {
  return json(200, shownConfig(deps.config()));
}

/**
 * Begins with the last events, and with the routes that there are, so that a page offers no more
 * than it can ask for.
 */
function watch({ deps }: Call): Answer {
  const routes = TABLE.map(({ method, segments }) => `${method} ${segments.join("/")}`);
  return deps.events.open({ routes, happened: deps.recent.since(0) });
}

async function reload({ deps, members }: Call): Promise<Answer> {
  const nothing = readNothing(members);
  if (!nothing.ok) return nothing.answer;
  const reloaded = await deps.reload();
  if (reloaded.ok) return json(200, { hash: reloaded.hash });
  const { mistakes, reasons = [], partly } = reloaded;
  if (partly) {
    const message = `The new configuration is not in force everywhere yet: ${reasons.join("; ")}`;
    return problem("reload_incomplete", message, { more: { reasons } });
  }
  if (reasons.length > 0) {
    const message = `The old configuration stays in force: ${reasons.join("; ")}`;
    return problem("reload_refused", message, { more: { reasons } });
  }
  const message = `The old configuration stays in force: the new one has ${counted(mistakes.length)}`;
  return problem("config_invalid", message, { more: { mistakes } });
}

function counted(mistakes: number): string {
  return mistakes === 1 ? "1 mistake" : `${mistakes} mistakes`;
}
