import { EXIT_FAILURE, EXIT_USAGE, fail } from "../../server/process/process-context.ts";
import {
  READING_KEYS,
  showWait,
  type Terminal,
  WAITING_FOR_GATEWAY,
  WAITING_FOR_STORE,
} from "../framework/terminal.ts";
import type { Invocation } from "../framework/verb.ts";
import { type AccountOperations, type OperationResult, refused } from "./account-operations.ts";
import { openAdminAccounts } from "./admin-accounts.ts";
import { gatewayRecordsIdentity, otherRecordsError } from "./gateway-differences.ts";
import { type ReachedGateway, reachGateway } from "./reach.ts";
import { envOptionError } from "./unknown-names.ts";
import { openStoredRecords } from "./with-keys.ts";

/**
 * Runs a query about accounts and prints its result: in the store if all gateways share one and the
 * file tells what it is about, otherwise in the running gateway through its admin listener
 * (docs/reference/commands.md#which-process-answers).
 */
export async function withAccounts<T>(
  invocation: Invocation,
  terminal: Terminal,
  work: {
    readonly ask: (accounts: AccountOperations) => Promise<OperationResult<T>>;
    /** Whether it changes something: then a signal waits until the result is printed. */
    readonly changes?: true;
    /** Whether it reads the past, so that --env may name an environment that has left the file. */
    readonly hasEarlierNames?: true;
    /** Whether it prints what it reads meanwhile, so that nobody else shows how long it takes. */
    readonly printsMeanwhile?: boolean;
    /** `missing` is how many parts `value` is without: of the store, or accounts without limits. */
    readonly say: (value: T, missing: number) => number;
  },
): Promise<number> {
  const reached = await reachGateway(invocation, terminal);
  if (typeof reached === "number") return reached;
  const strange = work.hasEarlierNames ? undefined : envOptionError(invocation, reached);
  if (strange !== undefined) return fail(terminal, strange.status, strange.message);
  const answer = await askAccounts(reached, terminal, (accounts) => {
    if (work.changes) terminal.process.holdEnd();
    const asked = work.ask(accounts);
    if (work.printsMeanwhile) return asked;
    const place = isAskedInGateway(reached) ? WAITING_FOR_GATEWAY : WAITING_FOR_STORE;
    return showWait(terminal, place, asked);
  });
  if (answer.ok) {
    const { missing = [] } = answer;
    const status = work.say(answer.value, missing.length);
    for (const part of missing) terminal.err(`Missing: ${part}\n`);
    return missing.length > 0 ? EXIT_FAILURE : status;
  }
  return fail(terminal, answer.usage ? EXIT_USAGE : EXIT_FAILURE, answer.message);
}

function isAskedInGateway({ asksGateway, sharesStore }: ReachedGateway): boolean {
  return asksGateway || !sharesStore;
}

/** Runs the query where `withAccounts` does, and returns its result. */
export async function askAccounts<T>(
  reached: ReachedGateway,
  terminal: Terminal,
  ask: (accounts: AccountOperations) => Promise<OperationResult<T>>,
): Promise<OperationResult<T>> {
  const { config, sharesStore } = reached;
  if (isAskedInGateway(reached)) {
    const strange = await showWait(terminal, READING_KEYS, strangeRecords(reached, terminal));
    return strange === undefined ? ask(openAdminAccounts(config, sharesStore)) : refused(strange);
  }
  const { openStoredAccounts } = await import("./store-client.ts");
  const opened = openStoredAccounts(config, terminal);
  const { accounts, strange, close } = await showWait(terminal, READING_KEYS, opened);
  try {
    return strange === undefined ? await ask(accounts) : refused(strange);
  } finally {
    await close();
  }
}

/** Why the gateway that is asked has other records than the command. `--admin` names it on purpose. */
async function strangeRecords(
  { config, isRemote }: ReachedGateway,
  terminal: Terminal,
): Promise<string | undefined> {
  if (isRemote) return undefined;
  const running = await gatewayRecordsIdentity(config);
  if (running === undefined) return undefined;
  // Records that cannot be read cannot be compared, and the gateway needs none of them to answer.
  const keys = await openStoredRecords(config, terminal).catch(() => undefined);
  if (keys === undefined) return undefined;
  try {
    return await otherRecordsError(keys, config, running);
  } finally {
    await keys.close();
  }
}
