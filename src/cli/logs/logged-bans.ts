import { type BanRecord, banRecord } from "../../telemetry/history/ban-records.ts";

/** The most bans that are kept from logs; the oldest are dropped first. */
const BANS_MAX = 100_000;

/** The bans in the events of logs. */
export class LoggedBans {
  readonly #bans: BanRecord[] = [];

  /** Called with each line that is not a request. */
  event(line: Readonly<Record<string, unknown>>): void {
    const ban = banRecord(line);
    if (ban === undefined) return;
    this.#bans.push(ban);
    if (this.#bans.length > BANS_MAX) this.#bans.shift();
  }

  /** The bans of an account, oldest first. */
  of({ account, environment }: { readonly account: string; readonly environment: string }) {
    return this.#bans
      .filter((ban) => ban.account === account && ban.environment === environment)
      .sort((a, b) => a.at - b.at);
  }

  /** An account with a ban that has this id. */
  ownerOf(id: string): { readonly account: string; readonly environment: string } | undefined {
    return this.#bans.find(({ account }) => account === id);
  }
}
