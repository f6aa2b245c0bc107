import { type ParseArgsOptionsConfig, parseArgs } from "node:util";
import { cleanText } from "../../base/messages.ts";
import { CONFIG, type Invocation, LOG, type Option, type Verb } from "./verb.ts";

const HELP: Option = { name: "help", summary: "show this" };

export type ParsedArguments =
  | { readonly ok: true; readonly invocation: Invocation }
  | { readonly ok: false; readonly message: string };

/**
 * Refuses unknown options, options without a value, an option with two values, and too many or
 * missing arguments. If several are missing, the message names all of them.
 */
export function parseArguments(verb: Verb, argv: readonly string[]): ParsedArguments {
  const options = [...verb.options, HELP];
  const types: ParseArgsOptionsConfig = {};
  for (const { name, value } of options) {
    types[name] = { type: value === undefined ? "boolean" : "string", multiple: true };
  }
  types.help = { type: "boolean", multiple: true, short: "h" };
  const parsed = parseArgs({
    args: [...argv],
    options: types,
    allowPositionals: true,
    strict: false,
    tokens: true,
  });
  for (const token of parsed.tokens) {
    if (token.kind !== "option") continue;
    const wrong = misused(token, options);
    if (wrong !== undefined) return { ok: false, message: wrong };
  }
  const doubled = options.find(({ name, value, repeats = false }) => {
    const given = parsed.values[name];
    return value !== undefined && !repeats && new Set([given ?? []].flat()).size > 1;
  });
  if (doubled !== undefined) {
    // A value may hold a password.
    const { length } = [parsed.values[doubled.name] ?? []].flat();
    const message = `--${doubled.name} is given ${length} times with different values; leave one`;
    return { ok: false, message };
  }
  const invocation = invocationOf(parsed.values, parsed.positionals, argv);
  return invocation.flag("help") ? { ok: true, invocation } : checkArguments(verb, invocation);
}

type OptionToken = {
  readonly name: string;
  readonly rawName: string;
  readonly value?: string | undefined;
  readonly inlineValue?: boolean | undefined;
};

/** The mistake in one use of an option; undefined if there is none. */
function misused(token: OptionToken, options: readonly Option[]): string | undefined {
  const { name, rawName, value, inlineValue = false } = token;
  const option = options.find((one) => one.name === name);
  if (option === undefined) {
    const known = options.map((one) => `--${one.name}`);
    return `Unknown option ${cleanText(rawName)}${didYouMean(rawName, known)}`;
  }
  if (option.value === undefined) return inlineValue ? `${rawName} takes no value` : undefined;
  // A value that looks like an option is the next option, unless it follows an equals sign. An id
  // may begin with a dash (docs/reference/keys.md#ids).
  const isNext = !inlineValue && /^--|^-[a-z]$/.test(value ?? "");
  // No file has an empty name: the variable in `--config="$FILE"` is not set.
  const missing = value === undefined || isNext || (value === "" && option.value === CONFIG.value);
  return missing ? `${rawName} needs a value: ${rawName} ${option.value}` : undefined;
}

/** Arguments that name a file. */
const FILE_ARGUMENT = /^FILE$|\.yaml$/;

function checkArguments(verb: Verb, invocation: Invocation): ParsedArguments {
  const { args, optional = [], more = false } = verb;
  const { args: words } = invocation;
  const missing = [
    ...args.slice(words.length),
    // As with --config: the variable in `check "$FILE"` is not set.
    ...[...args, ...optional].filter((arg, i) => FILE_ARGUMENT.test(arg) && words[i] === ""),
    ...verb.options
      .filter(({ name, required = false }) => required && invocation.text(name) === undefined)
      .map(({ name, value }) => `--${name} ${value}`),
  ];
  if (missing.length > 0) return { ok: false, message: `Missing ${missing.join(", ")}` };
  const most = args.length + optional.length;
  const readsLogs = verb.options.some(({ name }) => name === LOG.name);
  const lacksLog = readsLogs && invocation.text(LOG.name) === undefined;
  if (words.length > most && (!more || lacksLog)) {
    const taken = most === 0 ? "no argument is" : most === 1 ? "one is" : `${most} are`;
    // Names the argument by its place, because it may be a key.
    return { ok: false, message: `Unexpected argument ${most + 1}: ${taken} taken` };
  }
  return { ok: true, invocation };
}

type Values = Readonly<Record<string, string | boolean | (string | boolean)[] | undefined>>;

function invocationOf(
  values: Values,
  args: readonly string[],
  words: readonly string[],
): Invocation {
  const texts = (option: string) =>
    [values[option] ?? []].flat().filter((value) => typeof value === "string");
  return {
    args,
    words,
    texts,
    text: (option) => texts(option).at(-1),
    flag: (option) => [values[option] ?? []].flat().includes(true),
  };
}

/** Names with a greater edit distance than this are not suggested. */
const DISTANCE_MAX = 2;

/** ": did you mean start?" with the known name closest to a typed one; "" if none is close. */
export function didYouMean(typed: string, known: readonly string[]): string {
  const max = Math.min(DISTANCE_MAX, Math.floor(typed.length / 2));
  let best: { readonly name: string; readonly distance: number } | undefined;
  for (const name of known) {
    const distance = name.startsWith(typed) ? 1 : edits(typed, name);
    if (distance <= max && distance < (best?.distance ?? Number.POSITIVE_INFINITY)) {
      best = { name, distance };
    }
  }
  return best === undefined ? "" : `: did you mean ${best.name}?`;
}

/** The number of insertions, deletions, changes and swaps of neighbours between two texts. */
function edits(from: string, to: string): number {
  const rows: number[][] = [Array.from({ length: to.length + 1 }, (_, j) => j)];
  for (let i = 1; i <= from.length; i++) {
    const row = [i];
    const before = rows[i - 1] as number[];
    for (let j = 1; j <= to.length; j++) {
      const same = from[i - 1] === to[j - 1];
      const [above = 0, aside = 0, across = 0] = [before[j], row[j - 1], before[j - 1]];
      let least = Math.min(above + 1, aside + 1, across + (same ? 0 : 1));
      const swapped = i > 1 && j > 1 && from[i - 1] === to[j - 2] && from[i - 2] === to[j - 1];
      if (swapped) least = Math.min(least, (rows[i - 2]?.[j - 2] ?? 0) + 1);
      row.push(least);
    }
    rows.push(row);
  }
  return rows.at(-1)?.at(-1) ?? 0;
}
