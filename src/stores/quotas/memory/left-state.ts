import type { Reporter } from "../../../telemetry/log/log.ts";
import { takeLock } from "../../files/file-lock.ts";
import { fileErrorMessage, moveAside, readRegularFile } from "../../files/replace-file.ts";
import { isOver } from "./account-table.ts";
import { decodeState } from "./state-file.ts";

/**
 * Whether this is a state file that the memory store left here before the configuration named
 * Redis. Such a file holds no keys.
 */
export function isCounters(text: string): boolean {
  return /^\{"version":\d+,"accounts":/.test(text);
}

/** Moves such a file aside, and tells that nothing of it is in force. */
export async function keepCounters(stateFile: string, report: Reporter): Promise<void> {
  const file = await moveAside(stateFile, "elsewhere");
  const why = `${stateFile} had counts and bans of a gateway with store: memory. None of them is in force: impose its bans again with tollgate bans add. To go back, put ${file} in its place before the start`;
  report("warn", "state_elsewhere", { file, why });
}

/**
 * The same for a gateway with Redis and a key file, which writes no state file: the file moves if a
 * count or a ban of it would still run. If it cannot move, each start tells that. Never fails: the
 * gateway needs nothing of it, and another one may have it open.
 */
export async function keepRunningCounters(
  stateFile: string,
  nowMs: number,
  report: Reporter,
): Promise<void> {
  if (!(await hasRunning(stateFile, nowMs))) return;
  try {
    const lock = await takeLock(stateFile, 0);
    if (lock === undefined) return;
    try {
      if (await hasRunning(stateFile, nowMs)) await keepCounters(stateFile, report);
    } finally {
      lock.release();
    }
  } catch (cause) {
    const why = `${stateFile} has counts and bans of a gateway with store: memory, and cannot be moved aside: ${fileErrorMessage(cause)}. None of them is in force: impose its bans again with tollgate bans add, and move it by hand, because a start with store: memory takes it as it is`;
    report("warn", "state_elsewhere", { file: stateFile, why });
  }
}

/** False if the file is missing, as with a store that was always Redis, damaged or unreadable. */
async function hasRunning(stateFile: string, nowMs: number): Promise<boolean> {
  try {
    const text = (await readRegularFile(stateFile)).toString();
    if (!isCounters(text)) return false;
    return decodeState(stateFile, text).some(({ state }) => !isOver(state, undefined, nowMs));
  } catch {
    return false;
  }
}
