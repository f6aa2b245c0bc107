import { quoteAddress } from "../../base/messages.ts";
import type { Config } from "../../config/config.ts";
import { formatMistake, type Mistake, type YamlMap } from "../../config/file/mistake.ts";
import type { FilePart } from "../../config/load/reachable.ts";
import { meterNames, runningMeterNames } from "../../config/queries/meter-names.ts";
import { hostPortOf } from "../../core/address.ts";
import {
  EXIT_CONFIG,
  EXIT_FAILURE,
  EXIT_USAGE,
  fail,
} from "../../server/process/process-context.ts";
import { configFileOf, holdsKey, KEY_IN_ARGUMENT } from "../framework/config-file.ts";
import { showWait, type Terminal, WAITING_FOR_GATEWAY } from "../framework/terminal.ts";
import { type Invocation, parseAdminOptions } from "../framework/verb.ts";
import { fetchAdmin, TOKEN } from "./admin-client.ts";

/** The address of a running gateway, and its records. */
export type ReachedGateway = {
  readonly config: Config;
  /** The listeners of --admin. */
  readonly admins: readonly string[];
  /** Mistakes in a file whose sound part is used. */
  readonly mistakes: readonly Mistake[];
  /** Why `config` lacks a part of the file: it has a mistake, and no gateway was asked for it. */
  readonly brokenPartError: (part: FilePart) => string | undefined;
  /** The meters of all plans and operations; undefined if the file has mistakes and no gateway runs. */
  readonly meters: readonly string[] | undefined;
  /** Whether `config` has the operations of all descriptions. */
  readonly hasDescriptions: boolean;
  /** Whether several gateways may share the store. */
  readonly sharesStore: boolean;
  /** Whether only the gateway knows plans and limits, so that queries about accounts go to it. */
  readonly asksGateway: boolean;
  /** Whether `--admin` has the address, so that key records are read and changed through it. */
  readonly isRemote: boolean;
};

/** One entry for each use of a verb, so that mistakes are printed once. */
const reached = new WeakMap<Invocation, Promise<ReachedGateway | number>>();

/**
 * Finds the running gateway that a verb queries or changes. It uses the configuration, or the sound
 * part of one with mistakes; with `--admin URL` it uses the configuration of that gateway. If this
 * fails, it prints the mistakes and returns the exit status
 * (docs/reference/commands.md#a-file-with-mistakes).
 */
export function reachGateway(
  invocation: Invocation,
  terminal: Terminal,
  options: ReachOptions = {},
): Promise<ReachedGateway | number> {
  const known = reached.get(invocation) ?? reach(invocation, terminal, options);
  reached.set(invocation, known);
  return known;
}

type ReachOptions = {
  /** Whether each `--admin` names a further gateway, in addition to that of the file. */
  readonly asksSeveral?: boolean;
  /** Whether the verb is about the file itself, so that what stands there is not replaced. */
  readonly readsFile?: boolean;
  /** False if the verb prints the mistakes of the file itself. */
  readonly printsMistakes?: boolean;
};

async function reach(
  invocation: Invocation,
  terminal: Terminal,
  { asksSeveral = false, readsFile = false, printsMistakes = true }: ReachOptions,
): Promise<ReachedGateway | number> {
  const admins = parseAdminOptions(invocation);
  if (typeof admins === "string") return fail(terminal, EXIT_USAGE, admins);
  const login = invocation.texts("admin").find((text) => {
    const { username, password } = new URL(text);
    return username !== "" || password !== "";
  });
  if (login !== undefined) {
    terminal.err(`warning: the login in --admin ${quoteAddress(login)} is ignored: use ${TOKEN}\n`);
  }
  const [admin] = admins;
  if (admin !== undefined && !asksSeveral) return reachAt(admin, admins, invocation, terminal);
  const { loadConfig } = await import("../../config/load/load.ts");
  const loaded = await loadConfig(configFileOf(invocation), terminal.env);
  const refusal =
    loaded.ok && !readsFile
      ? await showWait(terminal, WAITING_FOR_GATEWAY, refusedReload(loaded.config))
      : undefined;
  if (loaded.ok && refusal === undefined) {
    const meters = meterNames(loaded.config);
    const sharesStore = loaded.config.store.kind !== "memory";
    const found = { config: loaded.config, admins, meters, sharesStore, ...SOUND };
    return checked(found, invocation, terminal);
  }
  const { loadReachable } = await import("../../config/load/reachable.ts");
  const found = await loadReachable(configFileOf(invocation), terminal.env);
  if (!found.ok) {
    if (admin !== undefined) return reachAt(admin, admins, invocation, terminal);
    return fail(terminal, EXIT_CONFIG, found.mistakes.map(formatMistake).join("\n"));
  }
  const { mistakes, config } = found.reach;
  if (printsMistakes) terminal.err(`${refusal ?? mistakes.map(formatMistake).join("\n")}\n`);
  const asked = fetchAdmin<YamlMap>(config, RUNNING);
  const running = await showWait(terminal, WAITING_FOR_GATEWAY, asked);
  const known = running.ok ? await found.reach.with(running.value) : undefined;
  const brokenPartError = known === undefined ? found.reach.brokenPartError : () => undefined;
  const meters = running.ok ? runningMeterNames(running.value) : undefined;
  const sharesStore = config.store.kind !== "memory";
  const from = { asksGateway: running.ok, isRemote: false, hasDescriptions: false, sharesStore };
  const told = { admins, mistakes, meters, brokenPartError, ...from };
  return checked({ config: known ?? config, ...told }, invocation, terminal);
}

const SOUND = {
  mistakes: [],
  brokenPartError: () => undefined,
  asksGateway: false,
  isRemote: false,
  hasDescriptions: true,
} as const;
const RUNNING = { path: "/api/config", members: ["plans", "environments", "hash"] } as const;

type Readiness = { readonly checks: { readonly config?: { readonly why?: string } } };

/**
 * Why the running gateway did not take over a file that has no mistakes; undefined if it did, or if
 * none answers. Its own plans and environments hold then: a key for a plan that it does not have
 * would be 503.
 */
async function refusedReload(config: Config): Promise<string | undefined> {
  const members = ["status", "checks"];
  const question = { path: "/readyz", also: [503], members, withinMs: ANSWER_MS_MAX };
  const ready = await fetchAdmin<Readiness>(config, question);
  const why = ready.ok ? ready.value.checks.config?.why : undefined;
  if (why === undefined) return undefined;
  const running = await fetchAdmin<YamlMap>(config, RUNNING);
  if (!running.ok || running.value.hash === config.hash) return undefined;
  return `${config.file}: warning: ${why}. The plans and environments of the gateway hold`;
}

/** A gateway that does not answer by then is not waited for: the file is as good as known. */
const ANSWER_MS_MAX = 2_000;

/** Uses the admin listener at `origin` for everything, whatever the file says. */
async function reachAt(
  origin: string,
  admins: readonly string[],
  invocation: Invocation,
  terminal: Terminal,
): Promise<ReachedGateway | number> {
  const token = terminal.env[TOKEN] ?? "";
  const { configOfRunning } = await import("../../config/load/reachable.ts");
  const schema = (await import("../../config/schema/value-types.ts")).token;
  if (!schema.safeParse(token).success) {
    const why = /[\r\n]/.test(token) ? "has a line end" : `is not ${schema.meta()?.title}`;
    return fail(terminal, EXIT_USAGE, `Cannot use ${TOKEN}: it ${why}`);
  }
  const admin = { listen: hostPortOf(new URL(origin)), token, hosts: [], url: origin };
  const asked = fetchAdmin<YamlMap>({ admin }, RUNNING);
  const running = await showWait(terminal, WAITING_FOR_GATEWAY, asked);
  if (!running.ok) {
    // The path of --admin may lead nowhere.
    const where = running.status === 404 ? ` (--admin, ${origin})` : "";
    return fail(terminal, EXIT_FAILURE, `${running.message}${where}`);
  }
  const config = await configOfRunning(running.value, admin);
  if (config === undefined) {
    const message = `Cannot use the configuration of the gateway at ${origin}: it is of another version`;
    return fail(terminal, EXIT_FAILURE, message);
  }
  const meters = runningMeterNames(running.value);
  const sharesStore = running.value.store !== "memory";
  const from = { asksGateway: true, isRemote: true, hasDescriptions: false, sharesStore };
  return checked({ ...SOUND, config, admins, meters, ...from }, invocation, terminal);
}

/** The exit status if one of the parts of the file is broken, after stderr was told. */
export function failIfBroken(
  { brokenPartError }: Pick<ReachedGateway, "brokenPartError">,
  terminal: Pick<Terminal, "err">,
  parts: readonly FilePart[],
): number | undefined {
  const [broken] = parts.flatMap((part) => brokenPartError(part) ?? []);
  return broken === undefined ? undefined : fail(terminal, EXIT_CONFIG, broken);
}

function checked(
  found: ReachedGateway,
  invocation: Invocation,
  terminal: Terminal,
): ReachedGateway | number {
  if (holdsKey(invocation, found.config)) return fail(terminal, EXIT_USAGE, KEY_IN_ARGUMENT);
  return found;
}
