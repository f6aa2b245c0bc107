import { inSlices } from "../../../base/event-loop.ts";
import { SerialQueue } from "../../../base/serial-queue.ts";
import type { AccountRecord, KeyRecord, Records } from "../../../core/keys/records.ts";
import type { Reporter } from "../../../telemetry/log/log.ts";
import { fileErrorMessage } from "../../files/replace-file.ts";
import type { KeyStore, RecordTroubles } from "../key-store.ts";
import { keepRevocations } from "../records/keep-revocations.ts";
import { LostRecords } from "../records/lost-records.ts";
import { differencesFrom, endsWords, reportOlder } from "../records/older-records.ts";
import type { ReadRecords } from "../records/record-collector.ts";
import type { RecordSet } from "../records/record-set.ts";
import { setAsideLost } from "./disk-copy.ts";

const PLACE = "the keys file";
const OLDER =
  "The keys file has older key records than it had (restored from a backup): they are in use as they are";
/** Without a byte of a record, as the readiness check repeats it. */
const UNWRITTEN_ENDS =
  "The keys file lacks revocations and expiries that were in it, and cannot be written: they hold here; the log says why";
/** Gateways that share the file write the same lost records, one at a time. */
const LOCK_WAIT_MS = 5_000;

type UnwrittenEnds = { readonly keys: number; readonly why?: string };

/**
 * Records and ends of keys that a gateway knows and that its keys file no longer has: an older file
 * was put in its place, or another one. No command does this, so operators are told.
 */
export class FileLosses {
  readonly #path: string;
  readonly #report: Reporter;
  readonly #lost = new LostRecords();
  readonly #aside = new SerialQueue();
  /** Keys that were known here and are still in the file, but cannot be used: their account is gone. */
  #orphaned: readonly KeyRecord[] = [];
  #unwritten: UnwrittenEnds | undefined;
  #older = 0;

  constructor(path: string, report: Reporter) {
    this.#path = path;
    this.#report = report;
  }

  /** Whether the file lacks revocations or expiries that hold here. */
  get hasUnwritten(): boolean {
    return this.#unwritten !== undefined;
  }

  get troubles(): Pick<RecordTroubles, "lost" | "older"> {
    return { lost: this.#lost.count, older: this.#older };
  }

  get health(): ReturnType<KeyStore["health"]> {
    if (this.#lost.count > 0) {
      const lost = this.#lost.words(PLACE, this.#file);
      return { ok: false, why: lost, lost };
    }
    const { why } = this.#unwritten ?? {};
    return why === undefined ? { ok: true } : { ok: false, why, lost: UNWRITTEN_ENDS };
  }

  /**
   * Replaces the records with those that were read, and reports what is lost. A key that was revoked
   * stays revoked. A file that lacks a revocation is older than the records here: then the earlier
   * expiries hold too, which a command could have put off otherwise.
   */
  async replace(held: RecordSet, { records, damaged }: ReadRecords, nowMs: number): Promise<void> {
    const before = held.records;
    const orphaned = new Map(this.#orphaned.map((key) => [key.digest, key]));
    const find = (digest: string) =>
      held.find(digest) ?? this.#lost.find(digest) ?? orphaned.get(digest);
    const known = { records: before, find };
    const { changed } = await keepRevocations(records.keys, known, false);
    const ended = changed > 0 ? await keepRevocations(records.keys, known, true) : undefined;
    const isOlder = ended !== undefined && this.#unwritten === undefined;
    this.#unwritten = ended && { ...this.#unwritten, keys: ended.changed };
    await held.replace(ended === undefined ? records : { ...records, keys: ended.keys });
    if (await this.#lost.dropFound(held)) this.#report("info", "keys_found");
    const gone = await this.#goneFrom(before, held, damaged);
    const isGone = gone.keys.length + gone.accounts.length > 0;
    if (isGone || isOlder) await this.#setAside(before);
    if (isGone) await this.#tellGone(gone);
    if (isOlder) await this.#tellOlder(before, held.records, nowMs);
  }

  /** The records here are in the file. */
  written(): void {
    if (this.#unwritten === undefined) return;
    const { keys } = this.#unwritten;
    this.#unwritten = undefined;
    this.#report("error", "keys_ended", { keys, why: endsWords("The keys file") });
  }

  notWritten(cause: unknown): void {
    if (this.#unwritten === undefined) return;
    const { keys, why: before } = this.#unwritten;
    const why = endsWords("The keys file", fileErrorMessage(cause));
    this.#unwritten = { keys, why };
    if (before === undefined) this.#report("error", "keys_ended", { keys, why });
  }

  async close(): Promise<void> {
    await this.#aside.idle();
  }

  get #file(): string {
    return `${this.#path}.lost`;
  }

  /** Looks each record up, because a file that was read has new objects for all. */
  async #goneFrom(
    before: Records,
    held: RecordSet,
    damaged: ReadRecords["damaged"],
  ): Promise<Records> {
    const present = new Set(damaged.map(({ kind, id }) => kind === "key" && id));
    const [keys, orphaned, accounts]: [KeyRecord[], KeyRecord[], AccountRecord[]] = [[], [], []];
    await inSlices([...before.keys, ...this.#orphaned], (key) => {
      if (held.find(key.digest) === undefined) (present.has(key.id) ? orphaned : keys).push(key);
    });
    await inSlices(before.accounts, (account) => {
      if (held.account(account.id) === undefined) accounts.push(account);
    });
    this.#orphaned = orphaned;
    return { keys, accounts };
  }

  async #setAside(before: Records): Promise<void> {
    const records = await this.#lost.with({ ...before, keys: [...before.keys, ...this.#orphaned] });
    const options = { report: this.#report, lockWaitMs: LOCK_WAIT_MS };
    void this.#aside.run(() => setAsideLost(this.#file, records, options));
  }

  async #tellGone(gone: Records): Promise<void> {
    await this.#lost.add(gone);
    const [file, why] = [this.#file, this.#lost.words(PLACE, this.#file)];
    this.#report("error", "keys_lost", { ...this.#lost.details, file, why });
  }

  async #tellOlder(before: Records, now: Records, nowMs: number): Promise<void> {
    this.#older += 1;
    const differing = await differencesFrom(before, now, nowMs);
    const keys = now.keys.length;
    reportOlder(this.#report, { older: OLDER, keys, differing: differing ?? [] });
  }
}
