import { type ParseArgsOptionsConfig, parseArgs } from "node:util";
import { didYouMean } from "../frame/suggest.ts";
import type { Invocation, Option, Verb } from "./verb.ts";

const HELP: Option = { name: "help", summary: "show this" };

export type ParsedArguments =
  | { readonly ok: true; readonly call: Invocation }
  | { readonly ok: false; readonly message: string };

/**
 * Refuses unknown options, options without their value, and arguments that are missing or too many;
 * of what is missing, all of it is named at once. One option with two values is refused, too.
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
    const given = [parsed.values[doubled.name] ?? []].flat().map((one) => JSON.stringify(one));
    const message = `--${doubled.name} is given ${given.length} times: ${given.join(" and ")}; leave one`;
    return { ok: false, message };
  }
  const call = callOf(parsed.values, parsed.positionals, argv);
  return call.flag("help") ? { ok: true, call } : counted(verb, call);
}

type OptionToken = {
  readonly name: string;
  readonly rawName: string;
  readonly value?: string | undefined;
  readonly inlineValue?: boolean | undefined;
};

/** The mistake in one use of an option, if there is one. */
function misused(token: OptionToken, options: readonly Option[]): string | undefined {
  const { name, rawName, value, inlineValue = false } = token;
  const option = options.find((one) => one.name === name);
  if (option === undefined) {
    const known = options.map((one) => `--${one.name}`);
    return `Unknown option ${rawName}${didYouMean(rawName, known)}`;
  }
  if (option.value === undefined) return inlineValue ? `${rawName} takes no value` : undefined;
  // A value that begins with a dash is the next option, unless it stands behind an equals sign.
  const missing = value === undefined || (!inlineValue && /^--?[a-z]/.test(value));
  return missing ? `${rawName} needs a value: ${rawName} ${option.value}` : undefined;
}

function counted(verb: Verb, call: Invocation): ParsedArguments {
  const { args, optional = [], more = false } = verb;
  const missing = [
    ...args.slice(call.args.length),
    ...verb.options
      .filter(({ name, required = false }) => required && call.text(name) === undefined)
      .map(({ name, value }) => `--${name} ${value}`),
  ];
  if (missing.length > 0) return { ok: false, message: `Missing ${missing.join(", ")}` };
  const extra = call.args[args.length + optional.length];
  if (extra !== undefined && !more) {
    return { ok: false, message: `Unexpected argument ${JSON.stringify(extra)}` };
  }
  return { ok: true, call };
}

type Values = Readonly<Record<string, string | boolean | (string | boolean)[] | undefined>>;

function callOf(values: Values, args: readonly string[], words: readonly string[]): Invocation {
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
