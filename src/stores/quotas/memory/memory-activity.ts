import { notesFileOf } from "../../../base/own-files.ts";
import {
  type DeprecatedCall,
  DeprecatedCalls,
  type DeprecatedOperation,
} from "../../../telemetry/history/deprecated-calls.ts";
import type { ActivityStore, AddedCalls, KeyUse, RefusalCount } from "../activity-store.ts";
import type { DayCounts } from "./day-counts.ts";
import { MemoryUsageMarks } from "./memory-usage-marks.ts";
import { readNotes, writeNotes } from "./notes-file.ts";

/**
 * The notes of the only gateway of a memory store. Their file is next to the state file and is
 * written when the notes have changed (docs/reference/history.md#notes).
 */
export class MemoryActivity implements ActivityStore {
  readonly #file: string | undefined;
  readonly #days: DayCounts;
  readonly #used = new Map<string, number>();
  readonly #called = new DeprecatedCalls();
  readonly usageMarks: MemoryUsageMarks;
  #isChanged = false;

  /** `now` is the clock of the store, in Unix milliseconds. */
  constructor(stateFile: string | undefined, days: DayCounts, now: () => number) {
    this.#file = stateFile === undefined ? undefined : notesFileOf(stateFile);
    this.#days = days;
    this.usageMarks = new MemoryUsageMarks(now);
  }

  get isChanged(): boolean {
    return this.#isChanged || this.usageMarks.isChanged;
  }

  /** Loads the notes that an earlier gateway wrote. Rejects with DamagedFileError. */
  async load(): Promise<void> {
    if (this.#file === undefined) return;
    const { used, called, acknowledged } = await readNotes(this.#file);
    for (const { key, day } of used) this.#used.set(key, day);
    for (const call of called) this.#called.set(call);
    this.usageMarks.load(acknowledged);
  }

  async save(): Promise<void> {
    if (this.#file === undefined || !this.isChanged) return;
    this.#isChanged = false;
    const used = [...this.#used].map(([key, day]) => ({ key, day }));
    const notes = { used, called: this.#called.list(), acknowledged: this.usageMarks.take() };
    await writeNotes(this.#file, notes).catch((cause: unknown) => {
      this.#isChanged = true;
      throw cause;
    });
  }

  async addRefused(refused: readonly RefusalCount[]): Promise<readonly RefusalCount[]> {
    if (this.#days.keptMs === undefined) return [];
    const left: RefusalCount[] = [];
    for (const each of refused) {
      const { accountRef, day, requests } = each;
      await this.#days.refuse(accountRef, day, requests).catch(() => left.push(each));
    }
    return left;
  }

  async addUsed(used: readonly KeyUse[]): Promise<void> {
    for (const { key, day } of used) {
      if (day <= (this.#used.get(key) ?? 0)) continue;
      this.#used.set(key, day);
      this.#isChanged = true;
    }
  }

  async addCalls(calls: readonly DeprecatedCall[]): Promise<AddedCalls> {
    const sums = calls.map((call) => {
      if (call.requests === 0) return this.#called.callOf(call, call.account) ?? call;
      this.#isChanged = true;
      return this.#called.add(call);
    });
    return { sums, left: [] };
  }

  async lastUsed(keys: readonly string[]): Promise<ReadonlyMap<string, number>> {
    return among(this.#used, keys);
  }

  async calls(operations: readonly DeprecatedOperation[]): Promise<readonly DeprecatedCall[]> {
    const wanted = new Set(operations.map(nameOf));
    return this.#called.list().filter((call) => wanted.has(nameOf(call)));
  }
}

/** For a command: the last day of each key, as the running gateway or the last one wrote it. */
export async function readLastUsedFile(
  stateFile: string,
  keys: readonly string[],
): Promise<ReadonlyMap<string, number>> {
  const { used } = await readNotes(notesFileOf(stateFile));
  return among(new Map(used.map(({ key, day }) => [key, day])), keys);
}

function among(used: ReadonlyMap<string, number>, keys: readonly string[]): Map<string, number> {
  const found = new Map<string, number>();
  for (const key of keys) {
    const day = used.get(key);
    if (day !== undefined) found.set(key, day);
  }
  return found;
}

function nameOf({ environment, method, route }: DeprecatedOperation): string {
  return `${environment} ${method} ${route}`;
}
