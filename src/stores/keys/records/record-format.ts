import { isCidr } from "../../../core/address.ts";
import {
  isLimited,
  LIMITED_WORDS,
  META_NAME_PATTERN,
  META_VALUE_PATTERN,
  NAME_PATTERN,
  SCOPE_PATTERN,
  sortLimits,
} from "../../../core/keys/edit-rules.ts";
import { maskKeys } from "../../../core/keys/key.ts";
import {
  type AccountLimit,
  type AccountRecord,
  ID_PATTERN,
  type KeyCaps,
  type KeyRecord,
  type Suspension,
} from "../../../core/keys/records.ts";
import { limitsByWindow } from "../../../core/keys/window-limits.ts";
import {
  ANCHOR_DAY_MAX,
  ANCHORS_MAX,
  type Anchor,
  type Calendar,
} from "../../../core/quota/calendar.ts";
import { DAY_MS } from "../../../core/quota/days.ts";
import { CAP_NUMBER_MAX, LIMIT_MAX, WINDOW_NAMES } from "../../../core/quota/windows.ts";
import { JsonMemberReader } from "../../files/damaged-file.ts";
import type { JsonPath } from "../../files/json-position.ts";

/** The version that is written. In version 1 each key had the terms of its account. */
export const RECORD_VERSION = 2;

const DIGEST_PATTERN = /^[0-9a-f]{64}$/;
const INSTANT_PATTERN = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,3})?Z$/;
const LEGACY_MEMBERS = ["plan", "limits"];
const KEY_MEMBERS = [
  ...["version", "id", "digest", "name", "environment", "account", "scopes", "from"],
  ...["created", "expires", "revoked", "caps", "replacedBy", "import"],
];
const ACCOUNT_MEMBERS = [
  ...["version", "id", "environment", "plan", "limits", "meta", "created", "suspended"],
  "anchors",
  "import",
];

/** One key as it is kept in a file or in Redis: one line of JSON, instants in a readable form. */
export function encodeKey(record: KeyRecord): string {
  const { id, digest, name, environment, account, scopes, from } = record;
  const { createdMs, expiresMs, revokedMs, caps, replacedBy, importId } = record;
  return JSON.stringify({
    version: RECORD_VERSION,
    id,
    digest,
    name,
    environment,
    account,
    scopes,
    from: from.length === 0 ? undefined : from,
    created: instant(createdMs),
    expires: instant(expiresMs),
    revoked: instant(revokedMs),
    caps: caps && {
      number: caps.number,
      dropped: instant(caps.droppedMs),
      ...limitsByWindow(caps.limits),
    },
    replacedBy,
    import: importId,
  });
}

/** One account, in the same form. */
export function encodeAccount(record: AccountRecord): string {
  const { id, environment, plan, limits, meta, createdMs, suspended, calendar, importId } = record;
  return JSON.stringify({
    version: RECORD_VERSION,
    id,
    environment,
    plan,
    limits: limitsByWindow(limits),
    meta: Object.keys(meta).length === 0 ? undefined : meta,
    created: instant(createdMs),
    suspended: suspended && {
      since: instant(suspended.sinceMs),
      until: instant(suspended.untilMs),
      reason: suspended.reason,
    },
    import: importId,
    anchors: calendar?.map(({ day, fromMs }) => ({ day, from: instant(fromMs) })),
  });
}

function instant(atMs: number | undefined): string | undefined {
  return atMs === undefined ? undefined : new Date(atMs).toISOString();
}

/** The terms of its account that a key of version 1 had. */
export type LegacyAccountFields = {
  readonly plan: string;
  readonly limits: readonly AccountLimit[];
};

/** Shared by all records whose lists and objects are empty: 100,000 of each would be 10 MB. */
const NONE: readonly never[] = [];
const NO_META: Readonly<Record<string, string>> = {};

/** Reads the members of one record, and notes the mistakes in them. */
export class RecordReader extends JsonMemberReader {
  /** One shared string for each name that is frequent. */
  readonly #names = new Map<string, string>();

  /** `legacy` is present if the record is of version 1. */
  key(
    value: unknown,
    path: JsonPath,
  ): { readonly record: KeyRecord; readonly legacy: LegacyAccountFields | undefined } {
    const found = this.#members(value, path, KEY_MEMBERS, "key");
    const at = (member: string): JsonPath => [...path, member];
    const { expires, revoked, caps, replacedBy, scopes, from = NONE } = found;
    const record: KeyRecord = {
      id: this.#id(found.id, at("id")),
      digest: this.text(found.digest, at("digest"), DIGEST_PATTERN, "64 of 0-9 a-f"),
      name: this.text(found.name, at("name"), NAME_PATTERN, "a name of at most 200 characters"),
      environment: this.#common(found.environment, at("environment")),
      account: this.#id(found.account, at("account")),
      scopes: this.#texts(scopes, at("scopes"), (text) => SCOPE_PATTERN.test(text), "a scope"),
      from: this.#texts(from, at("from"), isCidr, "a network such as 10.0.0.0/8"),
      createdMs: this.#instant(found.created, at("created")),
      ...(expires === undefined ? {} : { expiresMs: this.#instant(expires, at("expires")) }),
      ...(revoked === undefined ? {} : { revokedMs: this.#instant(revoked, at("revoked")) }),
      ...(caps === undefined ? {} : { caps: this.#caps(caps, at("caps")) }),
      ...(replacedBy === undefined ? {} : { replacedBy: this.#id(replacedBy, at("replacedBy")) }),
      ...this.#import(found.import, at("import")),
    };
    if (found.version !== undefined) return { record, legacy: undefined };
    const plan = this.#common(found.plan, at("plan"));
    return { record, legacy: { plan, limits: this.#limits(found.limits, at("limits")) } };
  }

  account(value: unknown, path: JsonPath): AccountRecord {
    const found = this.#members(value, path, ACCOUNT_MEMBERS, "account");
    const at = (member: string): JsonPath => [...path, member];
    const { meta, suspended, anchors } = found;
    return {
      id: this.#id(found.id, at("id")),
      environment: this.#common(found.environment, at("environment")),
      plan: this.#common(found.plan, at("plan")),
      limits: this.#limits(found.limits, at("limits")),
      meta: meta === undefined ? NO_META : this.#meta(meta, at("meta")),
      createdMs: this.#instant(found.created, at("created")),
      ...(suspended === undefined
        ? {}
        : { suspended: this.#suspension(suspended, at("suspended")) }),
      ...this.#import(found.import, at("import")),
      ...(anchors === undefined ? {} : { calendar: this.#calendar(anchors, at("anchors")) }),
    };
  }

  /** A line of an export names its kind by `record`, and may be put into the store with that. */
  #members(
    value: unknown,
    path: JsonPath,
    names: readonly string[],
    kind: "key" | "account",
  ): Record<string, unknown> {
    const found = this.object(value, path);
    const { version } = found;
    if (version !== undefined && version !== RECORD_VERSION) {
      this.noteVersion([...path, "version"], `version ${RECORD_VERSION}`, version);
      return found;
    }
    const known = version === undefined ? [...names, ...LEGACY_MEMBERS] : names;
    for (const member of Object.keys(found)) {
      if (member === "record" && found.record === kind) continue;
      // The name of a member may be anything, even a key.
      if (!known.includes(member)) this.note([...path, maskKeys(member)], "it is unknown", "…");
    }
    return found;
  }

  #id(value: unknown, path: JsonPath): string {
    return this.text(value, path, ID_PATTERN, "1 to 64 of A-Z a-z 0-9 . _ -");
  }

  /** Many records have the same one. */
  #import(value: unknown, path: JsonPath): { importId?: string } {
    return value === undefined ? {} : { importId: this.#shared(this.#id(value, path)) };
  }

  /** The name of an environment or a plan. */
  #common(value: unknown, path: JsonPath): string {
    return this.#shared(this.text(value, path, /^.{1,200}$/su, "a name of 1 to 200 characters"));
  }

  #shared(text: string): string {
    const known = this.#names.get(text);
    if (known !== undefined) return known;
    this.#names.set(text, text);
    return text;
  }

  #texts(
    value: unknown,
    path: JsonPath,
    fits: (text: string) => boolean,
    wanted: string,
  ): readonly string[] {
    const list = this.list(value, path);
    if (list.length === 0) return NONE;
    return list.map((item, index) => {
      if (typeof item === "string" && fits(item)) return item;
      this.note([...path, index], `it must be ${wanted}`, item);
      return "";
    });
  }

  #limits(value: unknown, path: JsonPath): readonly AccountLimit[] {
    const found = this.object(value, path);
    const members = Object.keys(found);
    if (members.length === 0) return NONE;
    for (const member of members) {
      if (isLimited(member)) continue;
      this.note([...path, member], `it must be one of ${LIMITED_WORDS}`, found[member]);
    }
    const limits = members.filter(isLimited).map((window) => {
      return { window, limit: this.integer(found[window], [...path, window], 1, LIMIT_MAX) };
    });
    return sortLimits(limits);
  }

  #caps(value: unknown, path: JsonPath): KeyCaps {
    const { number, dropped, ...windows } = this.object(value, path);
    const limits = this.#limits(windows, path);
    if (
      (limits.length === 0) !== (dropped !== undefined) ||
      limits.some(({ window }) => !WINDOW_NAMES.some((name) => name === window))
    ) {
      this.note(path, `it must have windows of ${WINDOW_NAMES.join(", ")}`, value);
    }
    return {
      number: this.integer(number, [...path, "number"], 0, CAP_NUMBER_MAX),
      limits: limits as KeyCaps["limits"],
      ...(dropped === undefined ? {} : { droppedMs: this.#instant(dropped, [...path, "dropped"]) }),
    };
  }

  #meta(value: unknown, path: JsonPath): Readonly<Record<string, string>> {
    // Earlier builds wrote an empty value for a name without one.
    const entries = Object.entries(this.object(value, path)).filter(([, text]) => text !== "");
    for (const [name, text] of entries) {
      const wanted = "1 to 256 visible ASCII characters under a name of 1 to 32 of a-z 0-9 -";
      const isNamed = META_NAME_PATTERN.test(name);
      this.text(isNamed ? text : undefined, [...path, name], META_VALUE_PATTERN, wanted);
    }
    return Object.fromEntries(entries) as Record<string, string>;
  }

  #suspension(value: unknown, path: JsonPath): Suspension {
    const { since, until, reason } = this.object(value, path);
    return {
      sinceMs: this.#instant(since, [...path, "since"]),
      ...(until === undefined ? {} : { untilMs: this.#instant(until, [...path, "until"]) }),
      reason: this.text(reason, [...path, "reason"], NAME_PATTERN, "at most 200 characters"),
    };
  }

  #calendar(value: unknown, path: JsonPath): Calendar {
    const anchors = this.list(value, path).map((item, index): Anchor => {
      const at = [...path, index];
      const { day, from } = this.object(item, at);
      const fromMs = this.#instant(from, [...at, "from"]);
      if (fromMs % DAY_MS !== 0) this.note([...at, "from"], "it must be 00:00 UTC", from);
      return { day: this.integer(day, [...at, "day"], 1, ANCHOR_DAY_MAX), fromMs };
    });
    const isSorted = anchors.every(({ fromMs }, i) => i === 0 || fromMs > anchors[i - 1]!.fromMs);
    if (anchors.length === 0 || anchors.length > ANCHORS_MAX || !isSorted) {
      this.note(path, `it must have 1 to ${ANCHORS_MAX} anchors, the earliest first`, value);
    }
    return anchors;
  }

  #instant(value: unknown, path: JsonPath): number {
    const text = this.text(value, path, INSTANT_PATTERN, "an instant as 2030-12-05T00:00:00.000Z");
    const atMs = Date.parse(text);
    if (text !== "" && Number.isNaN(atMs)) this.note(path, "there is no such instant", text);
    return Number.isNaN(atMs) ? 0 : atMs;
  }
}
