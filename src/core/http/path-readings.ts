import type { PathMatching } from "./path-pattern.ts";
import { strippedLength } from "./target.ts";

const NONE: readonly string[] = [];

/** A dot or a space at the end of a segment. */
const TRIMMED = /(?:\.|%20)(?:\/|$)/;

/** The characters that paths have if some routers read them otherwise. */
const READ_OTHERWISE = { exact: /%(?:3F|23)/, loose: /[.;%]/ } as const;

/** Whether some routers may read the path otherwise. Most paths are judged with this one look. */
export function mayBeReadOtherwise(path: string, paths: PathMatching): boolean {
  return READ_OTHERWISE[paths].test(path);
}

/**
 * The paths that some routers read in place of a path, which is in its normal form, if they are not
 * its loose spellings (docs/reference/edge.md#target).
 */
export function otherReadings(
  path: string,
  { paths, stripPrefix }: { readonly paths: PathMatching; readonly stripPrefix: string },
): readonly string[] {
  const beforeQuery = withoutEscapedQuery(path, stripPrefix);
  if (paths === "exact") return beforeQuery;
  const trimmed = withoutTrailingDots(path);
  const cut = withoutParameters(path, stripPrefix);
  return [...beforeQuery, ...trimmed, ...(cut === undefined ? NONE : [cut])];
}

/**
 * H3 up to 1 decodes what is forwarded of a path, reads it up to the first "?", for its static files
 * also up to the first "#", and ignores a slash at the end of that.
 */
function withoutEscapedQuery(path: string, stripPrefix: string): readonly string[] {
  const start = strippedLength(path, stripPrefix);
  return ["%3F", "%23"].flatMap((escaped) => {
    const end = path.indexOf(escaped, start);
    if (end === -1) return NONE;
    const cut = path.slice(0, end);
    return cut.endsWith("/") ? [cut, cut.slice(0, -1)] : cut;
  });
}

/** Fastify up to 4 reads what is forwarded of a path up to the first ";". */
function withoutParameters(path: string, stripPrefix: string): string | undefined {
  if (!path.includes(";")) return undefined;
  const start = path.indexOf(";", strippedLength(path, stripPrefix));
  return start === -1 || path.indexOf("/", start) === -1 ? undefined : path.slice(0, start);
}

/** Caddy up to 2.6 leaves dots and spaces out at the end, and on Windows in each segment. */
function withoutTrailingDots(path: string): readonly string[] {
  if (!path.includes(".") && !path.includes("%20")) return NONE;
  if (!TRIMMED.test(path)) return NONE;
  return [...new Set([trimEnd(path), path.split("/").map(trimEnd).join("/")])];
}

function trimEnd(text: string): string {
  let end = text.length;
  while (true) {
    if (text[end - 1] === ".") end -= 1;
    else if (text.endsWith("%20", end)) end -= 3;
    else return text.slice(0, end);
  }
}
