import { quoteValue } from "../../base/messages.ts";
import type { FilePart } from "../../config/load/reachable.ts";
import { issueKeys } from "../../core/keys/edit-keys.ts";
import { COUNT_MAX, type NewKeys } from "../../core/keys/new-keys.ts";
import { findById } from "../../core/keys/record-index.ts";
import { issuedReport } from "../../core/keys/record-reports.ts";
import type { Records } from "../../core/keys/records.ts";
import { EXIT_OK, EXIT_USAGE, fail } from "../../server/process/process-context.ts";
import {
  parseAnchorOption,
  parseCapOptions,
  parseLimitOptions,
  parseMetaOptions,
} from "../access/limit-options.ts";
import { failIfBroken } from "../access/reach.ts";
import { issuedText, unshownText, withEdit, withKeys } from "../access/with-keys.ts";
import { printJson } from "../framework/terminal.ts";
import {
  GATEWAY_OPTIONS,
  type Invocation,
  parsePeriodOption,
  type Verb,
} from "../framework/verb.ts";

export const keysCreate: Verb = {
  name: "keys create",
  usage: "--env ENV --plan PLAN [options]",
  summary: "issue keys; each is printed once and never again",
  example: "keys create --env production --plan free --name 'a shop' --expires 90d",
  options: [
    { name: "env", value: "ENV", summary: "the environment of a new account" },
    { name: "plan", value: "PLAN", summary: "the plan of a new account" },
    { name: "name", value: "TEXT", summary: "what people call it" },
    { name: "account", value: "ID", summary: "share this account's quota (a new account)" },
    { name: "expires", value: "90d", summary: "stop working after this long (never)" },
    { name: "limit", value: "minute=500", repeats: true, summary: "replace a window of the plan" },
    { name: "cap", value: "day=500", repeats: true, summary: "limit each of these keys alone" },
    { name: "anchor", value: "15", summary: "months of a new account begin on this day (1)" },
    { name: "meta", value: "tenant=42", repeats: true, summary: "tell the backend this" },
    { name: "scope", value: "beta", repeats: true, summary: "allow operations that need it" },
    { name: "from", value: "CIDR", repeats: true, summary: "work only from there (from anywhere)" },
    { name: "count", value: "N", summary: "issue N keys at once" },
    ...GATEWAY_OPTIONS,
  ],
  args: [],
  async run(invocation, terminal) {
    const wanted = readWanted(invocation);
    if (typeof wanted === "string") return fail(terminal, EXIT_USAGE, wanted);
    return withKeys(invocation, terminal, async (keys, reached, context) => {
      const broken = failIfBroken(reached, terminal, partsFor(wanted, keys.records()));
      if (broken !== undefined) return broken;
      return withEdit(keys, terminal, {
        edit: (records) => issueKeys(records, wanted, context),
        say: ({ issued }) => {
          const ifLost = unshownText(issued);
          if (invocation.flag("json")) {
            const reports = issued.map(issuedReport);
            return printJson(terminal, wanted.count === undefined ? reports[0] : reports, ifLost);
          }
          terminal.out(issued.map((one) => issuedText(one, reached.config)).join("\n"), ifLost);
          return EXIT_OK;
        },
      });
    });
  },
};

/** The parts of the file that the keys are made by. An account that is there has its environment. */
function partsFor({ account, environment, plan }: NewKeys, records: Records): FilePart[] {
  const owner = account === undefined ? undefined : findById(records.accounts, account);
  const named = [environment ?? owner?.environment ?? []].flat();
  return [
    ["keyPrefix"],
    ...named.map((name) => ["environments", name] as const),
    ...(plan === undefined ? [] : [["plans", plan] as const]),
  ];
}

/** The keys that were asked for, or the mistake. Names wait for the configuration. */
function readWanted(invocation: Invocation): NewKeys | string {
  const [environment, plan, account] = ["env", "plan", "account"].map((name) =>
    invocation.text(name),
  );
  const missing = [
    ...(environment === undefined ? ["--env ENV"] : []),
    ...(plan === undefined ? ["--plan PLAN"] : []),
  ];
  if (missing.length > 0 && account === undefined) {
    return `Missing ${missing.join(", ")} (see: tollgate help keys create)`;
  }
  const expires = parsePeriodOption(invocation, "expires");
  if (typeof expires === "string") return expires;
  const limits = parseLimitOptions(invocation);
  if (typeof limits === "string") return limits;
  const caps = parseCapOptions(invocation);
  if (typeof caps === "string") return caps;
  const meta = parseMetaOptions(invocation);
  if (typeof meta === "string") return meta;
  const anchor = parseAnchorOption(invocation);
  if (typeof anchor === "string") return anchor;
  const count = invocation.text("count");
  if (count !== undefined && !/^\d{1,9}$/.test(count)) {
    return `Cannot read --count as a whole number from 1 to ${COUNT_MAX}: the value is ${quoteValue(count)}`;
  }
  return {
    environment,
    plan,
    name: invocation.text("name"),
    account,
    expiresInMs: expires,
    limits,
    caps,
    anchor,
    meta,
    scopes: invocation.texts("scope"),
    from: invocation.texts("from"),
    count: count === undefined ? undefined : Number(count),
  };
}
