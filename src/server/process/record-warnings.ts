import type { Config } from "../../config/config.ts";
import { unserved } from "../../config/unserved-records.ts";
import type { KeyStore } from "../../stores/keys/key-store.ts";
import type { Log } from "../../telemetry/log/log.ts";

/** A look reads all accounts, and records may change many times a second. */
const LOOK_MS = 1_000;

type RecordSources = {
  readonly config: () => Config;
  readonly keys: Pick<KeyStore, "records" | "onChange">;
  readonly log: Pick<Log, "warn">;
  readonly now: () => number;
};

/**
 * Warns of each plan that leaves accounts without limits, and of each environment of theirs that is
 * not configured. Names each account once until it is served, or has no working key. Another process
 * may write a record by another configuration.
 */
export class RecordWarnings {
  readonly #sources: RecordSources;
  #warned: ReadonlySet<string> = new Set();
  #timer: NodeJS.Timeout | undefined;
  #stopped = false;

  constructor(sources: RecordSources) {
    this.#sources = sources;
    this.look();
    sources.keys.onChange(() => {
      if (!this.#stopped) this.#timer ??= setTimeout(() => this.look(), LOOK_MS).unref();
    });
  }

  stop(): void {
    this.#stopped = true;
    clearTimeout(this.#timer);
  }

  /** Looks now, and for the changes of records until now no more. */
  look(): void {
    if (this.#stopped) return;
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const { config, keys, log, now } = this.#sources;
    const found = unserved(config(), keys.records(), now());
    const warned = new Set<string>();
    for (const { what, accounts, tell } of found) {
      const fresh = accounts.filter(({ id }) => !this.#warned.has(`${what} ${id}`));
      for (const { id } of accounts) warned.add(`${what} ${id}`);
      if (fresh.length > 0) log.warn("config_warning", { file: config().file, why: tell(fresh) });
    }
    this.#warned = warned;
  }
}
