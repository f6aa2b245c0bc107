import { issueKeys } from "../../core/keys/keyring.ts";
import type { WantedKeys } from "../../core/keys/keyring-rules.ts";
import { type Limit, WINDOWS } from "../../core/quota/windows.ts";
import { DONE, fail, WRONG_USAGE } from "../../server/process/process-door.ts";
import { printJson } from "../frame/terminal.ts";
import { type Call, CONFIG, JSON_FLAG, readPeriod, type Verb } from "../frame/verb.ts";
import {
  changeKeys,
  failRefused,
  issuedReport,
  issuedText,
  ringOf,
  withKeys,
} from "../stores/with-keys.ts";

export const keysCreate: Verb = {
  name: "keys create",
  usage: "--env ENV --plan PLAN [options]",
  summary: "issue keys; each is printed once and never again",
  options: [
    {
      name: "env",
      value: "ENV",
      required: true,
      summary: "the environment in which the key works",
    },
    { name: "plan", value: "PLAN", required: true, summary: "the plan of its account" },
    { name: "name", value: "TEXT", summary: "what people call it" },
    { name: "account", value: "ID", summary: "share this account's quota (a new account)" },
    { name: "expires", value: "90d", summary: "stop working after this long (never)" },
    { name: "limit", value: "minute=500", repeats: true, summary: "replace a window of the plan" },
    { name: "scope", value: "beta", repeats: true, summary: "allow operations that need it" },
    { name: "count", value: "N", summary: "issue N keys at once" },
    CONFIG,
    JSON_FLAG,
  ],
  args: [],
  example: "keys create --env production --plan free --name Anna",
  run(call, terminal) {
    const wanted = readWanted(call);
    if (typeof wanted === "string") return Promise.resolve(fail(terminal, WRONG_USAGE, wanted));
    return withKeys(call, terminal, async (keys, config) => {
      const ring = ringOf(config, terminal.now());
      const edited = await changeKeys(keys, (records) => issueKeys(records, wanted, ring));
      if (!edited.ok) return failRefused(terminal, edited);
      if (call.flag("json")) {
        const reports = edited.issued.map(issuedReport);
        return printJson(terminal, wanted.count === undefined ? reports[0] : reports);
      }
      terminal.out(edited.issued.map((issued) => issuedText(issued, config)).join("\n"));
      return DONE;
    });
  },
};

/**
 * The keys that were asked for, or the mistake in the options; names are judged where the
 * configuration is known.
 */
function readWanted(call: Call): WantedKeys | string {
  const environment = call.text("env") ?? "";
  const plan = call.text("plan") ?? "";
  const expires = readPeriod(call, "expires");
  if (typeof expires === "string") return expires;
  const limits = call.texts("limit").map(readLimit);
  const wrong = limits.find((limit) => typeof limit === "string");
  if (wrong !== undefined) return wrong;
  const count = call.text("count");
  if (count !== undefined && !/^\d{1,9}$/.test(count)) {
    return `Cannot read --count as a whole number: the value is ${JSON.stringify(count)}`;
  }
  return {
    environment,
    plan,
    name: call.text("name"),
    account: call.text("account"),
    expiresInMs: expires,
    limits: limits.filter((limit) => typeof limit !== "string"),
    scopes: call.texts("scope"),
    count: count === undefined ? undefined : Number(count),
  };
}

function readLimit(text: string): Limit | string {
  const [, name, digits] = /^([a-z]+)=(\d{1,15})$/.exec(text) ?? [];
  const window = WINDOWS.find((known) => known === name);
  if (window === undefined || digits === undefined) {
    return `Cannot read --limit as WINDOW=NUMBER with a window of ${WINDOWS.join(", ")}: the value is ${JSON.stringify(text)}`;
  }
  return { window, limit: Number(digits) };
}
