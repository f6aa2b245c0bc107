import { cleanText, formatCount } from "../../base/messages.ts";
import { formatMistake, formatPlace } from "../../config/file/mistake.ts";
import { EXIT_FAILURE, EXIT_OK, fail } from "../../server/process/process-context.ts";
import type { GatewayReport } from "../../telemetry/gateway-status.ts";
import type { ReadinessChecks } from "../../telemetry/readiness.ts";
import { fetchAdmin, fetchAllPages } from "../access/admin-client.ts";
import { type ReachedGateway, reachGateway } from "../access/reach.ts";
import { formatInstant, formatTable, styleOf } from "../framework/table.ts";
import { printJson, showWait, type Terminal, WAITING_FOR_GATEWAY } from "../framework/terminal.ts";
import { GATEWAY_OPTIONS, type Invocation, type Option, type Verb } from "../framework/verb.ts";

type Readiness = { readonly status: string; readonly checks: ReadinessChecks };

const ALL: Option = {
  name: "all",
  summary: "list all gateways that share its store, with 1 where one of them is not ready",
};

/** Shows the state of the running gateway. Exits with 1 if it is not ready, or does not reply. */
export const status: Verb = {
  name: "status",
  usage: "[--all] [--admin URL] [--config FILE] [--json]",
  summary: "tell how the running gateway is, with 1 where it is not ready",
  options: [ALL, ...GATEWAY_OPTIONS],
  args: [],
  example: "status --config config/tollgate.yaml",
  async run(invocation, terminal) {
    const reached = await reachGateway(invocation, terminal, { readsFile: true });
    if (typeof reached === "number") return reached;
    if (invocation.flag("all")) return tellAll(reached, invocation, terminal);
    const { config } = reached;
    const wait = <T>(asked: Promise<T>) => showWait(terminal, WAITING_FOR_GATEWAY, asked);
    const question = { path: "/readyz", also: [503], members: ["status", "checks"] };
    const ready = await wait(fetchAdmin<Readiness>(config, question));
    if (!ready.ok) return fail(terminal, EXIT_FAILURE, ready.message);
    const inForce = { path: "/api/config", members: ["hash"] };
    const shown = await wait(fetchAdmin<{ hash: string }>(config, inForce));
    if (!shown.ok) return fail(terminal, EXIT_FAILURE, shown.message);
    const { status: told, checks } = ready.value;
    const { hash } = shown.value;
    const mistakes = reached.mistakes.map(formatMistake);
    const why = mistakes.length === 0 ? checks.config?.why : undefined;
    const refusals = why === undefined ? [] : await wait(fetchRefusals(config));
    if (invocation.flag("json")) {
      const notReloaded = [...mistakes, ...(refusals ?? [why])];
      printJson(terminal, { status: told, checks, config: hash, notReloaded });
    } else terminal.out(statusText({ told, checks, hash, reached, refusals }, terminal));
    return told === "ready" ? EXIT_OK : EXIT_FAILURE;
  },
};

/** Without these reasons `status` still has the kind of reason, so that it does not wait long for them. */
const REFUSALS_MS_MAX = 2_000;

/** Why the last reload was refused; undefined if an earlier version does not tell. */
async function fetchRefusals(
  config: ReachedGateway["config"],
): Promise<readonly string[] | undefined> {
  const asked = await fetchAdmin<{ notReloaded: unknown }>(config, {
    ...{ path: "/api/reload", members: ["notReloaded"], withinMs: REFUSALS_MS_MAX },
  });
  const refusals = asked.ok ? asked.value.notReloaded : undefined;
  return Array.isArray(refusals) ? refusals.map((why) => cleanText(String(why))) : undefined;
}

/** Lists the gateways that share the store of the running one. */
async function tellAll(
  { config }: ReachedGateway,
  invocation: Invocation,
  terminal: Terminal,
): Promise<number> {
  const listed = fetchAllPages<GatewayReport>(config, { path: "/api/gateways" });
  const asked = await showWait(terminal, WAITING_FOR_GATEWAY, listed);
  if (!asked.ok) return fail(terminal, EXIT_FAILURE, asked.message);
  const gateways = asked.value;
  if (invocation.flag("json")) printJson(terminal, gateways);
  else terminal.out(gatewaysText(gateways, terminal));
  const isWell = gateways.length > 0 && gateways.every(({ state }) => state === "ready");
  return isWell ? EXIT_OK : EXIT_FAILURE;
}

const GATEWAY_COLUMNS = [
  ...["gateway", "state", "version", "config", "started"],
  ...["requests/s", "refusals/s", "store ms", "why"],
];

/** A `!` follows each version and hash that differs from those of most gateways. */
function gatewaysText(gateways: readonly GatewayReport[], terminal: Terminal): string {
  const sum = (name: "requestsPerSecond" | "refusalsPerSecond") =>
    gateways.reduce((all, gateway) => all + gateway[name], 0).toFixed(1);
  const rows = gateways.map((gateway) => {
    const { name, state, version, config, started, self, age, storeMs, differs, why } = gateway;
    const marked = (member: "version" | "config", text: string) =>
      differs.includes(member) ? `${text} !` : text;
    return [
      self ? `${name} *` : name,
      state,
      marked("version", version),
      marked("config", config.slice(0, 8)),
      formatInstant(started),
      gateway.requestsPerSecond,
      gateway.refusalsPerSecond,
      storeMs ?? "-",
      state === "silent" ? `no news for ${age} s` : (why ?? ""),
    ];
  });
  const table = formatTable(terminal, GATEWAY_COLUMNS, rows);
  const total = `${formatCount(gateways.length, "gateway")}, ${sum("requestsPerSecond")} requests/s, ${sum("refusalsPerSecond")} refusals/s; * answers here`;
  const marks = gateways.some(({ differs }) => differs.length > 0)
    ? "; ! is not as in most gateways"
    : "";
  return `${table}${total}${marks}\n`;
}

type ShownStatus = {
  readonly told: string;
  readonly checks: ReadinessChecks;
  readonly hash: string;
  readonly reached: ReachedGateway;
  readonly refusals: readonly string[] | undefined;
};

function statusText(shown: ShownStatus, terminal: Terminal): string {
  const { told, checks, hash, refusals = [] } = shown;
  const { bold } = styleOf(terminal);
  const lines = Object.entries(checks).map(([name, { ok, why }]) => {
    return `  ${name.padEnd(10)} ${ok ? "ok" : bold("FAILS")}${why === undefined ? "" : `  ${why}`}\n`;
  });
  const refused = refusals.map((why) => `  refused    ${why}\n`);
  return `Tollgate is ${bold(told)}\n${lines.join("")}  in force   ${hash.slice(0, 8)}  ${fileText(shown)}\n${refused.join("")}`;
}

/** Whether the configuration in force is that of the file. */
function fileText({ checks, hash, reached }: ShownStatus): string {
  const { config, mistakes, isRemote } = reached;
  const [mistake] = mistakes;
  if (mistake !== undefined) return `not reloaded: ${formatPlace(mistake)}`;
  if (isRemote) return "";
  if (hash !== config.hash) return "not the file as it is now";
  // The hash leaves out the content of secret files, so it is also that of a reload that was refused for one.
  const isReloaded = checks.config.why === undefined;
  return `the file as it is now${isReloaded ? "" : ", but not all that it names"}`;
}

/**
 * Another way to reload if the gateway could not be reached. A gateway that refused has said why.
 */
function insteadOf(status: number | undefined): string {
  if (status === 401) return `\n${OTHER_TOKEN}`;
  return status === undefined || status === 403 ? `\n${INSTEAD}` : "";
}

/** A gateway waits for each answer of its workers up to 5 s, and for one that starts up to a minute. */
const RELOADED_MS_MAX = 90_000;

/** The status of a gateway's answer that names each mistake of its file. */
const INVALID = 422;

type ReloadReply = { readonly hash: string };

const INSTEAD = "Saving the file reloads it too, and so does SIGHUP to the process";
/** A gateway uses its old token until it has read the new one. */
const OTHER_TOKEN =
  "Where admin.token was changed the gateway still has the old one: SIGHUP to the process, or saving the file, puts the new one in force";

/** Makes the running gateway read its configuration again. */
export const reload: Verb = {
  name: "reload",
  usage: "[--admin URL] [--config FILE] [--json]",
  summary: "have the running gateway read its configuration again",
  options: GATEWAY_OPTIONS,
  args: [],
  example: "reload --config config/tollgate.yaml",
  async run(invocation, terminal) {
    const reached = await reachGateway(invocation, terminal, {
      readsFile: true,
      printsMistakes: false,
    });
    if (typeof reached === "number") return reached;
    const { config, mistakes } = reached;
    const asked = fetchAdmin<ReloadReply>(config, {
      ...{ method: "POST", path: "/api/reload", withinMs: RELOADED_MS_MAX },
      members: ["hash"],
      look: "`status`",
    });
    const reloaded = await showWait(terminal, WAITING_FOR_GATEWAY, asked);
    const isToldByGateway = !reloaded.ok && reloaded.status === INVALID;
    if (mistakes.length > 0 && !isToldByGateway) {
      terminal.err(`${mistakes.map(formatMistake).join("\n")}\n`);
    }
    if (!reloaded.ok) {
      return fail(terminal, EXIT_FAILURE, `${reloaded.message}${insteadOf(reloaded.status)}`);
    }
    const { hash } = reloaded.value;
    if (invocation.flag("json")) return printJson(terminal, { hash });
    // The gateway may have been started with another file than that of this command.
    const isOther = !reached.isRemote && hash !== config.hash;
    const other = !isOther ? "" : `, which is not that of ${config.file}`;
    terminal.out(
      `The gateway has read its configuration: ${hash.slice(0, 8)} is in force${other}\n`,
    );
    return EXIT_OK;
  },
};
