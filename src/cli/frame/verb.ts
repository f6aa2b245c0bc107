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
  /** Names of arguments that may follow. */
  readonly optional?: readonly string[];
  /** Any number of further arguments. */
  readonly more?: boolean;
  /** A use of the verb, as one would type it after `tollgate`. */
  readonly example?: string;
  run(call: Call, terminal: Terminal): Promise<number>;
};

/** `value` names what follows the option; without it the option is a flag. */
export type Option = {
  readonly name: string;
  readonly value?: string;
  readonly repeats?: boolean;
  /** The verb cannot do without it. */
  readonly required?: boolean;
  readonly summary: string;
};

/** One use of a verb, parsed. */
export type Call = {
  readonly args: readonly string[];
  /** All of it as it was typed. */
  readonly words: readonly string[];
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
/** The milliseconds of an option such as `--grace 24h`, undefined without it, or what is wrong. */
export function readPeriod(call: Call, option: string): number | string | undefined {
  const text = call.text(option);
  if (text === undefined) return undefined;
  const period = readDuration(text);
  if (period !== undefined) return period;
  return `Cannot read --${option} as a duration such as 10s, 5m, 24h or 90d: the value is ${JSON.stringify(text)}`;
}

export const LOG: Option = {
  name: "log",
  value: "FILE",
  repeats: true,
  summary: "a log of a gateway, compressed by gzip or not; several of them, in any order",
};

/** All log files of a call: each --log, and, as a shell expands `--log *.log`, what follows `args`. */
export function logFilesOf(call: Call, args: number): readonly string[] {
  const named = call.texts("log");
  return named.length === 0 ? [] : [...named, ...call.args.slice(args)];
}
