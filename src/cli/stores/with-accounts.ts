import type { Config } from "../../config/config.ts";
import { FAILED, fail, WRONG_USAGE } from "../../server/process/process-door.ts";
import { readConfig } from "../frame/config-file.ts";
import type { Terminal } from "../frame/terminal.ts";
import type { Call } from "../frame/verb.ts";
import type { AccountAnswer, Accounts } from "./accounts.ts";
import { askAdmin } from "./ask-admin.ts";
import { unknownEnvironment } from "./read-terms.ts";

/**
 * Asks a question about accounts: of the store where all gateways share one, else of the running
 * gateway through its admin listener (docs/reference/commands.md#which-process-answers).
 */
export async function withAccounts<T>(
  call: Call,
  terminal: Terminal,
  work: {
    readonly ask: (accounts: Accounts) => Promise<AccountAnswer<T>>;
    readonly say: (value: T) => number;
  },
): Promise<number> {
  const config = await readConfig(call, terminal);
  if (typeof config === "number") return config;
  const strange = unknownEnvironment(call.text("env"), config);
  if (strange !== undefined) return fail(terminal, WRONG_USAGE, strange);
  const answer = await askWhereTheyAre(config, terminal, work.ask);
  if (answer.ok) return work.say(answer.value);
  return fail(terminal, answer.usage ? WRONG_USAGE : FAILED, answer.message);
}

/** Asks without saying anything. */
export async function askWhereTheyAre<T>(
  config: Config,
  terminal: Terminal,
  ask: (accounts: Accounts) => Promise<AccountAnswer<T>>,
): Promise<AccountAnswer<T>> {
  if (config.store.kind === "memory") return ask(askAdmin(config));
  const { openStoredAccounts } = await import("./ask-store.ts");
  const { accounts, close } = await openStoredAccounts(config, terminal);
  try {
    return await ask(accounts);
  } finally {
    await close();
  }
}
