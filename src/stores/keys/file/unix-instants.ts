import { isObject } from "../../../base/is-object.ts";
import { roundUpToSeconds } from "../../../core/quota/whole-seconds.ts";

/** The years from 1970 to 9999, which are the instants of a record. */
const SECONDS_MAX = 253_402_300_799;

/** How one instant is written. Of what is no such instant, the value itself. */
type Form = (instant: unknown, isEnd: boolean) => unknown;

/**
 * A record of an export with its instants in Unix seconds (docs/reference/commands.md#json). The end
 * of something is rounded up and its beginning down, as in every value of `--json`.
 */
export function withUnixSeconds(record: object): object {
  return withInstants(record, (instant, isEnd) => {
    if (typeof instant !== "string") return instant;
    const atMs = Date.parse(instant);
    return isEnd ? roundUpToSeconds(atMs) : Math.floor(atMs / 1_000);
  });
}

/** The same record with the instants as they are kept, whichever way they are written. */
export function withoutUnixSeconds(record: object): object {
  return withInstants(record, (instant) => {
    const isSeconds = Number.isInteger(instant);
    const seconds = Number(instant);
    if (!isSeconds || seconds < 0 || seconds > SECONDS_MAX) return instant;
    return new Date(seconds * 1_000).toISOString();
  });
}

function withInstants(record: object, form: Form): object {
  const { caps, suspended, anchors, ...rest } = record as Readonly<Record<string, unknown>>;
  const anchored = (anchor: unknown) => membersIn(anchor, { from: false }, form);
  return {
    ...membersIn(rest, { created: false, expires: true, revoked: true }, form),
    ...(suspended !== undefined && {
      suspended: membersIn(suspended, { since: false, until: true }, form),
    }),
    ...(caps !== undefined && { caps: membersIn(caps, { dropped: false }, form) }),
    ...(anchors !== undefined && {
      anchors: Array.isArray(anchors) ? anchors.map(anchored) : anchors,
    }),
  };
}

/** An object with its instants in another form. `ends` says of each whether it is an end. */
function membersIn<T>(value: T, ends: Readonly<Record<string, boolean>>, form: Form): T {
  if (!isObject(value)) return value;
  const members = Object.entries(value).map(([name, instant]) => {
    const isEnd = Object.hasOwn(ends, name) ? ends[name] : undefined;
    return [name, isEnd === undefined ? instant : form(instant, isEnd)];
  });
  return Object.fromEntries(members) as T;
}
