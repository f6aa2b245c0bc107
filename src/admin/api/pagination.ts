import { indexOfId } from "../../core/keys/record-index.ts";
import {
  type AdminResponse,
  type BodyResult,
  jsonResponse,
  problemResponse,
} from "../http/response.ts";

/** The path of a list, and the query of the request. */
export type PageRequest = { readonly path: string; readonly query: URLSearchParams };

const LENGTH = 1_000;
const LENGTH_MAX = 10_000;

/**
 * A page of a list (docs/reference/admin.md#pages): the `limit` entries that follow the place
 * `after`. A Link field has the next page (RFC 8288), and X-Total-Count has the number of all
 * entries. A place stays one when its entry leaves the list. What is no place is refused, so that
 * no reader starts over without an end.
 */
export function pageResponse<T extends Entry>(
  all: readonly T[],
  pageRequest: PageRequest,
  tell: (page: readonly T[]) => unknown,
  whole?: readonly Entry[],
): AdminResponse {
  const taken = takePage(all, pageRequest, whole);
  return taken.ok ? taken.value.answer(tell(taken.value.page)) : taken.response;
}

/** One page of a list, and the function that makes the response from its reports. */
type Page<T> = { readonly page: readonly T[]; readonly answer: (told: unknown) => AdminResponse };

/**
 * As `pageResponse`, for lists whose reports take time to make. `whole` has the entries of the list
 * and those that its filter leaves out, in the same order; without it the ids are those of `rankedId`.
 */
export function takePage<T extends Entry>(
  all: readonly T[],
  { path, query }: PageRequest,
  whole?: readonly Entry[],
): BodyResult<Page<T>> {
  const limit = parsePageLimit(query);
  if (!limit.ok) return limit;
  const order = query.get("order");
  if (order !== null && order !== "newest") {
    return { ok: false, response: problemResponse("bad_request", "order must be newest") };
  }
  const isReversed = order !== null;
  const listed = isReversed ? all.toReversed() : all;
  const after = query.get("after");
  const start = after === null ? 0 : startAfter(all, { after, isReversed, whole });
  if (start === undefined) return { ok: false, response: noPlaceResponse() };
  const page = listed.slice(start, start + limit.value);
  const last = page.at(-1);
  const answer = (told: unknown) => {
    const response = jsonResponse(200, told);
    const fields = [...response.fields, "X-Total-Count", String(all.length)];
    const counted = { ...response, fields };
    if (last === undefined || start + page.length >= all.length) return counted;
    return withNextLink(counted, { path, query }, last.id);
  };
  return { ok: true, value: { page, answer } };
}

type Entry = { readonly id: string };

/** The id of an entry in a list that is sorted by a number, then by a name. */
export function rankedId(rank: number, name: string): string {
  return `${rank} ${name}`;
}

type Place = {
  readonly after: string;
  readonly isReversed: boolean;
  readonly whole: readonly Entry[] | undefined;
};

/** The number of entries up to a place; undefined if it is none. */
function startAfter(
  all: readonly Entry[],
  { after, isReversed, whole }: Place,
): number | undefined {
  if (whole === undefined) return startAfterRank(all, after);
  const place = indexOfId(whole, after);
  if (place === -1) return undefined;
  const before = countBefore(all, whole, isReversed ? place : place + 1);
  return isReversed ? all.length - before : before;
}

/** The number of entries of `all` among the first `length` of `whole`. */
function countBefore(all: readonly Entry[], whole: readonly Entry[], length: number): number {
  let count = 0;
  for (let i = 0; i < length && count < all.length; i++) {
    if (all[count]?.id === whole[i]?.id) count += 1;
  }
  return count;
}

function startAfterRank(all: readonly Entry[], after: string): number | undefined {
  const place = parseRankedId(after);
  if (place === undefined) return undefined;
  const start = all.findIndex(({ id }) => {
    const { rank, name } = parseRankedId(id) ?? place;
    return rank === place.rank ? name > place.name : rank > place.rank;
  });
  return start === -1 ? all.length : start;
}

function parseRankedId(id: string): { readonly rank: number; readonly name: string } | undefined {
  const [, rank, name] = /^(-?\d\S*) (.+)$/.exec(id) ?? [];
  // A place has a number only in the form in which `rankedId` writes it.
  return rank === undefined || name === undefined || String(Number(rank)) !== rank
    ? undefined
    : { rank: Number(rank), name };
}

/** The response to an `after` that no Link has. */
export function noPlaceResponse(): AdminResponse {
  return problemResponse("bad_request", "after must be a place in the list, as Link has it");
}

/** The maximum number of entries of one page. */
export function parsePageLimit(query: URLSearchParams): BodyResult<number> {
  const limit = query.get("limit") ?? String(LENGTH);
  if (/^\d+$/.test(limit) && Number(limit) >= 1 && Number(limit) <= LENGTH_MAX) {
    return { ok: true, value: Number(limit) };
  }
  const message = `limit must be a whole number from 1 to ${LENGTH_MAX}`;
  return { ok: false, response: problemResponse("bad_request", message) };
}

/** The response with a link to the page that follows the entry with the id `last`. */
export function withNextLink(
  response: AdminResponse,
  { path, query }: PageRequest,
  last: string,
): AdminResponse {
  const next = new URLSearchParams(query);
  next.set("after", last);
  return { ...response, fields: [...response.fields, "Link", `<${path}?${next}>; rel="next"`] };
}
