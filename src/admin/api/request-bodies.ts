import { quoteValue } from "../../base/messages.ts";
import { parseDuration } from "../../config/schema/units.ts";
import type { AccountChange } from "../../core/keys/edit-accounts.ts";
import { type KeyChange, ROTATION_GRACE_MS } from "../../core/keys/edit-keys.ts";
import { isValidPeriod, type NewKeys } from "../../core/keys/edit-rules.ts";
import { containsKey, type ForeignKeyFormat } from "../../core/keys/key.ts";
import type { RecordPatch } from "../../stores/keys/file/record-patch.ts";
import { type AdminResponse, type BodyResult, problemResponse } from "../http/response.ts";
import {
  ACCOUNT_CHANGE_BODY,
  BAN_BODY,
  type BodyShape,
  EMPTY_BODY,
  FIND_BODY,
  IMPORT_BODY,
  KEY_CHANGE_BODY,
  KINDS,
  NEW_KEYS_BODY,
  RECORD_CHANGES_BODY,
  RESET_BODY,
  ROTATION_BODY,
  SUSPENSION_BODY,
} from "../openapi/bodies.ts";

type Members = Readonly<Record<string, unknown>>;

/** The body of POST /api/keys. The edit of the records judges whether such keys may be issued. */
export function parseNewKeys(members: Members): BodyResult<NewKeys> {
  // An account that exists already has an environment and a plan.
  const required = !Object.hasOwn(members, "account");
  const terms = { kind: "text", required } as const;
  const mistaken = mistakes(members, { ...NEW_KEYS_BODY, environment: terms, plan: terms });
  if (mistaken !== undefined) return { ok: false, response: mistaken };
  const { expires, limits, caps, ...rest } = members as {
    readonly expires?: string;
    readonly limits?: Readonly<Record<string, number>>;
    readonly caps?: Readonly<Record<string, number>>;
  } & Omit<NewKeys, "limits" | "caps" | "expiresInMs">;
  const expiresInMs = expires === undefined ? undefined : parseDuration(expires);
  return {
    ok: true,
    value: {
      ...rest,
      expiresInMs,
      limits: limits && limitList(limits),
      caps: caps && limitList(caps),
    },
  };
}

/** The edit of the records judges the windows. */
function limitList<W extends string, L>(limits: Readonly<Record<string, L>>) {
  return Object.entries(limits).map(([window, limit]) => ({ window: window as W, limit }));
}

/** The body of PATCH /api/keys/ID; `"from": []` lets the key work from anywhere again, null drops a cap. */
export function parseKeyChange(members: Members): BodyResult<KeyChange> {
  const mistaken = mistakes(members, KEY_CHANGE_BODY);
  if (mistaken !== undefined) return { ok: false, response: mistaken };
  const { expires, caps, ...rest } = members as {
    readonly expires?: string;
    readonly caps?: Readonly<Record<string, number | null>>;
  } & Omit<KeyChange, "caps">;
  const expiresInMs =
    expires === undefined ? undefined : expires === "never" ? "never" : parseDuration(expires);
  return { ok: true, value: { ...rest, expiresInMs, caps: caps && limitList(caps) } };
}

/** The body of PATCH /api/accounts and /api/accounts/ID; "" removes a metadata entry, null a limit. */
export function parseAccountChange(members: Members): BodyResult<AccountChange> {
  const mistaken = mistakes(members, ACCOUNT_CHANGE_BODY);
  if (mistaken !== undefined) return { ok: false, response: mistaken };
  const { limits, ...rest } = members as {
    readonly limits?: Readonly<Record<string, number | null>>;
  } & Omit<AccountChange, "limits">;
  return { ok: true, value: { ...rest, limits: limits && limitList(limits) } };
}

/** The body of a suspension. */
export function parseSuspension(
  members: Members,
): BodyResult<{ readonly forMs: number | undefined; readonly reason: string | undefined }> {
  const mistaken = mistakes(members, SUSPENSION_BODY);
  if (mistaken !== undefined) return { ok: false, response: mistaken };
  const { for: length, reason } = members as { for?: string; reason?: string };
  const forMs = length === undefined ? undefined : parseDuration(length);
  return { ok: true, value: { forMs, reason } };
}

/** The body of a reset: windows by name; undefined for all current windows. */
export function parseReset(members: Members): BodyResult<readonly string[] | undefined> {
  const mistaken = mistakes(members, RESET_BODY);
  if (mistaken !== undefined) return { ok: false, response: mistaken };
  return { ok: true, value: (members as { windows?: readonly string[] }).windows };
}

/** The body of a ban: the account or one of its keys, the duration, and the reason. */
export function parseBanRequest(members: Members): BodyResult<{
  readonly id: string;
  readonly lengthMs: number;
  readonly reason: string | undefined;
}> {
  const mistaken = mistakes(members, BAN_BODY);
  if (mistaken !== undefined) return { ok: false, response: mistaken };
  const { id, for: length, reason } = members as { id: string; for: string; reason?: string };
  const lengthMs = parseDuration(length) ?? 0;
  if (isValidPeriod(lengthMs, 1)) return { ok: true, value: { id, lengthMs, reason } };
  const message = `Cannot use the length ${length}: it must be from 1ms to 36525d`;
  return { ok: false, response: problemResponse("bad_request", message) };
}

/** The body of an import: the records of an export, or plain keys of another system. */
export function parseImport(members: Members): BodyResult<{
  readonly records: readonly unknown[];
  readonly plain: boolean;
  readonly dryRun: boolean;
}> {
  const mistaken = mistakes(members, IMPORT_BODY);
  if (mistaken !== undefined) return { ok: false, response: mistaken };
  const {
    records,
    plain = false,
    dryRun = false,
  } = members as {
    records: readonly unknown[];
    plain?: boolean;
    dryRun?: boolean;
  };
  return { ok: true, value: { records, plain, dryRun } };
}

/** The body of a change of records, sent by a process that cannot write them itself. */
export function parseRecordChanges(members: Members): BodyResult<readonly RecordPatch[]> {
  const mistaken = mistakes(members, RECORD_CHANGES_BODY);
  if (mistaken !== undefined) return { ok: false, response: mistaken };
  return { ok: true, value: (members as { changes: readonly RecordPatch[] }).changes };
}

/** The body of a search: the key itself. */
export function parseFind(members: Members): BodyResult<string> {
  const mistaken = mistakes(members, FIND_BODY);
  if (mistaken !== undefined) return { ok: false, response: mistaken };
  return { ok: true, value: (members as { key: string }).key };
}

/**
 * The body of a rotation: for how long the old key still works, by default 24 hours
 * (docs/reference/keys.md#rotation).
 */
export function parseGraceMs(members: Members): BodyResult<number> {
  const mistaken = mistakes(members, ROTATION_BODY);
  if (mistaken !== undefined) return { ok: false, response: mistaken };
  const { grace } = members as { grace?: string };
  return {
    ok: true,
    value: grace === undefined ? ROTATION_GRACE_MS : (parseDuration(grace) ?? ROTATION_GRACE_MS),
  };
}

/** For requests that need nothing but their path: a body may be absent or empty. */
export function parseEmptyBody(members: Members): BodyResult<undefined> {
  const mistaken = mistakes(members, EMPTY_BODY);
  return mistaken === undefined
    ? { ok: true, value: undefined }
    : { ok: false, response: mistaken };
}

/** Members that are meant to hold keys: of a search, and of an import, which keeps digests. */
const MAY_HOLD_KEYS: ReadonlySet<string> = new Set(["key", "records", "changes"]);

/**
 * Refuses a whole key as the name of a member, or in any other member, such as a name or a reason: it
 * would be kept, shown and logged (docs/reference/keys.md#keys-in-commands). The response does not
 * repeat it.
 */
export function refuseKeyIn(
  members: Members,
  foreignKeys: readonly ForeignKeyFormat[],
): AdminResponse | undefined {
  const names = Object.keys(members);
  if (names.some((name) => containsKey(name, foreignKeys))) {
    const message = "Cannot use the body: the name of a member is a whole key: leave it out";
    return problemResponse("bad_request", message);
  }
  const holder = names.find((name) => {
    return !MAY_HOLD_KEYS.has(name) && containsKey(JSON.stringify(members[name]), foreignKeys);
  });
  if (holder === undefined) return undefined;
  const message = `Cannot use the body: ${quoteValue(holder)} holds a whole key, which would be kept and shown: leave it out`;
  return problemResponse("bad_request", message);
}

/** Refuses a whole key as a value of the query: responses and links repeat such values. */
export function refuseKeyInQuery(
  query: URLSearchParams,
  foreignKeys: readonly ForeignKeyFormat[],
): AdminResponse | undefined {
  const [holder] = [...query].find(([, value]) => containsKey(value, foreignKeys)) ?? [];
  if (holder === undefined) return undefined;
  return problemResponse("bad_request", `Cannot use the query: ${holder} holds a whole key`);
}

/**
 * All mistakes of a body at once. Values are not repeated, because a caller may send a key in the
 * wrong place.
 */
function mistakes(members: Members, shape: BodyShape) {
  const known = Object.keys(shape);
  const found = Object.keys(members)
    .filter((name) => !known.includes(name))
    .map((name) => {
      const expected =
        known.length === 0 ? "there is none to send" : `expected ${known.join(", ")}`;
      return `${quoteValue(name)} is unknown (${expected})`;
    });
  for (const [name, { kind, required = false }] of Object.entries(shape)) {
    const { words: wanted, fits } = KINDS[kind];
    if (!Object.hasOwn(members, name)) {
      if (required) found.push(`"${name}" is required (${wanted})`);
    } else if (!fits(members[name])) found.push(`"${name}" must be ${wanted}`);
  }
  if (found.length === 0) return undefined;
  return problemResponse("bad_request", `Cannot use the body: ${found.slice(0, 20).join("; ")}`);
}
