import type { Edited, KeyringRefusal } from "../../core/keys/keyring-rules.ts";
import type { Records } from "../../core/keys/records.ts";
import { editKeys } from "../../stores/interface/edit-keys.ts";
import { reasonOf } from "../../telemetry/reason.ts";
import { type Answer, problem, RETRY, type Read, unknownId } from "../http/answer.ts";
import type { ApiDeps } from "./call.ts";

/**
 * Puts a pure edit to the store, and has every process of this gateway read the change before the
 * answer goes out; what the edit refuses changes nothing.
 */
export async function change<T>(
  deps: ApiDeps,
  edit: (records: Records) => Edited<T>,
): Promise<Read<{ readonly records: Records } & T>> {
  let result: Edited<T>;
  try {
    result = await editKeys(deps.keys, edit);
    if (result.ok) await deps.spreadKeys();
  } catch (error) {
    deps.log.error("keys_unchanged", { why: reasonOf(error) });
    const message = "The key records could not be changed: the log says why";
    return { ok: false, answer: problem("store_unavailable", message, RETRY) };
  }
  return result.ok ? { ok: true, value: result } : { ok: false, answer: refusalAnswer(result) };
}

const CODES = { usage: "bad_request", refused: "conflict" } as const;

/** An unknown ID is not repeated: somebody may have sent a key. */
export function refusalAnswer({ because, message }: KeyringRefusal): Answer {
  return because === "unknown" ? unknownId() : problem(CODES[because], message);
}
