import {
  COUNT,
  FINE_SECONDS,
  listOf,
  mapOf,
  named,
  objectOf,
  orNull,
  type Schema,
  SECONDS,
  TEXT,
  TRUTH,
} from "./schema.ts";

const KEY = {
  id: TEXT,
  name: TEXT,
  plan: TEXT,
  environment: TEXT,
  account: TEXT,
  scopes: listOf(TEXT),
  from: { ...listOf(TEXT), description: "CIDRs; empty: it works from anywhere" },
  limits: { ...mapOf(COUNT), description: "The account's own, in place of its plan's" },
  created: SECONDS,
  expires: orNull(SECONDS),
  revoked: orNull(SECONDS),
};

const USED_KEY = {
  ...KEY,
  lastUsed: { ...orNull(TEXT), description: "The last day of UTC on which it was used" },
};

const ISSUED_KEY = { ...KEY, key: { ...TEXT, description: "The key itself: told this once" } };

const BAN = { account: TEXT, environment: TEXT, until: SECONDS, offences: COUNT };

const WINDOW = {
  window: { ...TEXT, description: "Such as day, or createPet.minute of one operation" },
  limit: COUNT,
  used: COUNT,
  remaining: COUNT,
  reset: SECONDS,
};

const CHECK = objectOf({ ok: TRUTH, why: TEXT }, ["why"]);

const STRIKES = listOf(objectOf({ id: TEXT, at: FINE_SECONDS }));

const EXPLAINED_WINDOW = objectOf({ ...WINDOW, from: SECONDS, exhausted: TRUTH });

const EXPLANATION = {
  id: TEXT,
  environment: orNull(TEXT),
  account: orNull(TEXT),
  key: orNull(TEXT),
  plan: orNull(TEXT),
  request: { ...TEXT, description: "Method and path" },
  status: COUNT,
  code: orNull(TEXT),
  rule: { ...TEXT, description: "The rule that decided, in words" },
  cost: orNull(COUNT),
  charged: COUNT,
  window: orNull(EXPLAINED_WINDOW),
  windows: listOf(EXPLAINED_WINDOW),
  strikes: orNull(COUNT),
  ban: orNull(objectOf({ until: SECONDS })),
  decidedAt: orNull(FINE_SECONDS),
  decidedBy: orNull(TEXT),
  config: orNull(TEXT),
  passesAt: { ...orNull(FINE_SECONDS), description: "Null: it never would" },
};

const LIMITS = listOf(objectOf({ window: TEXT, limit: COUNT }));

const MISTAKE = objectOf({ file: TEXT, line: COUNT, column: COUNT, message: TEXT });

/** All that is answered, in the shapes of the command line (docs/reference/commands.md#json). */
export const ANSWERS = {
  Problem: objectOf(
    {
      code: TEXT,
      message: TEXT,
      status: COUNT,
      reasons: listOf(TEXT),
      mistakes: listOf(MISTAKE),
    },
    ["reasons", "mistakes"],
  ),
  Key: objectOf(USED_KEY, ["lastUsed"]),
  IssuedKey: objectOf(ISSUED_KEY),
  RotatedKey: objectOf({ ...ISSUED_KEY, previous: named("Key") }),
  Account: objectOf({
    account: TEXT,
    environment: TEXT,
    plan: TEXT,
    limits: mapOf(COUNT),
    meta: mapOf(TEXT),
    state: { enum: ["active", "suspended"] },
    suspended: orNull(objectOf({ since: SECONDS, until: orNull(SECONDS), reason: TEXT })),
    created: SECONDS,
    keys: { ...listOf(TEXT), description: "Ids of its keys that work" },
    names: { ...listOf(TEXT), description: "Of its keys, at most ten" },
  }),
  Plan: objectOf({
    plan: TEXT,
    custom: TRUTH,
    limits: LIMITS,
    observe: LIMITS,
    concurrent: orNull(COUNT),
    environments: { ...mapOf(COUNT), description: "Accounts by environment" },
    accounts: COUNT,
  }),
  Ban: objectOf(BAN),
  BanReasons: objectOf({
    account: TEXT,
    environment: TEXT,
    strikes: COUNT,
    ban: orNull(objectOf({ until: SECONDS, offences: COUNT })),
    bans: listOf(
      objectOf({
        ...BAN,
        window: TEXT,
        at: FINE_SECONDS,
        until: FINE_SECONDS,
        strikes: STRIKES,
      }),
    ),
  }),
  Lifted: objectOf({ account: TEXT, environment: TEXT, lifted: { const: true } }),
  Usage: objectOf(
    {
      account: TEXT,
      environment: TEXT,
      plan: TEXT,
      windows: listOf(objectOf(WINDOW)),
      observed: { ...listOf(objectOf(WINDOW)), description: "Limits that only observe" },
      strikes: COUNT,
      ban: orNull(objectOf({ until: SECONDS, offences: COUNT })),
    },
    ["observed"],
  ),
  DayUsage: objectOf({
    account: TEXT,
    environment: TEXT,
    plan: { ...TEXT, description: "The plan of the account now" },
    day: { ...TEXT, description: "2026-10-21, of UTC" },
    admitted: COUNT,
    units: COUNT,
    refused: COUNT,
  }),
  Reset: objectOf({
    account: TEXT,
    environment: TEXT,
    windows: listOf(objectOf({ window: TEXT, units: COUNT })),
  }),
  Imported: objectOf({ keys: COUNT, accounts: COUNT, known: COUNT, ended: COUNT }),
  Changed: objectOf({ changed: COUNT }),
  Refreshed: objectOf({ ok: TRUTH, why: TEXT }, ["why"]),
  Explanation: objectOf(EXPLANATION),
  OpenCharge: objectOf({
    account: TEXT,
    environment: TEXT,
    units: COUNT,
    decidedAt: { ...COUNT, description: "Unix milliseconds" },
  }),
  Deprecation: objectOf({
    environment: TEXT,
    method: TEXT,
    route: TEXT,
    sunset: orNull(SECONDS),
    daysLeft: orNull(COUNT),
    successor: orNull(TEXT),
    accounts: listOf(objectOf({ account: TEXT, requests: COUNT, last: SECONDS })),
  }),
  Config: {
    type: "object",
    description: "By the keys of its file; durations in milliseconds, sizes in bytes, secrets ***",
    properties: { hash: TEXT, environments: mapOf({ type: "object" }), plans: { type: "object" } },
    required: ["hash", "environments", "plans"],
  },
  Reloaded: objectOf({ hash: TEXT }),
  Description: { type: "object", required: ["openapi", "info", "paths", "components"] },
  Readiness: objectOf({
    status: { enum: ["ready", "not ready"] },
    checks: objectOf(
      {
        config: CHECK,
        store: CHECK,
        keys: CHECK,
        upstreams: CHECK,
        draining: CHECK,
        workers: CHECK,
      },
      ["workers"],
    ),
  }),
} as const satisfies Readonly<Record<string, Schema>>;

export type AnswerName = keyof typeof ANSWERS;
