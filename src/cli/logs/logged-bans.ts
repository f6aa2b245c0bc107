import { type BanRecord, banRecord } from "../../telemetry/history/ban-records.ts";

/** Bans that are kept of logs; the oldest read leave first. */
const BANS_MAX = 100_000;

/** The bans that the events of logs tell. */
export class LoggedBans {
  readonly #bans: BanRecord[] = [];

  /** A line that is no request. */
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
