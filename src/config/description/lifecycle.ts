import { quoteValue } from "../../base/messages.ts";
import type { Brownout, Lifecycle } from "../../core/http/lifecycle.ts";
import type { Findings } from "../file/findings.ts";
import type { ConfigPath, YamlMap } from "../file/mistake.ts";
import { parseDuration } from "../schema/units.ts";

type LifecycleInputs = {
  readonly operation: YamlMap;
  readonly path: ConfigPath;
  readonly findings: Findings;
};

const STABILITY = ["experimental", "beta"] as const;

/**
 * Reads an operation's declarations about its end and its stability
 * (docs/reference/http.md#deprecation). Dates on an operation that is not deprecated cause a
 * warning and are not sent. A date that a deprecated operation lacks causes a warning, and its
 * field is not sent. A sunset before the deprecation is a mistake (RFC 9745, 4).
 */
export function readLifecycle(operation: YamlMap, path: ConfigPath, findings: Findings): Lifecycle {
  const from = { operation, path, findings };
  const { deprecated = false } = operation;
  if (typeof deprecated !== "boolean")
    findings.wrongValue([...path, "deprecated"], "true or false");

  const since = readDate(from, "x-deprecated-since");
  const sunset = readSunset(from);
  const stability = readStability(from);
  const brownouts = readBrownouts(from, deprecated === true ? sunset : undefined);
  const announced = {
    ...(stability === undefined ? {} : { stability }),
    ...(brownouts.length === 0 ? {} : { brownouts }),
  };
  const successor = readSuccessor(from);
  if (deprecated !== true) {
    for (const name of ["x-deprecated-since", "x-sunset", "x-deprecated-sunset", "x-successor"]) {
      if (operation[name] === undefined) continue;
      findings.warning(
        [...path, name],
        `${name} has no effect: the operation is not deprecated: true`,
      );
    }
    return { deprecated: false, ...announced };
  }
  for (const name of ["x-deprecated-since", "x-sunset"]) {
    const has =
      operation[name] ?? (name === "x-sunset" ? operation["x-deprecated-sunset"] : undefined);
    if (has !== undefined) continue;
    const field = name === "x-sunset" ? "Sunset" : "Deprecation";
    findings.warning(
      [...path, "deprecated"],
      `The deprecated operation has no ${name}: the field ${field} is not sent; add the date`,
    );
  }
  if (since !== undefined && sunset !== undefined && sunset.ms < since) {
    findings.mistake(
      [...path, sunset.name],
      `Cannot use ${sunset.name} ${quoteValue(operation[sunset.name])}: the sunset is before the deprecation, ${quoteValue(operation["x-deprecated-since"])}; RFC 9745 forbids that`,
    );
  }
  return {
    deprecated: true,
    ...(since === undefined ? {} : { deprecatedMs: since }),
    ...(sunset === undefined ? {} : { sunsetMs: sunset.ms }),
    ...(successor === undefined ? {} : { successor }),
    ...announced,
  };
}

function readStability({ operation, path, findings }: LifecycleInputs): Lifecycle["stability"] {
  const name = operation["x-stability-level"] !== undefined ? "x-stability-level" : "x-stability";
  const value = operation[name];
  const other = operation["x-stability"];
  if (value === undefined) return undefined;
  if (typeof value !== "string") {
    findings.wrongValue([...path, name], "experimental, beta or stable");
    return undefined;
  }
  if (other !== undefined && other !== value) {
    findings.warning(
      [...path, "x-stability"],
      `x-stability has no effect: x-stability-level says ${quoteValue(value)}`,
    );
  }
  const known = STABILITY.find((level) => level === value);
  if (known === undefined && value !== "stable") {
    findings.warning(
      [...path, name],
      `${name} ${quoteValue(value)} has no effect: the gateway announces ${STABILITY.join(" and ")}`,
    );
  }
  return known;
}

type Sunset = { readonly name: string; readonly ms: number };

function readSunset(from: LifecycleInputs): Sunset | undefined {
  const { operation, path, findings } = from;
  const names = ["x-sunset", "x-deprecated-sunset"];
  const dates = names.flatMap((name) => {
    const ms = readDate(from, name);
    return ms === undefined ? [] : [{ name, ms }];
  });
  const [first, second] = dates;
  if (first !== undefined && second !== undefined && first.ms !== second.ms) {
    findings.mistake(
      [...path, second.name],
      `Cannot use ${second.name} ${quoteValue(operation[second.name])}: ${first.name} says ${quoteValue(operation[first.name])}; keep one`,
    );
  }
  return first;
}

const BROWNOUT = "a time and a duration, such as 2030-11-05T14:00Z/1h";

/** `x-brownouts`: an instant to the minute or second with its offset, and a duration. */
function readBrownouts(
  { operation, path, findings }: LifecycleInputs,
  sunset: Sunset | undefined,
): readonly Brownout[] {
  const value = operation["x-brownouts"];
  const at = [...path, "x-brownouts"];
  if (value === undefined) return [];
  if (!Array.isArray(value)) {
    findings.wrongValue(at, `a list, each ${BROWNOUT}`);
    return [];
  }
  const read = value.flatMap((one, i) => {
    const [, from = "", seconds = ":00", offset = "", lasts = ""] =
      /^(\d{4}-\d{2}-\d{2}T\d{2}:\d{2})(:\d{2})?([Zz]|[+-]\d{2}:\d{2})\/(\w+)$/.exec(String(one)) ??
      [];
    const fromMs = instantOf(`${from}${seconds}${offset}`);
    const lengthMs = parseDuration(lasts);
    if (fromMs === undefined || lengthMs === undefined || lengthMs <= 0) {
      findings.wrongValue([...at, i], BROWNOUT);
      return [];
    }
    const brownout = { fromMs, toMs: fromMs + lengthMs };
    if (sunset !== undefined && brownout.toMs >= sunset.ms) {
      const when = `the sunset, ${operation[sunset.name]}`;
      const told =
        fromMs < sunset.ms
          ? `A request in x-brownouts[${i}] is answered without Retry-After: it lasts until ${when}`
          : `x-brownouts[${i}] has no effect: it begins at ${when}, or later`;
      findings.warning([...at, i], told);
    }
    return [brownout];
  });
  return joinBrownouts(read);
}

/** Brownouts that overlap or touch are one, because Retry-After names the end of one. */
function joinBrownouts(brownouts: readonly Brownout[]): readonly Brownout[] {
  const joined: Brownout[] = [];
  for (const { fromMs, toMs } of brownouts.toSorted((a, b) => a.fromMs - b.fromMs)) {
    const last = joined.at(-1);
    if (last === undefined || last.toMs < fromMs) joined.push({ fromMs, toMs });
    else joined.splice(-1, 1, { fromMs: last.fromMs, toMs: Math.max(last.toMs, toMs) });
  }
  return joined;
}

/** RFC 3339: a full-date, which means 00:00:00Z, or a date-time with its offset. */
const DATE = /^(\d{4}-\d{2}-\d{2})(?:[Tt ](\d{2}:\d{2}:\d{2})(\.\d{1,9})?([Zz]|[+-]\d{2}:\d{2}))?$/;

function readDate(
  { operation, path, findings }: LifecycleInputs,
  name: string,
): number | undefined {
  const value = operation[name];
  if (value === undefined) return undefined;
  const ms = typeof value === "string" ? instantOf(value) : undefined;
  if (ms === undefined) {
    findings.wrongValue([...path, name], "a date such as 2030-12-05 or 2030-12-05T00:00:00Z");
  }
  return ms;
}

function instantOf(text: string): number | undefined {
  const [, date, time = "00:00:00", fraction = "", offset = "Z"] = DATE.exec(text) ?? [];
  if (date === undefined) return undefined;
  // Date turns 30 February into a day of March, so a day that does not exist comes back as another.
  const day = new Date(`${date}T00:00:00Z`);
  if (Number.isNaN(day.getTime()) || day.toISOString().slice(0, 10) !== date) return undefined;
  if (time.startsWith("24")) return undefined;
  const ms = Date.parse(`${date}T${time}${fraction}${offset}`);
  return Number.isNaN(ms) ? undefined : ms;
}

/** The value stands between < and > of a Link field: nothing in it may end that (RFC 8288, 3). */
function readSuccessor({ operation, path, findings }: LifecycleInputs): string | undefined {
  const value = operation["x-successor"];
  if (value === undefined) return undefined;
  const at = [...path, "x-successor"];
  const isSafe =
    typeof value === "string" && /^[\x21-\x7e]{1,2000}$/.test(value) && !/[<>"\\^`{|}]/.test(value);
  if (isSafe && !/%(?![0-9A-Fa-f]{2})/.test(value) && URL.canParse(value, "http://gateway"))
    return value;
  findings.wrongValue(at, 'a URI reference of printable ASCII without spaces, < > and "');
  return undefined;
}
