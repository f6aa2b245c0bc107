import { inSlices } from "../../base/event-loop.ts";
import type { Config } from "../../config/config.ts";
import { recordLines } from "../../stores/keys/file/export-records.ts";
import {
  type ImportCounts,
  importNow,
  prepareImport,
} from "../../stores/keys/file/import-records.ts";
import { preparePatch, type RecordPatch } from "../../stores/keys/file/record-patch.ts";
import { judgeKeyEdit, keyContextOf } from "../../stores/keys/key-store.ts";
import {
  type AdminResponse,
  jsonResponse,
  problemResponse,
  RETRY_AFTER_1,
} from "../http/response.ts";
import { type ApiRequest, applyEdit, refusalResponse } from "./api-request.ts";
import { parseImport } from "./request-bodies.ts";

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

/** Changes records for another machine: all, and only if each is as the caller knows it. */
export async function patchRecords(request: ApiRequest): Promise<AdminResponse> {
  const { deps, body } = request;
  const { changes } = body as { changes: readonly RecordPatch[] };
  const edited = await applyEdit(request, await preparePatch(changes, deps.now()));
  if (!edited.ok) return edited.response;
  const changed = changes.length;
  deps.log.info("records_changed", { changed });
  return jsonResponse(200, { changed });
}

/** Text of this length becomes bytes between two turns: 40 MB at once hold requests up for 50 ms. */
const PIECE_CHARS = 64 * 1_024;

/** All accounts and keys as lines of JSON, as `keys export` prints them. */
export async function exportKeys({ deps }: ApiRequest): Promise<AdminResponse> {
  const pieces: Buffer[] = [];
  let text = "";
  await inSlices(recordLines(deps.keys.records()), (line) => {
    text += `${line}\n`;
    if (text.length < PIECE_CHARS) return;
    pieces.push(Buffer.from(text));
    text = "";
  });
  const body = Buffer.concat([...pieces, Buffer.from(text)]);
  return { status: 200, type: "application/jsonl; charset=utf-8", body, fields: [] };
}

/** Imports records, all or none. Each mistake is named by its place in the list. */
export async function importKeys(request: ApiRequest): Promise<AdminResponse> {
  const { deps, body } = request;
  const { records: values, plain, dryRun } = parseImport(body);
  const config = deps.config();
  const optionsOf = (by: Config) => {
    return { plain, foreignKeys: by.foreignKeys, context: keyContextOf(by, deps.now()) };
  };
  const lines = values.map((value, index) => ({ at: `records[${index}]`, value }));
  const edit = await prepareImport(deps.keys.records(), lines, optionsOf(config));
  if (dryRun) {
    const judged = await judgeKeyEdit(deps.keys, edit);
    return judged.ok ? jsonResponse(200, counts(judged)) : refusalResponse(judged, deps);
  }
  const edited = await applyEdit(request, (records) => {
    // A reload during the preparation may have taken a plan away.
    const now = deps.config();
    return now === config ? edit(records) : importNow(records, lines, optionsOf(now));
  });
  if (!edited.ok) return edited.response;
  return jsonResponse(200, counts(edited.value));
}

function counts({ keys, accounts, known, ended, differing }: ImportCounts) {
  return { keys, accounts, known, ended, differing: differing.length };
}
