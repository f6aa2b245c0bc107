import { basename, dirname, extname, join } from "node:path";
import {
  type DeprecatedCall,
  DeprecatedCalls,
  type DeprecatedOperation,
} from "../../../telemetry/history/deprecated-calls.ts";
import { damagedFileError, JsonMemberReader, parseFile } from "../../files/damaged-file.ts";
import { fileErrorMessage, readRegularFile, replaceFile } from "../../files/replace-file.ts";
import type { ActivityStore, AddedCalls, KeyUse, RefusalCount } from "../activity-store.ts";
import type { AcknowledgedUsage } from "../usage-marks.ts";
import type { DayCounts } from "./day-counts.ts";
import { MemoryUsageMarks } from "./memory-usage-marks.ts";

const VERSION = 1;

/** `state.notes.json` next to `state.json`. */
function notesFileOf(stateFile: string): string {
  return join(dirname(stateFile), `${basename(stateFile, extname(stateFile))}.notes.json`);
}

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
    const text = JSON.stringify({ version: VERSION, ...notes });
    await replaceFile(this.#file, [`${text}\n`]).catch((cause: unknown) => {
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
    if (calls.length > 0) this.#isChanged = true;
    return { sums: calls.map((call) => this.#called.add(call)), left: [] };
  }

  async lastUsed(keys: readonly string[]): Promise<ReadonlyMap<string, number>> {
    return among(this.#used, keys);
  }

  async calls(operations: readonly DeprecatedOperation[]): Promise<readonly DeprecatedCall[]> {
    const wanted = new Set(operations.map(nameOf));
    return this.#called.list().filter((call) => wanted.has(nameOf(call)));
  }

  async callsBy(
    operation: DeprecatedOperation,
    accounts: readonly string[],
  ): Promise<readonly DeprecatedCall[]> {
    return accounts.flatMap((account) => this.#called.callOf(operation, account) ?? []);
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

type ActivityContent = {
  readonly used: readonly KeyUse[];
  readonly called: readonly DeprecatedCall[];
  /** Usage events; earlier versions wrote none. */
  readonly acknowledged: readonly AcknowledgedUsage[];
};

const NO_NOTES: ActivityContent = { used: [], called: [], acknowledged: [] };

/** Rejects with DamagedFileError, which names the places. A missing file is empty. */
async function readNotes(file: string): Promise<ActivityContent> {
  let text: string;
  try {
    text = (await readRegularFile(file)).toString();
  } catch (cause) {
    if (cause instanceof Error && "code" in cause && cause.code === "ENOENT") {
      return NO_NOTES;
    }
    throw new Error(`Cannot read the notes ${file}: ${fileErrorMessage(cause)}`, { cause });
  }
  const reader = new NotesReader();
  const read = reader.file(parseFile(file, text));
  if (reader.mistakes.length > 0) throw damagedFileError(file, text, reader.mistakes);
  return read;
}

class NotesReader extends JsonMemberReader {
  file(value: unknown): ActivityContent {
    const { version, used, called, acknowledged = [] } = this.object(value, []);
    if (version !== VERSION) {
      this.note(["version"], `this gateway reads version ${VERSION}`, version);
      return NO_NOTES;
    }
    return {
      used: this.list(used, ["used"]).map((item, i) => {
        const { key, day } = this.object(item, ["used", i]);
        return {
          key: this.text(key, ["used", i, "key"], /./, "the id of a key"),
          day: this.integer(day, ["used", i, "day"]),
        };
      }),
      called: this.list(called, ["called"]).map((item, i) => this.#call(item, i)),
      acknowledged: this.list(acknowledged, ["acknowledged"]).map((item, i) => {
        const { environment, account, day } = this.object(item, ["acknowledged", i]);
        const text = (value: unknown, name: string) => {
          return this.text(value, ["acknowledged", i, name], /./, "a name");
        };
        return {
          accountRef: {
            environment: text(environment, "environment"),
            account: text(account, "account"),
          },
          day: this.integer(day, ["acknowledged", i, "day"]),
        };
      }),
    };
  }

  #call(item: unknown, i: number): DeprecatedCall {
    const members = this.object(item, ["called", i]);
    const text = (name: string) => this.text(members[name], ["called", i, name], /./, "a text");
    const integer = (name: string) => this.integer(members[name], ["called", i, name]);
    return {
      environment: text("environment"),
      method: text("method"),
      route: text("route"),
      account: text("account"),
      requests: integer("requests"),
      last: integer("last"),
    };
  }
}
