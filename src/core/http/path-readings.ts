import { strippedLength } from "./target.ts";

const NONE: readonly string[] = [];

/** A dot or a space at the end of a segment. */
const TRIMMED = /(?:\.|%20)(?:\/|$)/;

/**
 * The paths that some routers read in place of a path, which is in its normal form, if they are not
 * its loose spellings (docs/reference/edge.md#target).
 */
export function otherReadings(path: string, stripPrefix: string): readonly string[] {
  const trimmed = withoutTrailingDots(path);
  const cut = withoutParameters(path, stripPrefix);
  return cut === undefined ? trimmed : [...trimmed, cut];
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
