import { readDuration } from "../../config/schema/units.ts";
import type { WantedKeys } from "../../core/keys/keyring-rules.ts";
import type { Limit, WindowName } from "../../core/quota/windows.ts";
import { problem, type Read } from "../http/answer.ts";

type Members = Readonly<Record<string, unknown>>;

/** The test for each kind of member. The rest is the keyring's to judge. */
const KINDS = {
  text: ["a text", (value: unknown) => typeof value === "string"],
  texts: [
    "a list of texts",
    (value: unknown) => Array.isArray(value) && value.every((item) => typeof item === "string"),
  ],
  number: ["a number", (value: unknown) => typeof value === "number"],
  duration: [
    "a duration such as 90d or 24h",
    (value: unknown) => typeof value === "string" && readDuration(value) !== undefined,
  ],
  limits: [
    'an object of numbers such as {"minute": 500}',
    (value: unknown) =>
      typeof value === "object" &&
      value !== null &&
      !Array.isArray(value) &&
      Object.values(value).every((limit) => typeof limit === "number"),
  ],
} as const satisfies Record<string, readonly [string, (value: unknown) => boolean]>;

type Shape = Readonly<Record<string, { kind: keyof typeof KINDS; required?: boolean }>>;

const KEYS_SHAPE = {
  environment: { kind: "text", required: true },
  plan: { kind: "text", required: true },
  name: { kind: "text" },
  account: { kind: "text" },
  expires: { kind: "duration" },
  limits: { kind: "limits" },
  scopes: { kind: "texts" },
  count: { kind: "number" },
} as const satisfies Shape;

/** The body of POST /api/keys. Whether such keys may be issued is the keyring's to say. */
export function readWantedKeys(members: Members): Read<WantedKeys> {
  const mistaken = mistakes(members, KEYS_SHAPE);
  if (mistaken !== undefined) return { ok: false, answer: mistaken };
  const { environment, plan, name, account, expires, limits, scopes, count } = members as {
    environment: string;
    plan: string;
    name?: string;
    account?: string;
    expires?: string;
    limits?: Record<string, number>;
    scopes?: string[];
    count?: number;
  };
  const listed =
    limits &&
    Object.entries(limits).map(([window, limit]): Limit => {
      return { window: window as WindowName, limit };
    });
  const expiresInMs = expires === undefined ? undefined : readDuration(expires);
  return {
    ok: true,
    value: { environment, plan, name, account, expiresInMs, limits: listed, scopes, count },
  };
}

const GRACE_MS = 86_400_000;

/**
 * The body of a rotation: how long the old key works on, 24 hours unless told
 * (docs/reference/keys.md#rotation).
 */
export function readGraceMs(members: Members): Read<number> {
  const mistaken = mistakes(members, { grace: { kind: "duration" } });
  if (mistaken !== undefined) return { ok: false, answer: mistaken };
  const { grace } = members as { grace?: string };
  return { ok: true, value: grace === undefined ? GRACE_MS : (readDuration(grace) ?? GRACE_MS) };
}

/** For requests that say all in their path: a body may be absent or empty. */
export function readNothing(members: Members): Read<undefined> {
  const mistaken = mistakes(members, {});
  return mistaken === undefined ? { ok: true, value: undefined } : { ok: false, answer: mistaken };
}

/** All mistakes at once. Values are not repeated: somebody may send a key where it does not belong. */
function mistakes(members: Members, shape: Shape) {
  const known = Object.keys(shape);
  const found = Object.keys(members)
    .filter((name) => !known.includes(name))
    .map((name) => {
      const expected =
        known.length === 0 ? "there is none to send" : `expected ${known.join(", ")}`;
      return `${JSON.stringify(name.slice(0, 20))} is unknown (${expected})`;
    });
  for (const [name, { kind, required = false }] of Object.entries(shape)) {
    const [wanted, fits] = KINDS[kind];
    if (!Object.hasOwn(members, name)) {
      if (required) found.push(`"${name}" is required (${wanted})`);
    } else if (!fits(members[name])) found.push(`"${name}" must be ${wanted}`);
  }
  if (found.length === 0) return undefined;
  return problem("bad_request", `Cannot use the body: ${found.slice(0, 20).join("; ")}`);
}
