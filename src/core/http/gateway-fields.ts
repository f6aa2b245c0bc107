import { memoize } from "../../base/memoize.ts";
import type { OperationMeter } from "../quota/meters.ts";
import type { RateLimitInfo } from "../quota/rate-limit-info.ts";
import { roundUpToSeconds } from "../quota/whole-seconds.ts";
import { CORS_FIELDS, corsFields } from "./cors.ts";
import { deprecationValue, type Lifecycle, successorLink, sunsetValue } from "./lifecycle.ts";
import type { StandardRateLimit } from "./rate-limit-fields.ts";
import { mergeVary, type VaryFacts } from "./vary.ts";

/** The facts of an exchange that the gateway's own response fields are made of. */
export type ResponseFacts = VaryFacts & {
  readonly id: string;
  readonly rateLimitInfo: RateLimitInfo | undefined;
  /** Units that the request costs. */
  readonly cost: number;
  /** Whether the request was decided: `none` if it was answered ahead of that. */
  readonly outcome: "admitted" | "refused" | "none";
  /** The standard fields, if the configuration asks for them. */
  readonly rateLimit: StandardRateLimit | undefined;
  readonly found:
    | {
        readonly operation: { readonly lifecycle: Lifecycle } | undefined;
        readonly meters?: readonly OperationMeter[];
      }
    | undefined;
  /** The origin of the page that sent the request, if a page did. */
  readonly origin: string | undefined;
};

/**
 * One response field that the gateway sets. `value` returns undefined if the response does not have
 * the field. The backend's field of that name is dropped, unless `replaces` says `never`, or names a
 * subject that the gateway does not cover itself.
 */
type FieldRow = {
  readonly name: string;
  readonly value: (response: ResponseFacts) => string | undefined;
  readonly replaces?: "never" | Subject;
};

/** `end`: the description announces the operation's end. `stability`: it names a stability. */
type Subject = "end" | "stability";

/** The value of a field that the operation's description decides. */
function described(value: (lifecycle: Lifecycle) => string | undefined): FieldRow["value"] {
  return ({ found }) => {
    const lifecycle = found?.operation?.lifecycle;
    return lifecycle === undefined ? undefined : value(lifecycle);
  };
}

/** Those that the operation's description decides. */
const DESCRIBED_FIELDS: readonly FieldRow[] = [
  // Only the description announces a deprecated operation: two dates would contradict each other.
  { name: "Deprecation", value: described(deprecationValue), replaces: "end" },
  { name: "Sunset", value: described(sunsetValue), replaces: "end" },
  // The successor is added to the links of the backend (RFC 8288 3).
  { name: "Link", value: described(successorLink), replaces: "never" },
  {
    name: "X-API-Stability",
    value: described(({ stability }) => stability),
    replaces: "stability",
  },
];

/**
 * The gateway's own fields of a response, one row for each
 * (docs/reference/http.md#rate-limit-fields). A new field is a new row. Those of CORS are in
 * cors.ts, Vary is in vary.ts, and those of a refusal are in its row.
 */
const OWN_FIELDS: readonly FieldRow[] = [
  { name: "X-Request-Id", value: ({ id }) => id },
  {
    name: "X-RateLimit-Limit",
    value: ({ rateLimitInfo }) => rateLimitInfo && String(rateLimitInfo.limit),
  },
  {
    name: "X-RateLimit-Remaining",
    value: ({ rateLimitInfo }) => rateLimitInfo && String(rateLimitInfo.remaining),
  },
  {
    name: "X-RateLimit-Reset",
    value: ({ rateLimitInfo }) => rateLimitInfo && String(roundUpToSeconds(rateLimitInfo.resetMs)),
  },
  { name: "X-RateLimit-Window", value: ({ rateLimitInfo }) => rateLimitInfo?.window },
  {
    name: "X-RateLimit-Cost",
    // A client without a key does not learn what operations cost.
    value: ({ cost, outcome }) => (cost === 1 || outcome === "none" ? undefined : String(cost)),
  },
  { name: "RateLimit-Policy", value: ({ rateLimit }) => rateLimit?.policy },
  // The backend's field is dropped even if the gateway sets none: it would describe another limit.
  { name: "RateLimit", value: ({ rateLimit }) => rateLimit?.state },
  ...DESCRIBED_FIELDS,
];

/** Fields of some answers only: of a refusal, of the backend, or of a report of a standing (Age). */
const OCCASIONAL_FIELDS = ["Retry-After", "Age", "WWW-Authenticate", "Allow"];

/** The fields that pages of other origins may read, if `cors` is configured. */
const EXPOSED = [...OWN_FIELDS.map(({ name }) => name), ...OCCASIONAL_FIELDS];

/**
 * The gateway's fields of a response with a head, flat: names and values in turn, behind those of
 * the backend, whose Vary takes in the gateway's.
 */
export function gatewayFields(response: ResponseFacts, fields: string[] = []): string[] {
  for (const { name, value } of OWN_FIELDS) {
    const text = value(response);
    if (text !== undefined) fields.push(name, text);
  }
  const { cors } = response;
  if (cors !== undefined) fields.push(...corsFields(cors, response.origin, EXPOSED));
  mergeVary(fields, response);
  return fields;
}

/** The same without X-Request-Id, which is their first. */
export function fieldsWithoutId(response: ResponseFacts): string[] {
  return gatewayFields(response).slice(2);
}

/** Whether these follow from standing and cost alone: nothing else of the request decides them. */
export function followFromStanding(response: ResponseFacts): boolean {
  if (response.rateLimit !== undefined || response.cors !== undefined) return false;
  return DESCRIBED_FIELDS.every(({ value }) => value(response) === undefined);
}

/**
 * The backend's fields that clients do not get, in lower case: those that the gateway's fields
 * replace, and those that tell what a request used. They are the same for every kind of response:
 * final, interim, a 101 or a declined upgrade.
 */
export function replacedFields({
  found,
  cors,
}: Pick<ResponseFacts, "found" | "cors">): ReadonlySet<string> {
  const lifecycle = found?.operation?.lifecycle;
  const end = lifecycle?.deprecated === true;
  const stability = lifecycle?.stability !== undefined;
  const place = (end ? 1 : 0) + (stability ? 2 : 0) + (cors === undefined ? 0 : 4);
  REPLACED[place] ??= replacedWhere({ end, stability }, cors !== undefined);
  const meters = found?.meters;
  if (meters === undefined || meters.length === 0) return REPLACED[place];
  return withMeterFields(meters)(REPLACED[place]);
}

const withMeterFields = memoize((meters: readonly OperationMeter[]) => {
  const sources = meters.flatMap(({ used }) => used);
  const names = sources.flatMap((source) => (source.from === "header" ? [source.name] : []));
  return memoize((replaced: ReadonlySet<string>) => new Set([...replaced, ...names]));
});

/** One set for each combination of subjects that the gateway covers. */
const REPLACED: ReadonlySet<string>[] = [];

function replacedWhere(speaks: Readonly<Record<Subject, boolean>>, cors: boolean): Set<string> {
  const rows = OWN_FIELDS.filter(({ replaces }) => {
    return replaces === undefined || (replaces !== "never" && speaks[replaces]);
  });
  const names = rows.map(({ name }) => name.toLowerCase());
  return new Set(cors ? [...names, ...CORS_FIELDS] : names);
}
