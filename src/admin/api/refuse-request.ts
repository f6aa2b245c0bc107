import { quoteValue } from "../../base/messages.ts";
import { containsKey, type ForeignKeyFormat } from "../../core/keys/key.ts";
import { isAddressName } from "../../core/keys/records.ts";
import { type AdminResponse, problemResponse } from "../http/response.ts";
import { KINDS, type Kind } from "../openapi/bodies.ts";
import type { RouteContract, RouteSpec } from "../openapi/document.ts";
import { type ApiRequest, recordsUnknown } from "./api-request.ts";

type Members = Readonly<Record<string, unknown>>;

/** Refuses a query that is empty, or has a member that the route does not take, or one twice. */
export function refuseQuery(
  query: URLSearchParams,
  { query: known = [] }: Pick<RouteContract, "query">,
): AdminResponse | undefined {
  const names = [...query.keys()];
  const isKnown = names.every((name) => (known as readonly string[]).includes(name));
  if (names.length > 0 && isKnown && new Set(names).size === names.length) return undefined;
  const message =
    known.length === 0
      ? "Nothing here takes a query"
      : `The query may have ${known.join(", ")}, each once`;
  return problemResponse("bad_request", message);
}

/**
 * Refuses a request that the contract of its route does not allow, before the route runs. While the
 * records are not known that is told, whatever else is wrong.
 */
export function refuseByContract(
  { method, template, contract }: RouteSpec,
  { deps, id, query, body }: Omit<ApiRequest, "onUnanswered">,
): AdminResponse | undefined {
  const { needsRecords = false, queryRequired = [] } = contract;
  // An address has no record.
  const unknown = needsRecords && !isAddressName(id) ? recordsUnknown(deps) : undefined;
  if (unknown !== undefined) return unknown;
  const unnamed = queryRequired.find((name) => !query.has(name));
  if (unnamed !== undefined) {
    const example = `${method} ${template}?${unnamed}=${unnamed.toUpperCase()}`;
    return problemResponse("bad_request", `Name the ${unnamed}: ${example}`);
  }
  return refuseBody(body, contract);
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
 * Refuses a body that its contract does not describe, with all mistakes at once. If none of the sets
 * of `bodyNeeds` is there, the last is asked for. Only the values of durations are repeated, because
 * a caller may send a key in the wrong place.
 */
export function refuseBody(
  members: Members,
  { body: shape = {}, bodyNeeds = [] }: Pick<RouteContract, "body" | "bodyNeeds">,
): AdminResponse | undefined {
  const has = (name: string) => Object.hasOwn(members, name);
  const isWhole = bodyNeeds.some((set) => set.every(has));
  const needed = isWhole ? [] : (bodyNeeds.at(-1) ?? []);
  const known = Object.keys(shape);
  const found = Object.keys(members)
    .filter((name) => !known.includes(name))
    .map((name) => {
      const expected =
        known.length === 0 ? "there is none to send" : `expected ${known.join(", ")}`;
      return `${quoteValue(name)} is unknown (${expected})`;
    });
  for (const [name, { kind, required = false }] of Object.entries(shape)) {
    const { words: wanted, fits, isRepeated }: Kind = KINDS[kind];
    if (!has(name)) {
      if (required || needed.includes(name)) found.push(`"${name}" is required (${wanted})`);
    } else if (!fits(members[name])) {
      const value = isRepeated ? `: the value is ${quoteValue(members[name])}` : "";
      found.push(`"${name}" must be ${wanted}${value}`);
    }
  }
  if (found.length === 0) return undefined;
  return problemResponse("bad_request", `Cannot use the body: ${found.slice(0, 20).join("; ")}`);
}
