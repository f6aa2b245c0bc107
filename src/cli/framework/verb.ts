import { quoteAddress, quoteValue } from "../../base/messages.ts";
import { DURATION_WORDS, parseDuration } from "../../config/schema/units.ts";
import { isValidPeriod } from "../../core/keys/edit-rules.ts";
import type { Terminal } from "./terminal.ts";

/**
 * One verb of the command line. Large modules are imported by `run`, so that help costs nothing.
 */
export type Verb = {
  /** "keys create" */
  readonly name: string;
  /** The words after the name: "ID [--grace 24h]". */
  readonly usage: string;
  readonly summary: string;
  readonly options: readonly Option[];
  /** Names of the required arguments. */
  readonly args: readonly string[];
  /** Names of optional arguments, which follow. */
  readonly optional?: readonly string[];
  /** Whether any number of further arguments may follow; they are files of --log if it has that. */
  readonly more?: boolean;
  /** An example, as typed after `tollgate`. */
  readonly example?: string;
  /** `version` is that of the program. */
  run(invocation: Invocation, terminal: Terminal, version: string): Promise<number>;
};

/** `value` names the value that follows the option; if undefined, the option is a flag. */
export type Option = {
  readonly name: string;
  readonly value?: string;
  /** The words that the value is one of, for shells to complete. */
  readonly choices?: readonly string[];
  readonly repeats?: boolean;
  /** Whether the verb requires the option. */
  readonly required?: boolean;
  readonly summary: string;
};

/** One use of a verb, parsed. */
export type Invocation = {
  readonly args: readonly string[];
  /** All words as they were typed. */
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
/** For verbs that query or change a running gateway. */
export const ADMIN: Option = {
  name: "admin",
  value: "URL",
  summary:
    "use the gateway at this admin listener, whatever the file says; its token is TOLLGATE_ADMIN_TOKEN",
};
/** For verbs that ask several gateways, in addition to that of the configuration. */
export const FURTHER_ADMIN = { name: "admin", value: "URL", repeats: true } as const;
/** Every verb accepts --config; for some it has no effect. */
export const CONFIG_IGNORED: Option = { ...CONFIG, summary: "accepted, and not used here" };
export const JSON_FLAG: Option = {
  name: "json",
  summary: "print one JSON value and nothing else",
};
/** For verbs that ask one gateway, or change what it has. */
export const GATEWAY_OPTIONS: readonly Option[] = [ADMIN, CONFIG, JSON_FLAG];
/** For verbs that run until they are stopped, and print the log. */
export const JSON_LINES: Option = {
  name: "json",
  summary: "print JSON lines and nothing else, at a terminal too",
};

/** The milliseconds of an option such as `--grace 24h`, undefined without it, or the mistake. */
export function parsePeriodOption(
  invocation: Invocation,
  option: string,
  leastMs = 1,
): number | string | undefined {
  const text = invocation.text(option);
  if (text === undefined) return undefined;
  const period = parseDuration(text);
  if (period !== undefined && isValidPeriod(period, leastMs)) return period;
  if (period !== undefined) {
    return `Cannot use --${option} ${text}: it must be from ${leastMs}ms to 36525d`;
  }
  return `Cannot read --${option} as ${DURATION_WORDS}: the value is ${quoteValue(text)}`;
}

/**
 * The further admin listeners of a call (each --admin), or the mistake in one. They use HTTP, as
 * `admin.listen` does. Each is an origin, and its path if a proxy has the listener below one. It has no
 * login: the token comes from the environment.
 */
export function parseAdminOptions(invocation: Invocation): readonly string[] | string {
  const named = invocation.texts("admin");
  const wrong = named.find((text) => !URL.canParse(text) || new URL(text).protocol !== "http:");
  if (wrong !== undefined) {
    return URL.canParse(wrong) && new URL(wrong).protocol === "https:"
      ? `Cannot use --admin ${quoteAddress(wrong)}: commands ask admin listeners by http only, so reach one behind TLS by a tunnel`
      : `Cannot read --admin as the address of an admin listener such as http://10.0.0.2:9090: the value is ${quoteAddress(wrong)}`;
  }
  const urls = named.map((text) => new URL(text));
  const extra = named.find((_, i) => `${urls[i]?.search}${urls[i]?.hash}` !== "");
  if (extra === undefined) return urls.map((url) => url.origin + url.pathname.replace(/\/+$/, ""));
  return `Cannot use a query or a fragment in --admin: the value is ${quoteAddress(extra.replace(/([?#]).*/s, "$1***"))}`;
}

export const LOG: Option = {
  name: "log",
  value: "FILE",
  repeats: true,
  summary: "a log of a gateway, compressed by gzip or not; several of them, in any order",
};

/** All log files: each --log, and what follows `args`, as a shell expands `--log *.log`. */
export function logFilesOf(invocation: Invocation, args: number): readonly string[] {
  const named = invocation.texts("log");
  return named.length === 0 ? [] : [...named, ...invocation.args.slice(args)];
}
