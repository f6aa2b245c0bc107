import { parseDuration } from "../../config/schema/units.ts";
import type { AccountChange } from "../../core/keys/edit-accounts.ts";
import { type KeyChange, ROTATION_GRACE_MS } from "../../core/keys/edit-keys.ts";
import { isValidPeriod, reasonError } from "../../core/keys/edit-rules.ts";
import type { NewKeys } from "../../core/keys/new-keys.ts";
import { type BodyResult, problemResponse } from "../http/response.ts";

/** The members of a body in which the contract of its route finds no mistake. */
type Members = Readonly<Record<string, unknown>>;

/** The body of POST /api/keys. The edit of the records judges whether such keys may be issued. */
export function parseNewKeys(members: Members): NewKeys {
  const { expires, limits, caps, ...rest } = members as {
    readonly expires?: string;
    readonly limits?: Readonly<Record<string, number>>;
    readonly caps?: Readonly<Record<string, number>>;
  } & Omit<NewKeys, "limits" | "caps" | "expiresInMs">;
  return {
    ...rest,
    expiresInMs: durationIn(expires),
    limits: limits && limitList(limits),
    caps: caps && limitList(caps),
  };
}

/** The edit of the records judges the windows. */
function limitList<W extends string, L>(limits: Readonly<Record<string, L>>) {
  return Object.entries(limits).map(([window, limit]) => ({ window: window as W, limit }));
}

/** The body of PATCH /api/keys/ID; `"from": []` lets the key work from anywhere again, null drops a cap. */
export function parseKeyChange(members: Members): KeyChange {
  const { expires, caps, ...rest } = members as {
    readonly expires?: string;
    readonly caps?: Readonly<Record<string, number | null>>;
  } & Omit<KeyChange, "caps">;
  const expiresInMs = expires === "never" ? expires : durationIn(expires);
  return { ...rest, expiresInMs, caps: caps && limitList(caps) };
}

/** The body of PATCH /api/accounts and /api/accounts/ID; "" removes a metadata entry, null a limit. */
export function parseAccountChange(members: Members): AccountChange {
  const { limits, ...rest } = members as {
    readonly limits?: Readonly<Record<string, number | null>>;
  } & Omit<AccountChange, "limits">;
  return { ...rest, limits: limits && limitList(limits) };
}

/** The body of a suspension. */
export function parseSuspension(members: Members) {
  const { for: length, reason } = members as { for?: string; reason?: string };
  return { forMs: durationIn(length), reason };
}

/** The body of a ban: the account or one of its keys, the duration, and the reason. */
export function parseBanRequest(members: Members): BodyResult<{
  readonly id: string;
  readonly lengthMs: number;
  readonly reason: string | undefined;
}> {
  const { id, for: length, reason } = members as { id: string; for: string; reason?: string };
  const lengthMs = parseDuration(length) ?? 0;
  const wrong = isValidPeriod(lengthMs, 1)
    ? reasonError(reason)
    : `Cannot use the length ${length}: it must be from 1ms to 36525d`;
  if (wrong === undefined) return { ok: true, value: { id, lengthMs, reason } };
  return { ok: false, response: problemResponse("bad_request", wrong) };
}

/** The body of an import: the records of an export, or plain keys of another system. */
export function parseImport(members: Members) {
  type Import = { records: readonly unknown[]; plain?: boolean; dryRun?: boolean };
  const { records, plain = false, dryRun = false } = members as Import;
  return { records, plain, dryRun };
}

/** For how long the old key of a rotation still works (docs/reference/keys.md#rotation). */
export function parseGraceMs(members: Members): number {
  const { grace } = members as { grace?: string };
  return durationIn(grace) ?? ROTATION_GRACE_MS;
}

function durationIn(text: string | undefined): number | undefined {
  return text === undefined ? undefined : parseDuration(text);
}
