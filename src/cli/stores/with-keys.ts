import { randomInt } from "node:crypto";
import type { Config, Environment } from "../../config/config.ts";
import type { KeyRecord } from "../../core/keys/key.ts";
import type { IssuedKey, KeyringRefusal } from "../../core/keys/keyring.ts";
import type { Keyring } from "../../core/keys/keyring-rules.ts";
import { keyReport } from "../../core/keys/report.ts";
import { FAILED, fail, WRONG_USAGE } from "../../server/process/process-door.ts";
import type { KeyStore } from "../../stores/interface/key-store.ts";
import { readConfig } from "../frame/config-file.ts";
import { curlLine } from "../frame/curl.ts";
import type { Terminal } from "../frame/terminal.ts";
import type { Call } from "../frame/verb.ts";

/** The means to make keys: the configuration's names, the system's randomness and clock. */
export function ringOf(config: Config, nowMs: number): Keyring {
  const { keyPrefix, environments, plans } = config;
  return { keyPrefix, environments, plans, random: (max) => randomInt(max), nowMs };
}

/** Reads the configuration, opens its keys for one piece of work, and closes them whatever happens. */
export async function withKeys(
  call: Call,
  terminal: Terminal,
  work: (keys: KeyStore, config: Config) => Promise<number>,
): Promise<number> {
  const config = await readConfig(call, terminal);
  if (typeof config === "number") return config;
  const { openKeyStore } = await import("../../stores/open.ts");
  const keys = await openKeyStore(config, { now: terminal.now, report: () => {}, watch: false });
  try {
    return await work(keys, config);
  } finally {
    await keys.close();
  }
}

type Refusable = { readonly ok: true; readonly records: readonly KeyRecord[] } | KeyringRefusal;

/** Applies an edit of core/keyring.ts to the newest records; a refused one leaves them as they are. */
export function changeKeys<T extends Refusable>(
  keys: KeyStore,
  edit: (records: readonly KeyRecord[]) => T,
): Promise<T> {
  return keys.change((records) => {
    const result = edit(records);
    return { records: result.ok ? result.records : records, result };
  });
}

export function failRefused(terminal: Terminal, { because, message }: KeyringRefusal): number {
  return fail(terminal, because === "usage" ? WRONG_USAGE : FAILED, message);
}

/** With the key itself: told once, to whoever asked for it, and never again. */
export function issuedReport({ key, record }: IssuedKey) {
  const { id, ...rest } = keyReport(record);
  return { id, key, ...rest };
}

/** The key, shown once, with a line that tries it. */
export function issuedText({ key, record }: IssuedKey, config: Config): string {
  const { id, plan, environment, account } = record;
  const where = config.environments.find(({ name }: Environment) => name === environment);
  const line = where === undefined ? "" : `  ${curlLine(where, key)}\n`;
  return `Key ${id}: ${environment}, plan ${plan}, account ${account}. It is shown this once:\n  ${key}\n${line}`;
}
