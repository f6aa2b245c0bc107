import { type ParseArgsOptionsConfig, parseArgs } from "node:util";
import { readDuration } from "../../config/schema/units.ts";
import type { Terminal } from "./terminal.ts";

/** One verb of the command line. Heavy rooms are imported by `run`, so that help costs nothing. */
export type Verb = {
  /** "keys create" */
  readonly name: string;
  /** The words after the name: "ID [--grace 24h]". */
  readonly usage: string;
  readonly summary: string;
  readonly options: readonly Option[];
  /** Names of the arguments, all of them needed. */
  readonly args: readonly string[];
  run(call: Call, terminal: Terminal): Promise<number>;
};

/** `value` names what follows the option; without it the option is a flag. */
export type Option = {
  readonly name: string;
  readonly value?: string;
  readonly repeats?: boolean;
  readonly summary: string;
};

/** One use of a verb, parsed. */
export type Call = {
  readonly args: readonly string[];
  text(option: string): string | undefined;
  texts(option: string): readonly string[];
  flag(option: string): boolean;
};

export const CONFIG: Option = {
  name: "config",
  value: "FILE",
  summary: "the configuration (config/tollgate.yaml)",
};
export const JSON_FLAG: Option = {
  name: "json",
  summary: "print one JSON value and nothing else",
};
const HELP: Option = { name: "help", summary: "show this" };

export type Parsed =
  | { readonly ok: true; readonly call: Call }
  | { readonly ok: false; readonly message: string };

/** Refuses unknown options, options without their value, and too many or too few arguments. */
export function parseCall(verb: Verb, argv: readonly string[]): Parsed {
  const options: ParseArgsOptionsConfig = {};
  for (const { name, value, repeats = false } of [...verb.options, HELP]) {
    options[name] = { type: value === undefined ? "boolean" : "string", multiple: repeats };
  }
  options.help = { type: "boolean", short: "h" };
  try {
    const { values, positionals } = parseArgs({ args: [...argv], options, allowPositionals: true });
    const call = callOf(values, positionals);
    return call.flag("help") ? { ok: true, call } : counted(verb, call);
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    const [said = ""] = error.message.split(/\. |\n/);
    return { ok: false, message: said.replace(/\.$/, "") };
  }
}

function counted(verb: Verb, call: Call): Parsed {
  const missing = verb.args[call.args.length];
  if (missing !== undefined) return { ok: false, message: `Missing ${missing}` };
  const extra = call.args[verb.args.length];
  if (extra !== undefined) {
    return { ok: false, message: `Unexpected argument ${JSON.stringify(extra)}` };
  }
  return { ok: true, call };
}

type Values = Readonly<Record<string, string | boolean | (string | boolean)[] | undefined>>;

function callOf(values: Values, args: readonly string[]): Call {
  const texts = (option: string) =>
    [values[option] ?? []].flat().filter((value) => typeof value === "string");
  return {
    args,
    texts,
    text: (option) => texts(option).at(-1),
    flag: (option) => values[option] === true,
  };
}

/** The milliseconds of an option such as `--grace 24h`, undefined without it, or what is wrong. */
export function readPeriod(call: Call, option: string): number | string | undefined {
  const text = call.text(option);
  if (text === undefined) return undefined;
  const period = readDuration(text);
  if (period !== undefined) return period;
  return `Cannot read --${option} as a duration such as 10s, 5m, 24h or 90d: the value is ${JSON.stringify(text)}`;
}
