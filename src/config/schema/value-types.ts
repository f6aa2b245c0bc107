import { z } from "zod";
import { shortestInBrackets } from "../../core/address.ts";
import { SCOPE_PATTERN } from "../../core/keys/edit-rules.ts";
import { COST_MAX } from "../../core/quota/decide.ts";
import { LIMIT_MAX } from "../../core/quota/windows.ts";
import {
  type ParseResult,
  parseCollector,
  parseHttpUrl,
  parseListen,
  parseNetwork,
  parseOrigin,
  parsePageUrl,
  parseStoreAddress,
} from "./addresses.ts";
import { DURATION, parseDuration, parseSize, SIZE } from "./units.ts";

/**
 * The types of values. Each describes the accepted values in one phrase, `title`. The mistakes, the
 * schema and the reference all use it, as in "Cannot read workers as TITLE".
 */
type Range<T> = { readonly from: T; readonly to: T };

export function integer({ from, to }: Range<number>) {
  const title = `a whole number from ${from} to ${to}`;
  return z.preprocess(digits, z.int(title).min(from, title).max(to, title)).meta({ title });
}

export function factor({ from, to }: Range<number>) {
  const title = `a number from ${from} to ${to}`;
  return z.preprocess(digits, z.number(title).min(from, title).max(to, title)).meta({ title });
}

/**
 * Between braces YAML requires quotes around a reference, "${LIMIT}". The value that replaces it is
 * still a number. The JSON Schema accepts the same text.
 */
function digits(value: unknown): unknown {
  return typeof value === "string" && QUOTED_NUMBER.test(value) ? Number(value) : value;
}

export const QUOTED_NUMBER = /^\d{1,15}(?:\.\d{1,15})?$/;
export const QUOTED_BOOLEAN = /^(?:true|false)$/;

export const boolean = z
  .preprocess(
    (value) => (value === "true" ? true : value === "false" ? false : value),
    z.boolean("true or false"),
  )
  .meta({ title: "true or false" });

const DURATIONS = ["500ms", "10s", "5m", "24h", "30d"];
const SIZES = ["512B", "16KiB", "1MiB", "2GiB"];

/** Parsed into milliseconds. */
export function duration(range: Range<string> & Partial<Pick<Measure, "examples">>) {
  return measured("duration", {
    pattern: DURATION,
    read: parseDuration,
    examples: DURATIONS,
    ...range,
  });
}

/** Parsed into bytes. */
export function size(range: Range<string>) {
  return measured("size", { pattern: SIZE, read: parseSize, examples: SIZES, ...range });
}

type Measure = Range<string> & {
  readonly pattern: RegExp;
  readonly read: (text: string) => number | undefined;
  /** Texts of which those in the range are named to people. */
  readonly examples: readonly string[];
};

function measured(kind: string, { pattern, read, from, to, examples }: Measure) {
  const least = read(from) ?? 0;
  const most = read(to) ?? 0;
  const fitting = examples.filter((text) => {
    const amount = read(text) ?? Number.NaN;
    return amount >= least && amount <= most;
  });
  const title = `a ${kind} from ${from} to ${to}, such as ${alternatives(fitting)}`;
  return z
    .string(title)
    .regex(pattern, title)
    .transform((text, context) => {
      const amount = read(text) ?? Number.NaN;
      if (amount >= least && amount <= most) return amount;
      context.issues.push({ code: "custom", message: title, input: text });
      return z.NEVER;
    })
    .meta({ title });
}

/**
 * "10s, 5m or 24h". Intl.ListFormat says the same, and takes 20 ms of the start of each command that
 * reads a configuration.
 */
function alternatives(texts: readonly string[]): string {
  return texts.join(", ").replace(/, ([^,]*)$/, " or $1");
}

export function text(title: string, pattern: RegExp) {
  return z.string(title).regex(pattern, title).meta({ title });
}

/** A text that may have digits alone: YAML reads these as a number if they are not in quotes. */
export function quotable(title: string, pattern: RegExp) {
  const schema = text(title, pattern);
  return z
    .preprocess((value, context) => {
      if (typeof value === "number" && pattern.test(String(value))) {
        const params = { hint: "write it in quotes, as it is a text" };
        context.issues.push({ code: "custom", message: title, input: value, params });
      }
      return value;
    }, schema)
    .meta({ title });
}

export function oneOf<const T extends readonly string[]>(values: T) {
  const title = `one of ${values.join(", ")}`;
  return z.enum(values, title).meta({ title });
}

/** YAML 1.1 readers, and people who write it, take `off` for false. Parsed into undefined. */
export const off = z
  .literal(["off", false], "off")
  .transform(() => undefined)
  .meta({ title: "off" });

/** Limits of a plan: 1 to 10^12 requests a window. */
export const requestLimit = integer({ from: 1, to: LIMIT_MAX });

/** Names of environments and plans are used in store keys, header fields and labels. */
export const NAME = /^[A-Za-z0-9._-]{1,64}$/;
export const name = text("a name of 1 to 64 letters, digits, dots, dashes and underscores", NAME);

export const keyPart = quotable("1 to 32 characters of a-z and 0-9", /^[a-z0-9]{1,32}$/);

export const file = text("a path, relative to this file", /^[^\0]+$/);

/** The address of a store is no path: its password would be shown as a part of one. */
export const keys = read("redis, or a path, relative to this file", {
  pattern: /^(?!rediss?(?:\+\w+)?:\/\/)[^\0]+$/,
  read: (text): ParseResult<string> => {
    if (text === "" || text.includes("\0")) return { why: "name a file" };
    return /^rediss?(?:\+\w+)?:\/\//i.test(text)
      ? { why: "write keys: redis, and the address as store: redis://HOST:PORT" }
      : { value: text };
  },
});

export const listenAddress = read("an address to listen on, HOST:PORT (IPv6 in brackets)", {
  pattern: /:\d{1,5}$/,
  read: parseListen,
});

export const origin = read("an origin, http:// or https:// with a host and no path", {
  pattern: /^[Hh][Tt][Tt][Pp][Ss]?:\/\/[^/?#\\\s]+$/,
  read: parseOrigin,
});

export const url = read("an address, http:// or https://", {
  pattern: /^[Hh][Tt][Tt][Pp][Ss]?:\/\/[^/?#\\\s]+/,
  read: parseHttpUrl,
});

/** A page that other pages are below. */
export const pageUrl = read("an address without a query, http:// or https://", {
  pattern: /^[Hh][Tt][Tt][Pp][Ss]?:\/\/[^/?#\\\s]+[^?#\s]*$/,
  read: parsePageUrl,
});

export const collector = read("an address, http:// or https://", {
  pattern: /^[Hh][Tt][Tt][Pp][Ss]?:\/\/[^/?#\\\s]+[^?#\s]*$/,
  read: parseCollector,
});

const network = read("a network, such as 10.0.0.0/8 or 2001:db8::/32", {
  pattern: /^[0-9A-Fa-f:.]+(?:\/\d{1,3})?$/,
  read: parseNetwork,
});

export const store = read(
  "memory, or an address with redis://, rediss://, redis+sentinel:// or redis+cluster://",
  { pattern: /^(?:memory$|rediss?(?:\+sentinel|\+cluster)?:\/\/)/, read: parseStoreAddress },
);

type Reading<T> = { readonly pattern: RegExp; readonly read: (text: string) => ParseResult<T> };

/** `pattern` is for editors, through the schema. `read` decides, and returns why not. */
export function read<T>(title: string, { pattern, read }: Reading<T>) {
  return z
    .string(title)
    .meta({ pattern: pattern.source })
    .transform((text, context): T => {
      const result = read(text);
      if ("value" in result) return result.value;
      const params = { hint: result.why };
      context.issues.push({ code: "custom", message: title, input: text, params });
      return z.NEVER;
    })
    .meta({ title });
}

const WORD = "[0-9a-f]{1,4}";
const IPV4 = "\\d{1,3}(?:\\.\\d{1,3}){3}";
/** RFC 4291 2.2: eight words, or fewer around one "::"; the last two may be written as IPv4. */
const IPV6 = [
  ...[`(?:${WORD}:){7}${WORD}`, `(?:${WORD}:){1,7}:`, `:(?::${WORD}){1,7}`, "::"],
  ...[1, 2, 3, 4, 5, 6].map((left) => `(?:${WORD}:){1,${left}}(?::${WORD}){1,${7 - left}}`),
  ...[`(?:${WORD}:){6}${IPV4}`, `::(?:${WORD}:){0,5}${IPV4}`],
].join("|");
const LABEL = "[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?";

const HOST = "a lower-case host name without port";

/** Lower case, no port; an IPv6 address in brackets, as in the Host field, in any of its forms. */
export const hostName = text(
  HOST,
  new RegExp(`^(?:(?=.{1,253}$)${LABEL}(?:\\.${LABEL})*|\\[(?:${IPV6})\\])$`),
)
  .transform(shortestInBrackets)
  .meta({ title: HOST });

/** Literal segments that arrive as they are written: no dot segments, escapes or empty segments. */
export const basePath = text(
  "a path that starts with / and does not end in one, of plain segments (or / alone)",
  /^\/$|^(?:\/(?!\.{1,2}(?:\/|$))[A-Za-z0-9._~!$&'()*+,;=:@-]+)+$/,
);

export const cost = integer({ from: 0, to: COST_MAX });

export const SCOPE = "a scope: 1 to 64 of a-z, 0-9 and . _ : / -";
export const scope = text(SCOPE, SCOPE_PATTERN);

/** Plain segments, as they arrive; never "/" alone, in which there is nothing to remove. */
export const path = text(
  "a path of plain segments that starts with / and does not end in one",
  /^(?:\/(?!\.{1,2}(?:\/|$))[A-Za-z0-9._~!$&'()*+,;=:@-]+)+$/,
);

const LITERAL = "[A-Za-z0-9._~!$&'()*+,;=:@-]";
const PARAMETER = "\\{[^{}/]+\\}";
const ROUTE_SEGMENT = `(?:${LITERAL}+|${LITERAL}*${PARAMETER}(?:${LITERAL}+${PARAMETER})*${LITERAL}*)`;
const ROUTE = new RegExp(
  `^(GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS) ((?:/(?!\\.{1,2}(?:/|$))${ROUTE_SEGMENT})+|/)$`,
);

/** A method and a whole path. `{name}` in it stands for a segment or the rest of one. */
export const route = read("a method and a path, such as GET /v1/status or GET /v1/jobs/{id}", {
  pattern: ROUTE,
  read: (text): ParseResult<{ readonly method: string; readonly template: string }> => {
    const [, method = "", template] = ROUTE.exec(text) ?? [];
    return template === undefined
      ? { why: "write one method in capitals, a space, and a path of plain segments" }
      : { value: { method, template } };
  },
});

export const networks = z
  .array(network, "a list of networks")
  .max(1_000, "a list of at most 1000 networks");

export const planName = quotable("the name of a plan", NAME);

/** The schema, or `off`, which is undefined. */
export function offOr<T extends z.ZodType>(schema: T) {
  const title = `off, or ${schema.meta()?.title}`;
  return z.union([off, schema], title).meta({ title });
}

const TOKEN = "a token of at most 512 printable characters without spaces";

export const token = quotable(TOKEN, /^[\x21-\x7e]{0,512}$/);

/** An optional key, with its default as a person would write it, and its meaning. */
export function optional<T extends z.ZodType>(
  schema: T,
  fallback: z.input<T>,
  description: string,
) {
  return schema.prefault(fallback as never).meta({ description });
}

export function required<T extends z.ZodType>(schema: T, description: string): T {
  return schema.meta({ description });
}
