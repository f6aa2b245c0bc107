import { findKeys } from "../../core/keys/find.ts";
import { digestKey } from "../../core/keys/key.ts";
import { issueKeys, revokeKeys, rotateKey, setKey } from "../../core/keys/keyring.ts";
import type { KeyRecord, Records } from "../../core/keys/records.ts";
import { issuedReport, keyReports, usedReports } from "../../core/keys/report.ts";
import { ringOf } from "../../stores/interface/edit-keys.ts";
import { type Answer, json, unknownId } from "../http/answer.ts";
import type { ApiDeps, Call } from "./call.ts";
import { change, refusalAnswer } from "./edit.ts";
import { readGraceMs, readKeyChange, readNothing, readToken, readWantedKeys } from "./members.ts";
import { takePage } from "./pages.ts";

export async function listKeys({ deps, query }: Call): Promise<Answer> {
  const records = deps.keys.records();
  const account = query.get("account");
  const chosen =
    account === null ? records.keys : records.keys.filter((key) => key.account === account);
  const taken = takePage(chosen, { path: "/api/keys", query });
  if (!taken.ok) return taken.answer;
  return taken.value.answer(await used(deps, taken.value.page, records));
}

/** Keys with the day on which each was used last, where the store can be asked. */
async function used(deps: ApiDeps, keys: readonly KeyRecord[], records: Records) {
  await deps.recall.tellStore();
  const { notes } = deps.quotas;
  const lastUsed = await notes.lastUsed(keys.map(({ id }) => id)).catch(() => new Map());
  return usedReports(keys, records, lastUsed);
}

/** A key as it is; for an account, all of its keys. */
export async function showKeys({ deps, id }: Call): Promise<Answer> {
  const records = deps.keys.records();
  const found = findKeys(records, id);
  if (!found.ok) return refusalAnswer(found);
  const { key, keys } = found;
  const told = await used(deps, key === undefined ? keys : [key], records);
  return json(200, key === undefined ? told : told[0]);
}

/** The record of a key that somebody has. */
export async function findKey({ deps, members }: Call): Promise<Answer> {
  const token = readToken(members);
  if (!token.ok) return token.answer;
  const record = deps.keys.find(digestKey(token.value));
  if (record === undefined) return unknownId();
  return json(200, (await used(deps, [record], deps.keys.records()))[0]);
}

/** 201 and the key, this once; an array when `count` was given, as with the command line. */
export async function createKeys({ deps, members }: Call): Promise<Answer> {
  const wanted = readWantedKeys(members);
  if (!wanted.ok) return wanted.answer;
  const ring = ringOf(deps.config(), deps.now());
  const edited = await change(deps, (records) => issueKeys(records, wanted.value, ring));
  if (!edited.ok) return edited.answer;
  const told = edited.value.issued.map(issuedReport);
  return json(201, wanted.value.count === undefined ? told[0] : told);
}

/** 200 and the new key, this once, with what becomes of the old one. */
export async function rotate({ deps, id, members }: Call): Promise<Answer> {
  const grace = readGraceMs(members);
  if (!grace.ok) return grace.answer;
  const options = { ...ringOf(deps.config(), deps.now()), graceMs: grace.value };
  const edited = await change(deps, (records) => rotateKey(records, id, options));
  if (!edited.ok) return edited.answer;
  const { issued, previous, records } = edited.value;
  return json(200, { ...issuedReport(issued), previous: keyReports([previous], records)[0] });
}

/** The key; of an account a list of those that worked. */
export async function revoke({ deps, id, members }: Call): Promise<Answer> {
  const nothing = readNothing(members);
  if (!nothing.ok) return nothing.answer;
  const edited = await change(deps, (records) => revokeKeys(records, id, deps.now()));
  if (!edited.ok) return edited.answer;
  const { revoked, one, records } = edited.value;
  const told = keyReports(revoked, records);
  return json(200, one ? told[0] : told);
}

export async function setOneKey({ deps, id, members }: Call): Promise<Answer> {
  const wanted = readKeyChange(members);
  if (!wanted.ok) return wanted.answer;
  const edited = await change(deps, (records) => setKey(records, id, wanted.value, deps.now()));
  if (!edited.ok) return edited.answer;
  const { changed, records } = edited.value;
  deps.log.info("key_changed", { key: changed.id });
  return json(200, keyReports([changed], records)[0]);
}

/** Has every process of this gateway read the records now: a command has changed them. */
export async function refreshKeys({ deps, members }: Call): Promise<Answer> {
  const nothing = readNothing(members);
  if (!nothing.ok) return nothing.answer;
  await deps.keys.refresh().catch(() => undefined);
  await deps.spreadKeys();
  return json(200, deps.keys.health());
}
