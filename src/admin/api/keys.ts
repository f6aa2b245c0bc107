import { errorMessage } from "../../base/messages.ts";
import { stranded } from "../../config/unserved-records.ts";
import { issueKeys, revokeKeys, rotateKey, updateKey } from "../../core/keys/edit-keys.ts";
import { findKeys } from "../../core/keys/find-records.ts";
import { digestKey } from "../../core/keys/key.ts";
import { issuedReport, keyReports, keyReportsWithLastUse } from "../../core/keys/record-reports.ts";
import type { KeyRecord, Records } from "../../core/keys/records.ts";
import { keyContextOf } from "../../stores/keys/key-store.ts";
import { type AdminResponse, jsonResponse } from "../http/response.ts";
import { type ApiRequest, applyEdit, refusalResponse, unknownIdResponse } from "./api-request.ts";
import { takePage } from "./pagination.ts";
import { parseGraceMs, parseKeyChange, parseNewKeys } from "./request-bodies.ts";

export async function listKeys(request: ApiRequest): Promise<AdminResponse> {
  const { deps, query } = request;
  const records = deps.keys.records();
  const account = query.get("account");
  const chosen =
    account === null ? records.keys : records.keys.filter((key) => key.account === account);
  const taken = takePage(chosen, { path: "/api/keys", query }, records.keys);
  if (!taken.ok) return taken.response;
  return taken.value.answer(await used(request, taken.value.page, records));
}

/** Adds to each key the day of its last use, if the store can be asked. */
async function used(
  { deps, onUnanswered }: ApiRequest,
  keys: readonly KeyRecord[],
  records: Records,
) {
  await deps.diagnostics.flushToStore(onUnanswered);
  const { activity } = deps.quotas;
  const lastUsed = await activity.lastUsed(keys.map(({ id }) => id)).catch(() => undefined);
  return lastUsed === undefined
    ? keyReports(keys, records)
    : keyReportsWithLastUse(keys, records, lastUsed);
}

/** The key with this ID; if the ID is an account, all of its keys. */
export async function showKeys(request: ApiRequest): Promise<AdminResponse> {
  const { deps, id } = request;
  const records = deps.keys.records();
  const found = findKeys(records, id);
  if (!found.ok) return refusalResponse(found, deps);
  const { key, keys } = found;
  const told = await used(request, key === undefined ? keys : [key], records);
  return jsonResponse(200, key === undefined ? told : told[0]);
}

/** The record of a key that the caller holds. */
export async function findKey(request: ApiRequest): Promise<AdminResponse> {
  const { deps, body } = request;
  const { key } = body as { key: string };
  const record = deps.keys.find(digestKey(key));
  if (record === undefined) return unknownIdResponse(deps);
  return jsonResponse(200, (await used(request, [record], deps.keys.records()))[0]);
}

/** Responds with 201 and the key, which is shown only once; an array if `count` was given. */
export async function createKeys(request: ApiRequest): Promise<AdminResponse> {
  const { deps, body } = request;
  const wanted = parseNewKeys(body);
  const context = keyContextOf(deps.config(), deps.now());
  const edited = await applyEdit(request, (records) => issueKeys(records, wanted, context));
  if (!edited.ok) return edited.response;
  const told = edited.value.issued.map(issuedReport);
  return jsonResponse(201, wanted.count === undefined ? told[0] : told);
}

/** Responds with 200 and the new key, which is shown only once, and the state of the old one. */
export async function rotateOne(request: ApiRequest): Promise<AdminResponse> {
  const { deps, id, body } = request;
  const options = { ...keyContextOf(deps.config(), deps.now()), graceMs: parseGraceMs(body) };
  const edited = await applyEdit(request, (records) => rotateKey(records, id, options));
  if (!edited.ok) return edited.response;
  const { issued, previous, records } = edited.value;
  return jsonResponse(200, {
    ...issuedReport(issued),
    previous: keyReports([previous], records)[0],
  });
}

/** Responds with the key; if the ID is an account, with the list of keys that were revoked. */
export async function revokeOne(request: ApiRequest): Promise<AdminResponse> {
  const { deps, id } = request;
  const edited = await applyEdit(request, (records) => revokeKeys(records, id, deps.now()));
  if (!edited.ok) return edited.response;
  const { revoked, one, records } = edited.value;
  const told = keyReports(revoked, records);
  return jsonResponse(200, one ? told[0] : told);
}

export async function patchKey(request: ApiRequest): Promise<AdminResponse> {
  const { deps, id, body } = request;
  const change = parseKeyChange(body);
  const edited = await applyEdit(request, (records) => updateKey(records, id, change, deps.now()));
  if (!edited.ok) return edited.response;
  const { changed, records } = edited.value;
  deps.log.info("key_changed", { key: changed.id });
  return jsonResponse(200, keyReports([changed], records)[0]);
}

/**
 * Makes every process of this gateway read the records now, because a command has changed them.
 * `read` is false if they cannot be read, so that the change is not known here; X-Tollgate-Missing
 * names the processes that have not answered. `withoutLimits` are the accounts whose plan this gateway
 * does not have: a reload may have dropped it since the command looked.
 */
export async function refreshKeys({ deps, onUnanswered }: ApiRequest): Promise<AdminResponse> {
  const failure = await deps.keys.refresh().then(() => undefined, errorMessage);
  await deps.spreadKeys(onUnanswered);
  const { ok, why = failure } = deps.keys.health();
  const read = failure === undefined;
  const withoutLimits = stranded(deps.config(), deps.keys.records().accounts).map(({ id }) => id);
  const told = { ok: ok && read, ...(why !== undefined && { why }), read };
  return jsonResponse(200, { ...told, withoutLimits });
}
