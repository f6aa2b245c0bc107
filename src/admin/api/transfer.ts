import { inSlices } from "../../base/event-loop.ts";
import type { Config } from "../../config/config.ts";
import { recordLines } from "../../stores/keys/file/export-records.ts";
import {
  type ImportCounts,
  importNow,
  prepareImport,
} from "../../stores/keys/file/import-records.ts";
import { judgeKeyEdit, keyContextOf } from "../../stores/keys/key-store.ts";
import { type AdminResponse, jsonResponse } from "../http/response.ts";
import { type ApiRequest, applyEdit, refusalResponse } from "./api-request.ts";
import { parseImport } from "./request-bodies.ts";

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
    return judged.ok ? jsonResponse(200, counts(judged)) : refusalResponse(judged);
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
