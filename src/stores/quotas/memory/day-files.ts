import { createReadStream } from "node:fs";
import { readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { quoteValue } from "../../../base/messages.ts";
import { historyFolderOf } from "../../../base/own-files.ts";
import { parseJson } from "../../../base/parse-json.ts";
import { ID_PATTERN } from "../../../core/keys/records.ts";
import { dayOf, formatDay } from "../../../core/quota/days.ts";
import { METER_NAME } from "../../../core/quota/meters.ts";
import { fileErrorMessage, replaceFile } from "../../files/replace-file.ts";
import type { AccountRef } from "../account-ref.ts";

/** The counts of one account on one day, and the plan of its last request of that day. */
export type DayCount = {
  admitted: number;
  units: number;
  refused: number;
  plan?: string;
  meters?: Record<string, number>;
};
export type AccountDayCount = AccountRef & DayCount;

/** Accounts per chunk of a file: about a millisecond of work. */
const PIECE_ACCOUNTS = 1_000;

/**
 * The days of a memory store, one file each in a folder next to the state file: `state.history/`
 * for `state.json`, in it `2026-10-21.jsonl`, one line for each account
 * (docs/reference/history.md#without-redis). An empty line before and one after them tell that a file
 * was not cut. Earlier versions write neither, and read a file that has both.
 */
export class DayFiles {
  readonly #folder: string;

  constructor(stateFile: string) {
    this.#folder = historyFolderOf(stateFile);
  }

  /**
   * Replaces the file of the day. Rejects if it cannot be written; the old file then stays whole.
   */
  async write(day: number, accounts: Iterable<AccountDayCount>): Promise<void> {
    await replaceFile(this.#path(day), dayFileText(accounts));
  }

  /** The accounts of the day; none if there is no file. Rejects on damage, and names the place. */
  async *read(day: number): AsyncGenerator<AccountDayCount> {
    const path = this.#path(day);
    const lines = createInterface({ input: createReadStream(path, "utf8") });
    let number = 0;
    let [first, last]: (string | undefined)[] = [];
    let isEmpty = true;
    try {
      for await (const line of lines) {
        number += 1;
        first ??= line;
        last = line;
        if (line === "") continue;
        isEmpty = false;
        yield readLine(line, `${path}:${number}`);
      }
      // No version writes a file without accounts.
      if (isEmpty) throw cutError(path, "is empty", "remove it");
      if (first === "" && last !== "") {
        throw cutError(path, "ends without an empty line", "add one");
      }
    } catch (cause) {
      if (cause instanceof Error && "code" in cause) {
        if (cause.code === "ENOENT") return;
        throw new Error(`Cannot read the history ${path}: ${fileErrorMessage(cause)}`, { cause });
      }
      throw cause;
    }
  }

  /** The days that have a file, from this one on. */
  async daysFrom(day: number): Promise<readonly number[]> {
    return (await this.#days()).filter((one) => one >= day);
  }

  /** Removes the files of all days before this one. */
  async removeBefore(day: number): Promise<void> {
    for (const one of await this.#days()) if (one < day) await rm(this.#path(one));
  }

  async #days(): Promise<readonly number[]> {
    const names = await readdir(this.#folder).catch(() => []);
    const found = names.map((name) => /^(\d{4}-\d\d-\d\d)\.jsonl$/.exec(name)?.[1]);
    return found.flatMap((text) => {
      const atMs = Date.parse(text ?? "");
      return Number.isNaN(atMs) ? [] : [dayOf(atMs)];
    });
  }

  #path(day: number): string {
    return join(this.#folder, `${formatDay(day)}.jsonl`);
  }
}

function* dayFileText(accounts: Iterable<AccountDayCount>): Generator<string> {
  let piece = "\n";
  let count = 0;
  for (const { environment, account, admitted, units, refused, plan, meters } of accounts) {
    piece += `${JSON.stringify({ environment, account, admitted, units, refused, plan, meters })}\n`;
    count += 1;
    if (count % PIECE_ACCOUNTS !== 0) continue;
    yield piece;
    piece = "";
  }
  yield `${piece}\n`;
}

function cutError(path: string, what: string, otherwise: string): Error {
  return new Error(
    `Cannot read the history: ${path} was cut: it ${what}. Restore the file from a copy, or ${otherwise} to go on without what is lost`,
  );
}

function readLine(line: string, place: string): AccountDayCount {
  const value = (parseJson(line) ?? {}) as Partial<AccountDayCount>;
  const { environment, account, admitted, units, refused, plan, meters, ...others } = value;
  const counts = [admitted, units, refused, ...Object.values(meters ?? {})];
  const isNamed = typeof environment === "string" && typeof account === "string";
  const hasPlan = plan === undefined || (typeof plan === "string" && ID_PATTERN.test(plan));
  if (
    !isNamed ||
    !hasPlan ||
    !Object.keys(meters ?? {}).every((name) => METER_NAME.test(name)) ||
    !counts.every((count) => Number.isSafeInteger(count) && Number(count) >= 0)
  ) {
    throw new Error(`Cannot read the history: ${place} is damaged. Repair the line, or remove it`);
  }
  const [unknown] = Object.keys(others);
  if (unknown !== undefined) {
    throw new Error(
      `Cannot read the history: ${place} has ${quoteValue(unknown)}, which this version does not know. Run the version that wrote it, or a later one`,
    );
  }
  const read = { environment, account, admitted, units, refused } as AccountDayCount;
  if (plan !== undefined) read.plan = plan;
  if (meters !== undefined) read.meters = meters;
  return read;
}
