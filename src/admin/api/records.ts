import { preparePatch, type RecordPatch } from "../../stores/keys/file/record-patch.ts";
import {
  type AdminResponse,
  jsonResponse,
  problemResponse,
  RETRY_AFTER_1,
} from "../http/response.ts";
import { type ApiRequest, applyEdit } from "./api-request.ts";

/**
 * The identity and location of this gateway's records, which a command compares with its own, and
 * a line for each that is damaged.
 */
export async function showRecordsIdentity({ deps }: ApiRequest): Promise<AdminResponse> {
  try {
    const { id, place } = await deps.keys.identity();
    return jsonResponse(200, { id: id ?? null, place, damaged: deps.keys.damage() });
  } catch {
    const message = "The key records cannot be asked which they are: the store is unreachable";
    return problemResponse("store_unavailable", message, RETRY_AFTER_1);
  }
}

/**
 * Changes records for another machine: all or none, and only if each is still as the caller knows
 * it.
 */
export async function patchRecords(request: ApiRequest): Promise<AdminResponse> {
  const { deps, body } = request;
  const { changes } = body as { changes: readonly RecordPatch[] };
  const edited = await applyEdit(request, await preparePatch(changes, deps.now()));
  if (!edited.ok) return edited.response;
  const changed = changes.length;
  deps.log.info("records_changed", { changed });
  return jsonResponse(200, { changed });
}
