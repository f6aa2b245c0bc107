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
 * A page of a list (docs/reference/admin.md#pages): the `limit` records that follow the one with
 * the id `after`. A Link field has the next page (RFC 8288), and X-Total-Count has the number of
 * all records. If the id no longer exists, the list starts over, so that it is never cut short in
 * silence.
 */
export function pageResponse<T extends { readonly id: string }>(
  all: readonly T[],
  listing: PageRequest,
  tell: (page: readonly T[]) => unknown,
): AdminResponse {
  const taken = takePage(all, listing);
  return taken.ok ? taken.value.answer(tell(taken.value.page)) : taken.answer;
}

/** One page of a list, and the function that makes the response from its reports. */
type Page<T> = { readonly page: readonly T[]; readonly answer: (told: unknown) => AdminResponse };

/** As `pageResponse`, for lists whose reports take time to make. */
export function takePage<T extends { readonly id: string }>(
  all: readonly T[],
  { path, query }: PageRequest,
): BodyResult<Page<T>> {
  const limit = parsePageLimit(query);
  if (!limit.ok) return limit;
  const order = query.get("order");
  if (order !== null && order !== "newest") {
    return { ok: false, answer: problemResponse("bad_request", "order must be newest") };
  }
  const listed = order === null ? all : all.toReversed();
  const start = startOf(all, { after: query.get("after"), isReversed: order !== null });
  const page = listed.slice(start, start + limit.value);
  const last = page.at(-1);
  const answer = (told: unknown) => {
    const whole = jsonResponse(200, told);
    const counted = { ...whole, fields: [...whole.fields, "X-Total-Count", String(all.length)] };
    if (last === undefined || start + page.length >= all.length) return counted;
    return withNextLink(counted, { path, query }, last.id);
  };
  return { ok: true, value: { page, answer } };
}

function startOf<T extends { readonly id: string }>(
  all: readonly T[],
  { after, isReversed }: { readonly after: string | null; readonly isReversed: boolean },
): number {
  const place = after === null ? -1 : indexOfId(all, after);
  return place === -1 || !isReversed ? place + 1 : all.length - place;
}

/** The maximum number of entries of one page. */
export function parsePageLimit(query: URLSearchParams): BodyResult<number> {
  const limit = query.get("limit") ?? String(LENGTH);
  if (/^\d{1,5}$/.test(limit) && Number(limit) >= 1 && Number(limit) <= LENGTH_MAX) {
    return { ok: true, value: Number(limit) };
  }
  const message = `limit must be a whole number from 1 to ${LENGTH_MAX}`;
  return { ok: false, answer: problemResponse("bad_request", message) };
}

/** The response with a link to the page that follows the entry with the id `last`. */
export function withNextLink(
  answer: AdminResponse,
  { path, query }: PageRequest,
  last: string,
): AdminResponse {
  const next = new URLSearchParams(query);
  next.set("after", last);
  return { ...answer, fields: [...answer.fields, "Link", `<${path}?${next}>; rel="next"`] };
}
