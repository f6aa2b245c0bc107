import { errorMessage } from "../../base/error-message.ts";
import type { EditRefusal, EditResult } from "../../core/keys/edit-rules.ts";
import type { Records } from "../../core/keys/records.ts";
import { applyKeyEdit } from "../../stores/interface/edit-keys.ts";
import {
  type AdminResponse,
  type BodyResult,
  problemResponse,
  RETRY_AFTER_1,
  unknownIdResponse,
} from "../http/response.ts";
import type { ApiDeps } from "./api-request.ts";

/**
 * Puts a pure edit to the store, and has every process of this gateway read the change before the
 * answer goes out; what the edit refuses changes nothing.
 */
export async function applyEdit<T>(
  deps: ApiDeps,
  edit: (records: Records) => EditResult<T>,
): Promise<BodyResult<{ readonly records: Records } & T>> {
  let result: EditResult<T>;
  try {
    result = await applyKeyEdit(deps.keys, edit);
    if (result.ok) await deps.spreadKeys();
  } catch (error) {
    deps.log.error("keys_unchanged", { why: errorMessage(error) });
    const message = "The key records could not be changed: the log says why";
    return { ok: false, answer: problemResponse("store_unavailable", message, RETRY_AFTER_1) };
  }
  return result.ok ? { ok: true, value: result } : { ok: false, answer: refusalResponse(result) };
}

const CODES = { usage: "bad_request", refused: "conflict" } as const;

/** An unknown ID is not repeated: somebody may have sent a key. */
export function refusalResponse({ because, message }: EditRefusal): AdminResponse {
  return because === "unknown" ? unknownIdResponse() : problemResponse(CODES[because], message);
}
