import { closesMs, DAY_MS, type DaySpan, type DayUsage, dayOf } from "../../../core/quota/days.ts";
import { type AccountRef, accountId, parseAccountId } from "../account-ref.ts";
import type { AccountDayCount, DayCount, DayFiles } from "./day-files.ts";

/**
 * The usage of each account by UTC day. Days that still change are in memory, the others in files.
 * Without files all days are in memory. The day never goes back when the clock does.
 */
export class DayCounts {
  readonly #files: DayFiles | undefined;
  readonly #days = new Map<number, Map<string, DayCount>>();
  readonly #changed = new Set<number>();
  #latest = 0;
  #pruned = 0;
  /** How long days are kept, in milliseconds; undefined if none is to be counted from now on. */
  keptMs: number | undefined;

  constructor(files: DayFiles | undefined, keptMs?: number) {
    this.#files = files;
    this.keptMs = keptMs;
  }

  /**
   * Loads the current day, if an earlier gateway saved it, and the days after it: the clock may have
   * gone back since, and their files must not be replaced. The next day goes on as the current one;
   * days further ahead are damage, and only kept.
   */
  async load(nowMs: number): Promise<void> {
    const today = dayOf(nowMs);
    this.#latest = today;
    this.#day(today);
    for (const day of (await this.#files?.daysFrom(today)) ?? []) {
      if (day <= today + 1) this.#latest = Math.max(this.#latest, day);
      this.#days.set(day, await this.#read(day));
    }
  }

  /** The oldest day that is kept at this time. Without `keptMs` none is removed. */
  oldest(nowMs: number): number {
    const { keptMs = Number.POSITIVE_INFINITY } = this;
    return Math.max(this.#latest, dayOf(nowMs)) - Math.ceil(keptMs / DAY_MS);
  }

  get isChanged(): boolean {
    return this.#changed.size > 0;
  }

  /** Counts admitted requests, which cost `units` in all, on that plan if it is known. */
  admit(
    accountRef: AccountRef,
    nowMs: number,
    requests: number,
    units: number,
    plan?: string,
  ): void {
    this.#latest = Math.max(this.#latest, dayOf(nowMs));
    const counted = this.#counted(accountRef, this.#latest);
    counted.admitted += requests;
    counted.units += units;
    if (plan !== undefined) counted.plan = plan;
  }

  /**
   * Adds units of a meter to a day; they may be below 0. A closed day takes none: a raise goes to the
   * current day. Returns false if nothing was added.
   */
  addMetered(
    accountRef: AccountRef,
    day: number,
    meter: string,
    units: number,
    nowMs: number,
  ): boolean {
    this.#latest = Math.max(this.#latest, dayOf(nowMs));
    const isOpen = this.#days.has(day) && nowMs < closesMs(day);
    if (!isOpen && units < 0) return false;
    const counted = this.#counted(accountRef, isOpen ? day : this.#latest);
    const before = counted.meters?.[meter] ?? 0;
    counted.meters = { ...counted.meters, [meter]: Math.max(0, before + units) };
    return true;
  }

  /**
   * Counts refused requests on their day. A day that is no longer in memory is read from its file
   * first, or the file would be replaced by less. Rejects if the file cannot be read.
   */
  async refuse(accountRef: AccountRef, day: number, requests: number): Promise<void> {
    const read = this.#days.has(day) ? undefined : await this.#read(day);
    if (read !== undefined && !this.#days.has(day)) this.#days.set(day, read);
    this.#latest = Math.max(this.#latest, day);
    this.#counted(accountRef, day).refused += requests;
  }

  /**
   * Writes the days that changed. Drops days that are over from memory, and days before the oldest
   * that is kept.
   */
  async save(nowMs: number): Promise<void> {
    // No admitted request is counted on a day that is dropped: its file would be replaced by less.
    const today = Math.max(this.#latest, dayOf(nowMs));
    this.#latest = today;
    for (const day of [...this.#changed]) {
      this.#changed.delete(day);
      try {
        await this.#files?.write(day, this.#lines(day));
      } catch (cause) {
        this.#changed.add(day);
        throw cause;
      }
    }
    const oldest = this.oldest(today * DAY_MS);
    for (const day of this.#days.keys()) {
      const isDone = this.#files !== undefined && nowMs >= closesMs(day) && !this.#changed.has(day);
      if (!isDone && day >= oldest) continue;
      this.#days.delete(day);
      this.#changed.delete(day);
    }
    if (this.#pruned === today) return;
    await this.#files?.removeBefore(oldest);
    this.#pruned = today;
  }

  /** By account, the units that the files lack. Rejects if a file cannot be read. */
  async unsavedUnits(): Promise<Map<string, number>> {
    const unsaved = new Map<string, number>();
    for (const day of this.#changed) {
      const saved = await this.#read(day);
      for (const [id, { units }] of this.#day(day)) {
        const missing = units - (saved.get(id)?.units ?? 0);
        unsaved.set(id, (unsaved.get(id) ?? 0) + missing);
      }
    }
    return unsaved;
  }

  /** See QuotaStore.history. */
  async read(accountRefs: readonly AccountRef[], { from, to }: DaySpan): Promise<DayUsage[][]> {
    const rows = new Map(
      accountRefs.map((accountRef) => [accountId(accountRef), [] as DayUsage[]]),
    );
    for (let day = from; day <= to; day++) {
      const held = this.#days.get(day);
      if (held !== undefined) {
        for (const [id, all] of rows) {
          const counted = held.get(id);
          if (counted !== undefined) all.push({ day, ...counted });
        }
      } else {
        for await (const { environment, account, ...counted } of this.#files?.read(day) ?? []) {
          rows.get(`${environment}:${account}`)?.push({ day, ...counted });
        }
      }
    }
    return accountRefs.map((accountRef) => rows.get(accountId(accountRef)) ?? []);
  }

  *#lines(day: number): Generator<AccountDayCount> {
    for (const [id, counted] of this.#day(day)) yield { ...parseAccountId(id), ...counted };
  }

  #counted(accountRef: AccountRef, day: number): DayCount {
    this.#changed.add(day);
    const counts = this.#day(day);
    const id = accountId(accountRef);
    let counted = counts.get(id);
    if (counted === undefined) {
      counted = { admitted: 0, units: 0, refused: 0 };
      counts.set(id, counted);
    }
    return counted;
  }

  async #read(day: number): Promise<Map<string, DayCount>> {
    const counts = new Map<string, DayCount>();
    for await (const line of this.#files?.read(day) ?? []) {
      const { environment: _, account: __, ...counted } = line;
      counts.set(accountId(line), counted);
    }
    return counts;
  }

  #day(day: number): Map<string, DayCount> {
    let counts = this.#days.get(day);
    if (counts === undefined) {
      counts = new Map();
      this.#days.set(day, counts);
    }
    return counts;
  }
}
