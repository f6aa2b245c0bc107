import {
  arrayOf,
  BOOLEAN,
  COUNT,
  FRACTIONAL_SECONDS,
  mapOf,
  NUMBER,
  objectOf,
  orNull,
  type Schema,
  SECONDS,
  STRING,
  schemaRef,
} from "./schema.ts";

const KEY = {
  id: STRING,
  name: STRING,
  plan: STRING,
  environment: STRING,
  account: STRING,
  scopes: arrayOf(STRING),
  from: { ...arrayOf(STRING), description: "CIDRs; empty: it works from anywhere" },
  limits: { ...mapOf(COUNT), description: "The account's own, in place of its plan's" },
  caps: { ...mapOf(COUNT), description: "Limits of this key alone, by window" },
  created: SECONDS,
  expires: orNull(SECONDS),
  revoked: orNull(SECONDS),
};

const USED_KEY = {
  ...KEY,
  lastUsed: { ...orNull(STRING), description: "The last day of UTC on which it was used" },
};

const ISSUED_KEY = { ...KEY, key: { ...STRING, description: "The key itself: told this once" } };

const ACCOUNT = { account: STRING, environment: STRING };

const BAN = { ...ACCOUNT, until: SECONDS, offences: COUNT };

/** Absent unless a gateway alone knows the ban. */
const LOST = {
  const: true,
  description: "This gateway refuses by it, and the store does not have it",
};

const WINDOW = {
  window: {
    ...STRING,
    description: "Such as day, createPet.minute of one operation, or key.day of one key",
  },
  limit: COUNT,
  used: COUNT,
  remaining: COUNT,
  reset: SECONDS,
};

const BILLED_WINDOW = {
  ...WINDOW,
  included: { ...COUNT, description: "Units in the price of the plan" },
  overage: { ...COUNT, description: "Units above them" },
};

const CHECK = objectOf({ ok: BOOLEAN, why: STRING }, ["why"]);

const STRIKES = arrayOf(objectOf({ at: SECONDS }));

const EXPLAINED_WINDOW = objectOf({ ...WINDOW, from: SECONDS, exhausted: BOOLEAN });

const EXPLANATION = {
  id: STRING,
  environment: orNull(STRING),
  account: orNull(STRING),
  key: orNull(STRING),
  plan: orNull(STRING),
  request: { ...STRING, description: "Method and path" },
  status: COUNT,
  code: orNull(STRING),
  rule: { ...STRING, description: "The rule that decided, in words" },
  cost: orNull(COUNT),
  charged: COUNT,
  window: orNull(EXPLAINED_WINDOW),
  windows: arrayOf(EXPLAINED_WINDOW),
  strikes: orNull(COUNT),
  ban: orNull(
    objectOf({
      until: SECONDS,
      imposed: { ...orNull(BOOLEAN), description: "By hand; null: not known here" },
      reason: orNull(STRING),
    }),
  ),
  decidedAt: orNull(FRACTIONAL_SECONDS),
  decidedBy: orNull(STRING),
  config: orNull(STRING),
  passesAt: { ...orNull(FRACTIONAL_SECONDS), description: "Null: it never would" },
};

const LIMITS = arrayOf(objectOf({ window: STRING, limit: COUNT }));

const MISTAKE = objectOf({ file: STRING, line: COUNT, column: COUNT, message: STRING });

/** The schemas of all responses, as on the command line (docs/reference/commands.md#json). */
export const RESPONSE_SCHEMAS = {
  Problem: objectOf(
    {
      code: STRING,
      message: STRING,
      status: COUNT,
      environment: {
        ...STRING,
        description: "The one that has the ID, if the request names another one",
      },
      reasons: arrayOf(STRING),
      mistakes: arrayOf(MISTAKE),
    },
    ["environment", "reasons", "mistakes"],
  ),
  Key: objectOf(USED_KEY, ["lastUsed"]),
  IssuedKey: objectOf(ISSUED_KEY),
  RotatedKey: objectOf({ ...ISSUED_KEY, previous: schemaRef("Key") }),
  Account: objectOf({
    ...ACCOUNT,
    plan: STRING,
    limits: mapOf(COUNT),
    meta: mapOf(STRING),
    anchor: { ...COUNT, description: "The day of the month on which its months begin" },
    anchorFrom: { ...orNull(SECONDS), description: "Null: they begin on it already" },
    state: { enum: ["active", "suspended"] },
    suspended: orNull(objectOf({ since: SECONDS, until: orNull(SECONDS), reason: STRING })),
    created: SECONDS,
    keys: { ...arrayOf(STRING), description: "Ids of its keys that work" },
    names: { ...arrayOf(STRING), description: "Of its keys, at most ten" },
  }),
  Plan: objectOf({
    plan: STRING,
    custom: BOOLEAN,
    limits: LIMITS,
    observe: LIMITS,
    included: LIMITS,
    meters: { ...mapOf(LIMITS), description: "The windows of each meter; none without a limit" },
    concurrent: orNull(COUNT),
    environments: { ...mapOf(COUNT), description: "Accounts by environment" },
    accounts: COUNT,
  }),
  Ban: objectOf({ ...BAN, lost: LOST }, ["lost"]),
  BanReasons: objectOf({
    ...ACCOUNT,
    strikes: COUNT,
    ban: orNull(
      objectOf({
        until: SECONDS,
        offences: COUNT,
        at: orNull(SECONDS),
        imposed: { ...orNull(BOOLEAN), description: "By hand; null: not known" },
        reason: orNull(STRING),
        strikes: STRIKES,
      }),
    ),
    lost: {
      ...orNull(objectOf({ until: SECONDS, offences: COUNT })),
      description: "A ban by which this gateway refuses although the store has none",
    },
    bans: arrayOf(
      objectOf(
        {
          ...BAN,
          window: STRING,
          at: SECONDS,
          until: SECONDS,
          lifted: SECONDS,
          replaced: SECONDS,
          observed: { const: true },
          imposed: { const: true },
          reason: STRING,
          strikes: STRIKES,
        },
        ["lifted", "replaced", "observed", "imposed", "reason"],
      ),
    ),
  }),
  Lifted: objectOf({ ...ACCOUNT, lifted: { const: true } }),
  Usage: objectOf(
    {
      ...ACCOUNT,
      plan: STRING,
      windows: arrayOf(objectOf(BILLED_WINDOW, ["included", "overage"])),
      observed: { ...arrayOf(objectOf(WINDOW)), description: "Limits that only observe" },
      strikes: COUNT,
      ban: orNull(objectOf({ until: SECONDS, offences: COUNT, lost: LOST }, ["lost"])),
    },
    ["observed"],
  ),
  Counts: objectOf(
    {
      ...ACCOUNT,
      plan: STRING,
      created: { ...orNull(COUNT), description: "Unix milliseconds; null for an address" },
      at: { ...COUNT, description: "When the store was asked, in Unix milliseconds of its clock" },
      moved: {
        const: true,
        description:
          "A window or the ban was in the future and is told as of now: the clock went back",
      },
      windows: arrayOf(
        objectOf(
          {
            ...{ window: STRING, used: COUNT, from: COUNT, to: COUNT, keys: arrayOf(STRING) },
            formerKeys: {
              ...arrayOf(STRING),
              description: "Keys that it may have counted before their caps were changed",
            },
          },
          ["keys", "formerKeys"],
        ),
      ),
    },
    ["moved"],
  ),
  DayUsage: objectOf(
    {
      ...ACCOUNT,
      plan: { ...STRING, description: "The plan of its last request of that day" },
      day: { ...STRING, description: "2026-10-21, of UTC" },
      admitted: COUNT,
      units: COUNT,
      refused: COUNT,
      overage: { ...COUNT, description: "Of a month: units above those in its price" },
      overageUnknown: {
        ...STRING,
        description: "In place of overage: why it is unknown, such as days that are no longer kept",
      },
      meters: { ...mapOf(COUNT), description: "Units of each meter that it used" },
    },
    ["overage", "overageUnknown", "meters"],
  ),
  Reset: objectOf({
    ...ACCOUNT,
    windows: arrayOf(objectOf({ window: STRING, units: COUNT })),
  }),
  Imported: objectOf({
    ...{ keys: COUNT, accounts: COUNT, known: COUNT, ended: COUNT, differing: COUNT },
  }),
  Changed: objectOf({ changed: COUNT }),
  Records: objectOf({
    id: { ...orNull(STRING), description: "The same wherever the same records are" },
    place: { ...STRING, description: "The file, or the address and prefix in Redis" },
    damaged: { ...arrayOf(STRING), description: "Each damaged record with its place" },
  }),
  Refreshed: objectOf(
    {
      ...{ ok: BOOLEAN, why: STRING, read: BOOLEAN },
      withoutLimits: {
        ...arrayOf(STRING),
        description: "Accounts whose plan this gateway does not have: their requests get 503",
      },
    },
    ["why"],
  ),
  Explanation: objectOf(EXPLANATION),
  OpenCharge: objectOf(
    {
      ...ACCOUNT,
      units: COUNT,
      decidedAt: { ...COUNT, description: "Unix milliseconds" },
      plan: STRING,
      config: { ...STRING, description: "The first 8 digits of the configuration's hash" },
      meters: { ...mapOf(COUNT), description: "What it holds of each meter" },
    },
    ["meters"],
  ),
  Deprecation: objectOf(
    {
      environment: STRING,
      method: STRING,
      route: STRING,
      sunset: orNull(SECONDS),
      daysLeft: orNull(COUNT),
      successor: orNull(STRING),
      accounts: {
        ...arrayOf(objectOf({ account: STRING, requests: COUNT, last: SECONDS })),
        description: "Absent if the store could not be asked",
      },
    },
    ["accounts"],
  ),
  Gateway: objectOf({
    name: STRING,
    version: STRING,
    config: { ...STRING, description: "The hash of its configuration" },
    started: SECONDS,
    requestsPerSecond: NUMBER,
    refusalsPerSecond: NUMBER,
    storeMs: { ...orNull(NUMBER), description: "How long the store took for its last message" },
    state: { enum: ["ready", "not ready", "draining", "silent"] },
    why: { ...orNull(STRING), description: "The checks that fail" },
    age: { ...COUNT, description: "Seconds since its last message" },
    self: { ...BOOLEAN, description: "Whether it is the one that answers" },
    differs: {
      ...arrayOf({ enum: ["version", "config"] }),
      description: "What is not as in most gateways",
    },
  }),
  Config: {
    type: "object",
    description:
      "By the keys of its file; durations as it has them, such as 90s, sizes in bytes, secrets ***",
    properties: {
      hash: STRING,
      environments: mapOf({ type: "object" }),
      plans: { type: "object" },
    },
    required: ["hash", "environments", "plans"],
  },
  LastReload: objectOf({ notReloaded: { type: "array", items: STRING } }),
  Reloaded: objectOf({ hash: STRING }),
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
        log: CHECK,
      },
      ["workers", "log"],
    ),
  }),
} as const satisfies Readonly<Record<string, Schema>>;

export type ResponseSchemaName = keyof typeof RESPONSE_SCHEMAS;
