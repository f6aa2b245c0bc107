import { randomInt } from "node:crypto";
import {
  findKeys,
  type IssuedKey,
  issueKeys,
  type KeyringRefusal,
  revokeKey,
  rotateKey,
} from "../../core/keys/keyring.ts";
import type { Keyring } from "../../core/keys/keyring-rules.ts";
import { keyReport } from "../../core/keys/report.ts";
import type { Edit } from "../../stores/interface/key-store.ts";
import {
  type Answer,
  json,
  problem,
  RETRY,
  type Read,
  reasonOf,
  unknownId,
} from "../http/answer.ts";
import type { ApiDeps, Call } from "./call.ts";
import { readGraceMs, readNothing, readWantedKeys } from "./members.ts";

export function listKeys({ deps }: Call): Answer {
  return json(200, deps.keys.list().map(keyReport));
}

/** A key as it is; for an account, all of its keys. */
export function showKeys({ deps, id }: Call): Answer {
  const found = findKeys(deps.keys.list(), id);
  if (!found.ok) return refusalAnswer(found);
  const { key, keys } = found;
  return json(200, key === undefined ? keys.map(keyReport) : keyReport(key));
}

/** 201 and the key, this once; an array when `count` was given, as with the command line. */
export async function createKeys({ deps, members }: Call): Promise<Answer> {
  const wanted = readWantedKeys(members);
  if (!wanted.ok) return wanted.answer;
  const edited = await change(deps, (records) => issueKeys(records, wanted.value, ringOf(deps)));
  if (!edited.ok) return edited.answer;
  for (const { record } of edited.value.issued) {
    const { id, account, environment, plan } = record;
    deps.log.info("key_issued", { key: id, account, env: environment, plan });
  }
  const told = edited.value.issued.map(tellIssued);
  return json(201, wanted.value.count === undefined ? told[0] : told);
}

/** 200 and the new key, this once, with what becomes of the old one. */
export async function rotate({ deps, id, members }: Call): Promise<Answer> {
  const grace = readGraceMs(members);
  if (!grace.ok) return grace.answer;
  const edited = await change(deps, (records) =>
    rotateKey(records, id, { ...ringOf(deps), graceMs: grace.value }),
  );
  if (!edited.ok) return edited.answer;
  const { issued, previous } = edited.value;
  deps.log.info("key_rotated", { key: previous.id, successor: issued.record.id });
  return json(200, { ...tellIssued(issued), previous: keyReport(previous) });
}

export async function revoke({ deps, id, members }: Call): Promise<Answer> {
  const nothing = readNothing(members);
  if (!nothing.ok) return nothing.answer;
  const edited = await change(deps, (records) => revokeKey(records, id, deps.now()));
  if (!edited.ok) return edited.answer;
  deps.log.info("key_revoked", { key: edited.value.revoked.id });
  return json(200, keyReport(edited.value.revoked));
}

function tellIssued({ key, record }: IssuedKey) {
  const { id, ...rest } = keyReport(record);
  return { id, key, ...rest };
}

function ringOf({ config, now }: ApiDeps): Keyring {
  const { keyPrefix, environments, plans } = config();
  return { keyPrefix, environments, plans, random: (max) => randomInt(max), nowMs: now() };
}

type Edited = { readonly ok: true; readonly records: Parameters<Edit<unknown>>[0] };

/** Puts a pure edit to the store; an edit that is refused changes nothing. */
async function change<T extends Edited>(
  deps: ApiDeps,
  edit: (records: Parameters<Edit<unknown>>[0]) => T | KeyringRefusal,
): Promise<Read<T>> {
  let result: T | KeyringRefusal;
  try {
    result = await deps.keys.change((records) => {
      const edited = edit(records);
      return { records: edited.ok ? edited.records : records, result: edited };
    });
  } catch (error) {
    deps.log.error("keys_unchanged", { why: reasonOf(error) });
    const message = "The key records could not be changed: the log says why";
    return { ok: false, answer: problem("store_unavailable", message, RETRY) };
  }
  return result.ok ? { ok: true, value: result } : { ok: false, answer: refusalAnswer(result) };
}

const CODES = { usage: "bad_request", refused: "conflict" } as const;

/** An unknown ID is not repeated: somebody may have sent a key. */
function refusalAnswer({ because, message }: KeyringRefusal): Answer {
  return because === "unknown" ? unknownId() : problem(CODES[because], message);
}
