import type { Config } from "../../config/config.ts";
import type { BanReport, UsageReport } from "../../core/keys/report.ts";
import { readConfig } from "../frame/config-file.ts";
import { FAILED, fail, type Terminal } from "../frame/terminal.ts";
import type { Call } from "../frame/verb.ts";
import { askAdmin } from "./ask-admin.ts";

/** A question about accounts: an answer, or why there is none, in words; all of those exit 1. */
export type Told<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly message: string };

export type Lifted = { readonly account: string; readonly environment: string };

/** What is remembered of accounts, wherever it is. `id` is an account or one of its keys. */
export type Accounts = {
  bans(): Promise<Told<readonly BanReport[]>>;
  liftBan(id: string): Promise<Told<Lifted>>;
  usage(id: string): Promise<Told<UsageReport>>;
};

/**
 * Asks a question of the accounts: of the store where all gateways share one, else of the running
 * gateway, through its admin listener (contract 1).
 */
export async function withAccounts<T>(
  call: Call,
  terminal: Terminal,
  work: {
    readonly ask: (accounts: Accounts) => Promise<Told<T>>;
    readonly say: (value: T) => number;
  },
): Promise<number> {
  const config = await readConfig(call, terminal);
  if (typeof config === "number") return config;
  const told = await askWhereTheyAre(config, terminal, work.ask);
  return told.ok ? work.say(told.value) : fail(terminal, FAILED, told.message);
}

async function askWhereTheyAre<T>(
  config: Config,
  terminal: Terminal,
  ask: (accounts: Accounts) => Promise<Told<T>>,
): Promise<Told<T>> {
  if (config.store.kind === "memory") return ask(askAdmin(config));
  const { openStoredAccounts } = await import("./ask-store.ts");
  const { accounts, close } = await openStoredAccounts(config, terminal);
  try {
    return await ask(accounts);
  } finally {
    await close();
  }
}
