import { encodePet, isPetStatus, type Pet, type PetStatus, parseInt64, STATUSES } from "./pet.ts";
import { invalid, type PetResult, quoted, valid } from "./problem.ts";

/** The animals that a list asks for: those with an id above `after`, in the order of ids. */
export type Page = {
  readonly limit: number;
  readonly status?: PetStatus;
  readonly after: bigint;
};

const LIMIT_DEFAULT = 20;
const DESCRIBED = ["limit", "status", "after"];

/**
 * Reads the query of `GET /pets`, or refuses with 400 `invalid_parameter`. Parameters that are not
 * described are ignored, as clients of lists expect. A described one must not be repeated
 * (config/pets.openapi.yaml).
 */
export function parsePageQuery(query: Readonly<Record<string, unknown>>): PetResult<Page> {
  for (const name of DESCRIBED) {
    if (!Array.isArray(query[name])) continue;
    return invalid("invalid_parameter", `${quoted(name)} must not be repeated`);
  }
  const { limit = String(LIMIT_DEFAULT), status, after } = query as Record<string, string>;
  if (!/^(?:[1-9][0-9]?|100)$/.test(limit)) {
    return wrong("limit", "a whole number from 1 to 100", limit);
  }
  if (status !== undefined && !isPetStatus(status)) {
    return wrong("status", `one of ${STATUSES.join(", ")}`, status);
  }
  const start = after === undefined ? 0n : readCursor(after);
  if (start === undefined) return wrong("after", "taken from a Link field, as it is", `${after}`);
  const page = { limit: Number(limit), after: start };
  return valid(status === undefined ? page : { ...page, status });
}

/** A page as JSON text, and the Link value for the next page if there is one. */
export function encodePage(page: Page, found: readonly Pet[]): { body: string; link?: string } {
  const shown = found.slice(0, page.limit);
  const body = `[${shown.map(encodePet).join(",")}]`;
  const last = shown.at(-1);
  if (found.length <= page.limit || last === undefined) return { body };
  const status = page.status === undefined ? "" : `&status=${page.status}`;
  const next = `/v1/pets?limit=${page.limit}${status}&after=${writeCursor(last.id)}`;
  return { body, link: `<${next}>; rel="next"` };
}

/**
 * Opaque on purpose: clients must not compute the next page, so that this API may change the rule.
 */
function writeCursor(id: bigint): string {
  return Buffer.from(String(id)).toString("base64url");
}

function readCursor(cursor: string): bigint | undefined {
  const id = parseInt64(Buffer.from(cursor, "base64url").toString("latin1"));
  return id !== undefined && writeCursor(id) === cursor ? id : undefined;
}

function wrong(name: string, wanted: string, found: string): PetResult<never> {
  return invalid("invalid_parameter", `${name} must be ${wanted}: found ${quoted(found)}`);
}
