import type { Config, EnvironmentConfig } from "../../config/config.ts";
import { unservedPlans } from "../../config/unserved-records.ts";
import type { IssuedKey } from "../../core/keys/edit-keys.ts";
import type { EditRefusal, EditResult, KeyContext } from "../../core/keys/edit-rules.ts";
import { issuedReport } from "../../core/keys/record-reports.ts";
import type { Records } from "../../core/keys/records.ts";
import { EXIT_FAILURE, EXIT_USAGE, fail } from "../../server/process/process-context.ts";
import { applyKeyEdit, type CommandKeys, keyContextOf } from "../../stores/keys/key-store.ts";
import { curlLine } from "../framework/curl.ts";
import {
  READING_KEYS,
  showWait,
  type Terminal,
  WAITING_FOR_GATEWAY,
} from "../framework/terminal.ts";
import type { Invocation } from "../framework/verb.ts";
import { otherRecordsError } from "./gateway-differences.ts";
import { type ReachedGateway, reachGateway } from "./reach.ts";
import { refreshGateway } from "./refresh-gateway.ts";

/**
 * Reads the configuration, opens its keys for one piece of work, and always closes them. Records
 * that cannot be read are reported on stderr; the others stay usable. If the running gateway has
 * other records than these, does nothing and says so. After a change, if the admin listener can be
 * reached, this resolves when the running gateway has read the change. Otherwise stderr says when
 * the change takes effect, or why the gateway cannot read it. If the gateway does not have the plan on
 * which the change puts an account, or that of an account of which it issues a key or lets one work
 * again, fails and says so. `context` has what new keys and changed accounts are checked by.
 */
export async function withKeys(
  invocation: Invocation,
  terminal: Terminal,
  work: (keys: CommandKeys, reached: ReachedGateway, context: KeyContext) => Promise<number>,
): Promise<number> {
  const reached = await reachGateway(invocation, terminal);
  if (typeof reached === "number") return reached;
  const { config } = reached;
  const keys = await showWait(terminal, READING_KEYS, openRecords(reached, terminal));
  const before = keys.records();
  let changed = false;
  keys.onChange(() => {
    changed = true;
  });
  try {
    const wait = <T>(asked: Promise<T>) => showWait(terminal, WAITING_FOR_GATEWAY, asked);
    const strange = reached.isRemote ? undefined : await wait(otherRecordsError(keys, config));
    if (strange !== undefined) return fail(terminal, EXIT_FAILURE, strange);
    const damage = keys.damage();
    if (damage.length > 0) {
      const lines = reached.isRemote ? damage : [...damage, LEFT_OUT];
      terminal.err(`${lines.join("\n")}\n`);
    }
    const context = { ...keyContextOf(config, terminal.now()), meters: reached.meters };
    const status = await work(keys, reached, context);
    // Nothing is lost if a signal ends the wait for a gateway that does not answer.
    if (!changed || (await terminal.process.releaseEnd())) return status;
    const { unread, withoutLimits = [] } = await wait(refreshGateway(config));
    if (unread !== undefined) terminal.err(`${unread}\n`);
    const judged = { withoutLimits, nowMs: terminal.now() };
    const unserved = unservedPlans(config, [before, keys.records()], judged);
    for (const why of unserved) terminal.err(`${why}\n`);
    return unserved.length === 0 ? status : EXIT_FAILURE;
  } finally {
    await keys.close();
  }
}

/** A key that the command does not find may work all the same. */
const LEFT_OUT =
  "A running gateway goes on with these as it last read them: --admin URL asks it; one that never read them accepts none of their keys";

async function openRecords(
  { config, isRemote }: ReachedGateway,
  terminal: Terminal,
): Promise<CommandKeys> {
  if (isRemote) {
    const { openGatewayRecords } = await import("./gateway-records.ts");
    return openGatewayRecords(config, terminal.now);
  }
  return openStoredRecords(config, terminal);
}

/**
 * The records where the configuration keeps them, for one piece of work. Close them when done.
 * Rejects if the store is unreachable.
 */
export async function openStoredRecords(
  config: Config,
  { now }: Pick<Terminal, "now">,
): Promise<CommandKeys> {
  const { openKeyStore } = await import("../../stores/open-stores.ts");
  return openKeyStore(config, { now, report: () => {}, watch: false });
}

/** The current keys and accounts. Rejects if the store is unreachable. */
export async function readRecords(config: Config, terminal: Terminal): Promise<Records> {
  const keys = await openStoredRecords(config, terminal);
  const records = keys.records();
  await keys.close();
  return records;
}

/**
 * Applies the edit. A signal that comes during the write waits until its result is printed, because
 * nobody else knows a new key, or what was changed.
 */
export function editRecords<T>(
  keys: CommandKeys,
  terminal: Terminal,
  edit: (records: Records) => EditResult<T>,
): Promise<EditResult<T>> {
  return applyKeyEdit(keys, (records) => {
    terminal.process.holdEnd();
    return edit(records);
  });
}

/** Edits the newest records. If the edit is refused, stderr says why. */
export async function withEdit<T>(
  keys: CommandKeys,
  terminal: Terminal,
  {
    edit,
    say,
  }: {
    readonly edit: (records: Records) => EditResult<T>;
    readonly say: (edited: { readonly records: Records } & T) => number;
  },
): Promise<number> {
  const edited = await editRecords(keys, terminal, edit);
  return edited.ok ? say(edited) : failWithRefusal(terminal, edited);
}

export function failWithRefusal(terminal: Terminal, { reason, message }: EditRefusal): number {
  return fail(terminal, reason === "usage" ? EXIT_USAGE : EXIT_FAILURE, message);
}

/** The exit status of a list: it shows whether records could not be read. */
export function listExitStatus(keys: CommandKeys): number {
  return keys.damage().length === 0 ? 0 : EXIT_FAILURE;
}

/** The key, shown once, with a command that tries it. */
export function issuedText(issued: IssuedKey, config: Config): string {
  const { id, key, plan, environment, account } = issuedReport(issued);
  // A key is issued only for an environment that is configured.
  const where = config.environments.find(({ name }) => name === environment) as EnvironmentConfig;
  return `Key ${id}: ${environment}, plan ${plan}, account ${account}. It is shown this once:\n  ${key}\n  ${curlLine(where, key)}\n`;
}

/** The words for keys that were issued and could not be shown: no command shows them again. */
export function unshownText(issued: readonly IssuedKey[]): string {
  const ids = issued.map(({ record }) => record.id).join(", ");
  const [keys, ends] = issued.length === 1 ? ["key", "it"] : ["keys", "one"];
  return `Issued, but not shown: ${keys} ${ids}. \`keys revoke ID\` ends ${ends}, \`keys rotate ID --grace 0s\` issues another in its place`;
}

/**
 * Reads the key, one line, from stdin, and asks for it at a terminal. Undefined if there is none, or
 * if the argument is not "-". Then stderr says so, without repeating the input.
 */
export async function readKeyFromStdin(
  invocation: Invocation,
  terminal: Terminal,
): Promise<string | undefined> {
  if (invocation.args[0] !== "-") {
    fail(terminal, EXIT_USAGE, 'Expected "-": the key itself is read from stdin');
    return undefined;
  }
  const read = await (terminal.askHidden?.("Key: ") ?? terminal.readIn());
  const key = read.toString().trim();
  if (/^[\x21-\x7e]{8,512}$/.test(key)) return key;
  fail(terminal, EXIT_USAGE, "Expected one key in stdin, on a line of its own");
  return undefined;
}
