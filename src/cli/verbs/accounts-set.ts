import { formatCount } from "../../base/messages.ts";
import type { FilePart } from "../../config/load/reachable.ts";
import {
  type AccountChange,
  accountsOnPlan,
  updateAccounts,
} from "../../core/keys/edit-accounts.ts";
import { type KeyContext, limitsText } from "../../core/keys/edit-rules.ts";
import { accountReports } from "../../core/keys/record-reports.ts";
import type { Records } from "../../core/keys/records.ts";
import { anchorDays } from "../../core/quota/calendar.ts";
import { dayOf, formatDay } from "../../core/quota/days.ts";
import { EXIT_FAILURE, EXIT_OK, EXIT_USAGE, fail } from "../../server/process/process-context.ts";
import type { CommandKeys } from "../../stores/keys/key-store.ts";
import { parseAnchorOption, parseLimitOptions, parseMetaOptions } from "../access/limit-options.ts";
import { failIfBroken } from "../access/reach.ts";
import { editRecords, failWithRefusal, withEdit, withKeys } from "../access/with-keys.ts";
import { printJson, type Terminal } from "../framework/terminal.ts";
import { GATEWAY_OPTIONS, type Invocation, type Verb } from "../framework/verb.ts";

/** Accounts changed in one write, so that other writers get their turn between two writes. */
const BATCH = 2_000;

export const accountsSet: Verb = {
  name: "accounts set",
  usage:
    "ID…|--on PLAN [--plan P] [--limit W=N]… [--no-limits] [--anchor DAY] [--meta NAME=VALUE]…",
  summary: "change plan, limits, calendar and metadata of accounts in place, for all of their keys",
  example: "accounts set acme --plan pro --limit day=20000",
  options: [
    { name: "on", value: "PLAN", summary: "every account that is on this plan" },
    { name: "plan", value: "P", summary: "move to this plan; own limits stay" },
    { name: "limit", value: "minute=500", repeats: true, summary: "replace a window of the plan" },
    { name: "no-limits", summary: "drop the own limits, before any --limit of this call" },
    { name: "anchor", value: "15", summary: "months begin on this day, from the next one on" },
    {
      name: "meta",
      value: "tenant=42",
      repeats: true,
      summary: "tell the backend; NAME= drops it",
    },
    { name: "yes", summary: "with --on: change them without asking; only a terminal is asked" },
    { name: "dry-run", summary: "with --on: list the accounts that would change, and change none" },
    ...GATEWAY_OPTIONS,
  ],
  args: [],
  more: true,
  async run(invocation, terminal) {
    const change = readChange(invocation);
    if (typeof change === "string") return fail(terminal, EXIT_USAGE, change);
    return withKeys(invocation, terminal, async (keys, reached, context) => {
      const on = invocation.text("on");
      const parts = partsFor(on, change, keys.records());
      const broken = failIfBroken(reached, terminal, parts);
      if (broken !== undefined) return broken;
      if (on !== undefined) return setAllOn(keys, context, { on, change, invocation, terminal });
      return withEdit(keys, terminal, {
        edit: (records) => updateAccounts(records, invocation.args, change, context),
        say: ({ records, accounts }) => {
          const reports = accountReports(accounts, records, terminal.now());
          if (invocation.flag("json")) {
            return printJson(terminal, invocation.args.length === 1 ? reports[0] : reports);
          }
          for (const { id, plan, limits, calendar } of accounts) {
            const own = limits.length === 0 ? "" : `, with its own limits ${limitsText(limits)}`;
            const { day, next } = anchorDays(calendar, terminal.now());
            const from = next === undefined ? "" : ` from ${formatDay(dayOf(next.fromMs))} on`;
            const anchor =
              change.anchor === undefined
                ? ""
                : `; its months begin on day ${next?.day ?? day}${from}`;
            terminal.out(`Account ${id} is on plan ${plan}${own}${anchor}\n`);
          }
          return EXIT_OK;
        },
      });
    });
  },
};

/** The plans that have to be in the file: accounts may be on one that has left it. */
function partsFor(
  on: string | undefined,
  { plan }: AccountChange,
  { accounts }: Records,
): readonly FilePart[] {
  const isUnused = accounts.every((account) => account.plan !== on);
  return [plan, isUnused ? on : undefined].flatMap((name) =>
    name === undefined ? [] : [["plans", name]],
  );
}

function readChange(invocation: Invocation): AccountChange | string {
  const on = invocation.text("on");
  if (on === undefined && invocation.args.length === 0) return "Missing ID, or --on PLAN";
  if (on !== undefined && invocation.args.length > 0) return "Give IDs or --on PLAN, not both";
  if (on === undefined && invocation.flag("dry-run")) return "--dry-run goes with --on PLAN";
  const limits = parseLimitOptions(invocation);
  if (typeof limits === "string") return limits;
  const meta = parseMetaOptions(invocation);
  if (typeof meta === "string") return meta;
  const anchor = parseAnchorOption(invocation);
  if (typeof anchor === "string") return anchor;
  const [plan, dropLimits] = [invocation.text("plan"), invocation.flag("no-limits")];
  const change = { plan, limits, dropLimits, meta, anchor };
  const lists = limits.length + Object.keys(meta).length;
  if (plan === undefined && lists === 0 && !dropLimits && anchor === undefined) {
    return "Nothing to set: give --plan, --limit, --no-limits, --anchor or --meta";
  }
  return change;
}

type PlanWideChange = {
  readonly on: string;
  readonly change: AccountChange;
  readonly invocation: Invocation;
  readonly terminal: Terminal;
};

/** Asks for confirmation at a terminal, unless --yes is given. A script is not asked. */
async function isConfirmed(
  count: number,
  { on, invocation, terminal }: Pick<PlanWideChange, "on" | "invocation" | "terminal">,
): Promise<boolean> {
  if (count === 0 || terminal.ask === undefined || invocation.flag("yes")) return true;
  const question = `Change ${formatCount(count, "account")} on plan ${on}? [y/N]: `;
  return /^y(?:es)?$/i.test((await terminal.ask(question)).trim());
}

/** Checks all accounts, then changes them in batches; run again, it continues. */
async function setAllOn(
  keys: CommandKeys,
  context: KeyContext,
  { on, change, invocation, terminal }: PlanWideChange,
): Promise<number> {
  const judged = accountsOnPlan(keys.records(), on, change, context);
  if (!judged.ok) return failWithRefusal(terminal, judged);
  const { ids } = judged;
  if (invocation.flag("dry-run")) {
    if (invocation.flag("json")) return printJson(terminal, { changed: 0, accounts: ids });
    terminal.out(
      `${ids.map((id) => `${id}\n`).join("")}${formatCount(ids.length, "account")} would be changed\n`,
    );
    return EXIT_OK;
  }
  if (!(await isConfirmed(ids.length, { on, invocation, terminal }))) {
    return fail(terminal, EXIT_FAILURE, "No account is changed");
  }
  let changed = 0;
  for (let from = 0; from < ids.length; from += BATCH) {
    const batch = new Set(ids.slice(from, from + BATCH));
    const edited = await editRecords(keys, terminal, (records) => {
      // Another command may have moved some of them since.
      const still = records.accounts.filter(({ id, plan }) => plan === on && batch.has(id));
      return updateAccounts(
        records,
        still.map(({ id }) => id),
        change,
        context,
      );
    });
    if (!edited.ok) return failWithRefusal(terminal, edited);
    changed += edited.accounts.length;
    if (ids.length > BATCH) terminal.err(`${changed} of ${ids.length} accounts\n`);
    if (terminal.process.holdEnd() && from + BATCH < ids.length) {
      const message = `Interrupted: ${changed} of ${ids.length} accounts are changed, the same command changes the rest`;
      return fail(terminal, EXIT_FAILURE, message);
    }
  }
  if (invocation.flag("json")) return printJson(terminal, { changed });
  terminal.out(`${changed} ${changed === 1 ? "account is" : "accounts are"} changed\n`);
  return EXIT_OK;
}
