import { ID_PATTERN, type KeyRecord } from "../../core/keys/key.ts";
import { NAME_PATTERN, SCOPE_PATTERN } from "../../core/keys/keyring-rules.ts";
import { LIMIT_MAX, type Limit, WINDOWS } from "../../core/quota/windows.ts";
import { MemberReader } from "../files/damaged.ts";
import type { JsonPath } from "../files/json-place.ts";

const DIGEST_PATTERN = /^[0-9a-f]{64}$/;
const INSTANT_PATTERN = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,3})?Z$/;
const MEMBERS = [
  "id",
  "digest",
  "name",
  "plan",
  "environment",
  "account",
  "scopes",
  "limits",
  "created",
  "expires",
  "revoked",
  "replacedBy",
];

/** One record as it rests in a file or in Redis: one line of JSON, instants as people read them. */
export function recordText(record: KeyRecord): string {
  const { id, digest, name, plan, environment, account, scopes, limits } = record;
  const { createdMs, expiresMs, revokedMs, replacedBy } = record;
  return JSON.stringify({
    id,
    digest,
    name,
    plan,
    environment,
    account,
    scopes,
    limits: Object.fromEntries(limits.map(({ window, limit }) => [window, limit])),
    created: instant(createdMs),
    expires: instant(expiresMs),
    revoked: instant(revokedMs),
    replacedBy,
  });
}

function instant(atMs: number | undefined): string | undefined {
  return atMs === undefined ? undefined : new Date(atMs).toISOString();
}

/** Reads parsed records, noting what is wrong with each and ids and digests that come twice. */
export class RecordReader extends MemberReader {
  readonly records: KeyRecord[] = [];
  readonly #ids = new Set<string>();
  readonly #digests = new Set<string>();

  add(value: unknown, path: JsonPath): void {
    if (this.full) return;
    if (typeof value !== "object" || value === null) {
      this.note(path, "it must be a record of a key", value);
      return;
    }
    const record = this.#record(value, path);
    if (this.#ids.has(record.id)) {
      this.note([...path, "id"], "another key has the same id", record.id);
    }
    if (this.#digests.has(record.digest)) {
      this.note([...path, "digest"], "another key has the same digest", record.digest);
    }
    this.#ids.add(record.id);
    this.#digests.add(record.digest);
    this.records.push(record);
  }

  #record(value: unknown, path: JsonPath): KeyRecord {
    const found = this.object(value, path);
    for (const member of Object.keys(found)) {
      if (!MEMBERS.includes(member)) this.note([...path, member], "it is unknown", found[member]);
    }
    const at = (member: string): JsonPath => [...path, member];
    const id = (member: string) =>
      this.text(found[member], at(member), ID_PATTERN, "1 to 64 of A-Z a-z 0-9 . _ -");
    const some = (member: string) =>
      this.text(found[member], at(member), /^.{1,200}$/su, "a name of 1 to 200 characters");
    const { expires, revoked, replacedBy } = found;
    return {
      id: id("id"),
      digest: this.text(found.digest, at("digest"), DIGEST_PATTERN, "64 of 0-9 a-f"),
      name: this.text(found.name, at("name"), NAME_PATTERN, "a name of at most 200 characters"),
      plan: some("plan"),
      environment: some("environment"),
      account: id("account"),
      scopes: this.list(found.scopes, at("scopes")).map((scope, index) =>
        this.text(scope, [...path, "scopes", index], SCOPE_PATTERN, "a scope of a-z 0-9 . _ : / -"),
      ),
      limits: this.#limits(found.limits, at("limits")),
      createdMs: this.#instant(found.created, at("created")),
      ...(expires === undefined ? {} : { expiresMs: this.#instant(expires, at("expires")) }),
      ...(revoked === undefined ? {} : { revokedMs: this.#instant(revoked, at("revoked")) }),
      ...(replacedBy === undefined ? {} : { replacedBy: id("replacedBy") }),
    };
  }

  #limits(value: unknown, path: JsonPath): Limit[] {
    const found = this.object(value, path);
    for (const member of Object.keys(found)) {
      if (WINDOWS.some((window) => window === member)) continue;
      this.note([...path, member], `it must be one of ${WINDOWS.join(", ")}`, found[member]);
    }
    return WINDOWS.filter((window) => found[window] !== undefined).map((window) => {
      return { window, limit: this.whole(found[window], [...path, window], 1, LIMIT_MAX) };
    });
  }

  #instant(value: unknown, path: JsonPath): number {
    const text = this.text(value, path, INSTANT_PATTERN, "an instant as 2030-12-05T00:00:00.000Z");
    const atMs = Date.parse(text);
    if (text !== "" && Number.isNaN(atMs)) this.note(path, "there is no such instant", text);
    return Number.isNaN(atMs) ? 0 : atMs;
  }
}
