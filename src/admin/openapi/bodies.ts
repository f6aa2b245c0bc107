import { isObject } from "../../base/is-object.ts";
import {
  DURATION as DURATION_PATTERN,
  DURATION_WORDS,
  parseDuration,
} from "../../config/schema/units.ts";
import { arrayOf, BOOLEAN, mapOf, objectOf, orNull, type Schema, STRING } from "./schema.ts";

/**
 * A kind of member: its name in messages, its test and its schema; whether a message repeats a value
 * that does not fit. The edit of the records judges the rest.
 */
export type Kind = {
  readonly words: string;
  readonly fits: (value: unknown) => boolean;
  readonly schema: Schema;
  readonly isRepeated?: boolean;
};

const isText = (value: unknown) => typeof value === "string";
const isDuration = (value: unknown) =>
  typeof value === "string" && parseDuration(value) !== undefined;

/** Whether a value is an object, not an array, whose values pass the test. */
function isMapOf(value: unknown, fits: (member: unknown) => boolean): boolean {
  return isObject(value) && Object.values(value).every(fits);
}

function isRecordPatch(value: unknown): boolean {
  if (!isObject(value)) return false;
  const { record, before, after } = value;
  const isKind = record === "account" || record === "key";
  return isKind && (before === null || isText(before)) && isText(after);
}

const DURATION: Schema = { type: "string", pattern: DURATION_PATTERN.source, examples: ["90d"] };

export const KINDS = {
  text: { words: "a text", fits: isText, schema: STRING },
  texts: {
    words: "a list of texts",
    fits: (value) => Array.isArray(value) && value.every(isText),
    schema: arrayOf(STRING),
  },
  number: {
    words: "a number",
    fits: (value) => typeof value === "number",
    schema: { type: "number" },
  },
  duration: {
    words: DURATION_WORDS,
    fits: isDuration,
    schema: DURATION,
    isRepeated: true,
  },
  limits: {
    words: 'an object of numbers such as {"minute": 500}',
    fits: (value) => isMapOf(value, (limit) => typeof limit === "number"),
    schema: { ...mapOf({ type: "number" }), examples: [{ minute: 500 }] },
  },
  limitChanges: {
    words: 'an object of numbers, or null to drop one, such as {"minute": 500, "day": null}',
    fits: (value) => isMapOf(value, (limit) => limit === null || typeof limit === "number"),
    schema: { ...mapOf(orNull({ type: "number" })), examples: [{ minute: 500, day: null }] },
  },
  changes: {
    words: 'a list of {"record": "key" or "account", "before": a text or null, "after": a text}',
    fits: (value) => Array.isArray(value) && value.every(isRecordPatch),
    schema: arrayOf(
      objectOf({
        record: { type: "string", enum: ["account", "key"] },
        before: orNull(STRING),
        after: STRING,
      }),
    ),
  },
  list: { words: "a list", fits: Array.isArray, schema: { type: "array" } },
  flag: {
    words: "true or false",
    fits: (value) => typeof value === "boolean",
    schema: BOOLEAN,
  },
  meta: {
    words: 'an object of texts such as {"tenant": "42"}',
    fits: (value) => isMapOf(value, isText),
    schema: { ...mapOf(STRING), examples: [{ tenant: "42" }] },
  },
  expiry: {
    words: `${DURATION_WORDS}, or "never"`,
    fits: (value) => value === "never" || isDuration(value),
    schema: { anyOf: [DURATION, { const: "never" }] },
    isRepeated: true,
  },
} as const satisfies Record<string, Kind>;

/** The members of a body. The same shape reads a body and describes it. */
export type BodyShape = Readonly<Record<string, { kind: keyof typeof KINDS; required?: boolean }>>;

/** If the named account exists, its environment and plan are known already. */
export const NEW_KEYS_BODY = {
  environment: { kind: "text" },
  plan: { kind: "text" },
  name: { kind: "text" },
  account: { kind: "text" },
  expires: { kind: "duration" },
  limits: { kind: "limits" },
  meta: { kind: "meta" },
  scopes: { kind: "texts" },
  from: { kind: "texts" },
  caps: { kind: "limits" },
  anchor: { kind: "number" },
  count: { kind: "number" },
} as const satisfies BodyShape;

export const KEY_CHANGE_BODY = {
  name: { kind: "text" },
  expires: { kind: "expiry" },
  addScopes: { kind: "texts" },
  dropScopes: { kind: "texts" },
  from: { kind: "texts" },
  caps: { kind: "limitChanges" },
  dropCaps: { kind: "flag" },
} as const satisfies BodyShape;

export const ACCOUNT_CHANGE_BODY = {
  plan: { kind: "text" },
  limits: { kind: "limitChanges" },
  dropLimits: { kind: "flag" },
  meta: { kind: "meta" },
  anchor: { kind: "number" },
} as const satisfies BodyShape;

export const SUSPENSION_BODY = {
  for: { kind: "duration" },
  reason: { kind: "text" },
} as const satisfies BodyShape;

/** Windows by name; if absent, all current windows. */
export const RESET_BODY = { windows: { kind: "texts" } } as const satisfies BodyShape;

export const BAN_BODY = {
  id: { kind: "text", required: true },
  for: { kind: "duration", required: true },
  reason: { kind: "text" },
} as const satisfies BodyShape;

export const IMPORT_BODY = {
  records: { kind: "list", required: true },
  plain: { kind: "flag" },
  dryRun: { kind: "flag" },
} as const satisfies BodyShape;

export const RECORD_CHANGES_BODY = {
  changes: { kind: "changes", required: true },
} as const satisfies BodyShape;

export const FIND_BODY = { key: { kind: "text", required: true } } as const satisfies BodyShape;

export const ROTATION_BODY = { grace: { kind: "duration" } } as const satisfies BodyShape;

/** The schema of a body of this shape. */
export function bodySchema(shape: BodyShape): Schema {
  const members = Object.entries(shape);
  const required = members.filter(([, { required = false }]) => required).map(([name]) => name);
  return {
    type: "object",
    properties: Object.fromEntries(members.map(([name, { kind }]) => [name, KINDS[kind].schema])),
    ...(required.length > 0 && { required }),
    additionalProperties: false,
  };
}
