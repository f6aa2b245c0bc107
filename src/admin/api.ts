import type { Config, Mistake } from "../config/config.ts";
import { ID_PATTERN } from "../core/key.ts";
import type { Log } from "../log.ts";
import type { KeyStore, QuotaStore } from "../stores/store.ts";
import { liftBan, tellBans, tellUsage } from "./accounts.ts";
import { type Answer, json, problem } from "./answer.ts";
import { createKeys, listKeys, revoke, rotate, showKeys } from "./keys.ts";
import { readNothing } from "./wanted.ts";

/** What the API works on; start.ts supplies it. `random` as for formKey: cryptographic. */
export type ApiDeps = {
  /** The configuration in force. */
  readonly config: () => Config;
  /** The same for people, with every secret masked. */
  readonly shownConfig: (config: Config) => unknown;
  readonly keys: KeyStore;
  readonly quotas: QuotaStore;
  readonly reload: () => Promise<Reloaded>;
  readonly log: Pick<Log, "info" | "error">;
  readonly now: () => number;
  readonly random: (max: number) => number;
};

/** What a reload came to. Refused: a change that needs a restart, or a plan that is in use. */
export type Reloaded =
  | { readonly ok: true; readonly hash: string; readonly warnings?: readonly Mistake[] }
  | { readonly ok: false; readonly because: "mistakes"; readonly mistakes: readonly Mistake[] }
  | { readonly ok: false; readonly because: "refused"; readonly reasons: readonly string[] };

/** One request to a row: `id` is "" where the row has none, `members` {} where there is no body. */
export type Call = {
  readonly deps: ApiDeps;
  readonly id: string;
  readonly members: Readonly<Record<string, unknown>>;
};

export type Row = {
  readonly method: "GET" | "POST" | "DELETE";
  readonly segments: readonly string[];
  readonly run: (call: Call) => Answer | Promise<Answer>;
};

/** All of /api (contract 7): ":id" stands for one ID, of an account or one of its keys. */
const TABLE: readonly Row[] = [
  row("GET", "/api/keys", listKeys),
  row("POST", "/api/keys", createKeys),
  row("GET", "/api/keys/:id", showKeys),
  row("POST", "/api/keys/:id/rotate", rotate),
  row("POST", "/api/keys/:id/revoke", revoke),
  row("GET", "/api/bans", tellBans),
  row("DELETE", "/api/bans/:id", liftBan),
  row("GET", "/api/usage/:id", tellUsage),
  row("GET", "/api/config", tellConfig),
  row("POST", "/api/reload", reload),
];

function row(method: Row["method"], template: string, run: Row["run"]): Row {
  return { method, segments: template.split("/"), run };
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
  return { ok: true, row: found, id: at === -1 ? "" : (segments[at] ?? "") };
}

export function refuseMethod(allow: readonly string[]): Answer {
  const fields = ["Allow", allow.join(", ")];
  return problem("method_not_allowed", `Here the methods are ${allow.join(", ")}`, { fields });
}

function fits(pattern: readonly string[], segments: readonly string[]): boolean {
  return (
    pattern.length === segments.length &&
    pattern.every((part, i) =>
      part === ":id" ? ID_PATTERN.test(segments[i] ?? "") : part === segments[i],
    )
  );
}

function tellConfig({ deps }: Call): Answer {
  const config = deps.config();
  return json(200, { hash: config.hash, file: config.file, config: deps.shownConfig(config) });
}

async function reload({ deps, members }: Call): Promise<Answer> {
  const nothing = readNothing(members);
  if (!nothing.ok) return nothing.answer;
  const reloaded = await deps.reload();
  if (reloaded.ok) {
    const { hash, warnings = [] } = reloaded;
    return json(200, { hash, warnings });
  }
  if (reloaded.because === "refused") {
    const message = `The old configuration stays in force: ${reloaded.reasons.join("; ")}`;
    return problem("reload_refused", message, { more: { reasons: reloaded.reasons } });
  }
  const { mistakes } = reloaded;
  const message = `The old configuration stays in force, as the new one has mistakes: ${mistakes.length}`;
  return problem("config_invalid", message, { more: { mistakes } });
}
