import { strippedLength } from "./target.ts";

const NONE: readonly string[] = [];

/**
 * The paths that some routers read in place of a path, which is in its normal form, if they are not
 * its loose spellings (docs/reference/edge.md#target).
 */
export function otherReadings(path: string, stripPrefix: string): readonly string[] {
  const cut = withoutParameters(path, stripPrefix);
  return cut === undefined ? NONE : [cut];
}

/** Fastify up to 4 reads what is forwarded of a path up to the first ";". */
function withoutParameters(path: string, stripPrefix: string): string | undefined {
  if (!path.includes(";")) return undefined;
  const start = path.indexOf(";", strippedLength(path, stripPrefix));
  return start === -1 || path.indexOf("/", start) === -1 ? undefined : path.slice(0, start);
}
