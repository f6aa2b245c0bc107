import { type KeyChange, updateKey } from "../../core/keys/edit-keys.ts";
import { keyReports } from "../../core/keys/record-reports.ts";
import { keyState } from "../../core/keys/records.ts";
import { EXIT_OK, EXIT_USAGE, fail } from "../../server/process/process-context.ts";
import { parseCapOptions } from "../access/limit-options.ts";
import { withEdit, withKeys } from "../access/with-keys.ts";
import { printJson } from "../framework/terminal.ts";
import {
  GATEWAY_OPTIONS,
  type Invocation,
  parsePeriodOption,
  type Verb,
} from "../framework/verb.ts";

export const keysSet: Verb = {
  name: "keys set",
  usage:
    "ID [--name TEXT] [--expires 90d|never] [--scope S]… [--drop-scope S]… [--from CIDR|any]… [--cap W=N]… [--no-caps]",
  summary: "change a key in place",
  example: "keys set k_4fPqX1mZ0aBc --scope orders:write --from 203.0.113.0/24",
  options: [
    { name: "name", value: "TEXT", summary: "what people call it" },
    { name: "expires", value: "90d|never", summary: "stop working after this long from now" },
    { name: "scope", value: "S", repeats: true, summary: "add a scope" },
    { name: "drop-scope", value: "S", repeats: true, summary: "take a scope away" },
    {
      name: "from",
      value: "CIDR|any",
      repeats: true,
      summary: "work only from these networks, in place of those before; any: from anywhere",
    },
    { name: "cap", value: "day=500", repeats: true, summary: "limit this key alone" },
    { name: "no-caps", summary: "take all caps away, before any --cap" },
    ...GATEWAY_OPTIONS,
  ],
  args: ["ID"],
  async run(invocation, terminal) {
    const change = readChange(invocation);
    if (typeof change === "string") return fail(terminal, EXIT_USAGE, change);
    return withKeys(invocation, terminal, (keys) =>
      withEdit(keys, terminal, {
        edit: (records) => updateKey(records, invocation.args[0] ?? "", change, terminal.now()),
        say: ({ changed, records }) => {
          const [report] = keyReports([changed], records);
          if (invocation.flag("json")) return printJson(terminal, report);
          terminal.out(`Key ${changed.id} is changed\n`);
          if (keyState(changed, terminal.now()) === "expired") terminal.out(STILL_EXPIRED);
          return EXIT_OK;
        },
      }),
    );
  },
};

const STILL_EXPIRED =
  "It still does not work: it is expired. Give it a new end with --expires 90d, or --expires never\n";

function readChange(invocation: Invocation): KeyChange | string {
  const from = invocation.texts("from");
  const isAny = from.includes("any");
  if (isAny && from.length > 1) return "Cannot use --from any beside a network: give one of them";
  const never = invocation.text("expires") === "never";
  const expires = never ? "never" : parsePeriodOption(invocation, "expires");
  if (typeof expires === "string" && expires !== "never") return expires;
  const caps = parseCapOptions(invocation);
  if (typeof caps === "string") return caps;
  const change = {
    name: invocation.text("name"),
    expiresInMs: expires,
    addScopes: invocation.texts("scope"),
    dropScopes: invocation.texts("drop-scope"),
    from: from.length === 0 ? undefined : isAny ? [] : from,
    caps,
    dropCaps: invocation.flag("no-caps"),
  };
  const isNothing =
    change.name === undefined && change.expiresInMs === undefined && change.from === undefined;
  const lists = [change.addScopes, change.dropScopes, caps];
  if (isNothing && !change.dropCaps && lists.every((list) => list.length === 0)) {
    return "Nothing to set: give --name, --expires, --scope, --drop-scope, --from, --cap or --no-caps";
  }
  return change as KeyChange;
}
