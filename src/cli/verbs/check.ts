import type { Config } from "../../config/config.ts";
import { formatMistake, type Mistake } from "../../config/file/mistake.ts";
import type { MeterBound } from "../../config/queries/meter-bounds.ts";
import { EXIT_CONFIG, EXIT_OK, EXIT_USAGE, fail } from "../../server/process/process-context.ts";
import { findOtherRecords, type OtherRecords } from "../access/gateway-differences.ts";
import { openStoredRecords } from "../access/with-keys.ts";
import { configFileOf } from "../framework/config-file.ts";
import { printJson, showWait, type Terminal, WAITING_FOR_GATEWAY } from "../framework/terminal.ts";
import { CONFIG, CONFIG_IGNORED, JSON_FLAG, type Verb } from "../framework/verb.ts";

/** Prints every mistake as FILE:LINE:COL: message, and warnings, which do not fail the check. */
export const check: Verb = {
  name: "check",
  usage: "[FILE] [--keys] [--config FILE] [--json]",
  summary: "say every mistake of the configuration",
  options: [
    {
      name: "keys",
      summary:
        "name, too, the scopes that operations need and no working key has, and accounts whose plan or environment is not there",
    },
    CONFIG,
    JSON_FLAG,
  ],
  args: [],
  optional: ["FILE"],
  example: "check config/tollgate.yaml",
  async run(invocation, terminal) {
    const { loadConfig } = await import("../../config/load/load.ts");
    const file = invocation.args[0] ?? configFileOf(invocation);
    const other = invocation.text("config") ?? file;
    if (other !== file) {
      const message = `Cannot check two files: ${file} and --config ${other}; leave one`;
      return fail(terminal, EXIT_USAGE, message);
    }
    const loaded = await loadConfig(file, terminal.env, { forStart: true });
    const mistakes = loaded.ok ? [] : loaded.mistakes;
    const ofRecords =
      loaded.ok && invocation.flag("keys") ? await recordWarnings(loaded.config, terminal) : [];
    const warnings = loaded.ok ? [...loaded.warnings, ...ofRecords] : [];
    for (const warning of warnings) {
      terminal.err(`${formatMistake({ ...warning, message: `warning: ${warning.message}` })}\n`);
    }
    for (const mistake of mistakes) terminal.err(`${formatMistake(mistake)}\n`);
    const bounds = loaded.ok ? await boundsOf(loaded.config) : [];
    const metered = bounds.length === 0 ? {} : { bounds };
    if (invocation.flag("json"))
      printJson(terminal, { ok: loaded.ok, mistakes, warnings, ...metered });
    else if (loaded.ok) sayFine(file, loaded.config, bounds, terminal);
    return loaded.ok ? EXIT_OK : EXIT_CONFIG;
  },
};

/** Records have no place in the file, so the warnings name its first line. */
async function recordWarnings(config: Config, terminal: Terminal): Promise<Mistake[]> {
  const keys = await openStoredRecords(config, terminal);
  const asked = findOtherRecords(keys, config).finally(() => keys.close());
  const other = await showWait(terminal, WAITING_FOR_GATEWAY, asked);
  const records = keys.records();
  const { unserved } = await import("../../config/unserved-records.ts");
  const { missingScopes } = await import("../../config/queries/missing-scopes.ts");
  const nowMs = terminal.now();
  const missing = missingScopes(config.environments, records.keys, nowMs);
  const messages = [
    ...(other === undefined ? [] : [otherRecordsText(other)]),
    ...unserved(config, records, nowMs).map(({ accounts, tell }) => tell(accounts)),
    ...missing.map(
      ({ environment, scope, operation }) =>
        `No working key of ${environment} has the scope ${scope}, which ${operation} asks for; issue one with --scope ${scope}`,
    ),
  ];
  return messages.map((message) => ({ file: config.file, line: 1, column: 1, message }));
}

/** A file may be checked for another gateway than the one that runs, so this is no mistake. */
function otherRecordsText({ place, origin, running }: OtherRecords): string {
  const checked = `The key records in ${place} were checked, and`;
  return place === running
    ? `${checked} those that the gateway at ${origin} has read there are gone: put them back, or restart the gateway if it is to have these`
    : `${checked} the gateway at ${origin} has read others in ${running}: give the command its configuration and TOLLGATE_DATA`;
}

async function boundsOf(config: Config): Promise<readonly MeterBound[]> {
  const { meterBounds } = await import("../../config/queries/meter-bounds.ts");
  return meterBounds(config);
}

function sayFine(
  file: string,
  { environments, plans, planBounds, store }: Config,
  bounds: readonly MeterBound[],
  terminal: Terminal,
): void {
  const names = environments.map(({ name }) => name).join(", ");
  const planNames = [...plans.keys()].join(", ");
  terminal.out(`${file} is fine: ${names}; plans ${planNames}; store ${store.shown}\n`);
  for (const { plan, meter, window, limit, ...bound } of bounds) {
    const which = `plan ${plan}: ${meter}.${window}, limit ${limit}`;
    terminal.out(`${which}, ${boundText(bound, planBounds.get(plan)?.concurrent)}\n`);
  }
}

function boundText(
  { over, overEach }: Pick<MeterBound, "over" | "overEach">,
  concurrent: number | undefined,
): string {
  if (over === 0) return "is never passed";
  if (over !== null) return `is passed by at most ${over}`;
  if (overEach === null) return "is taken from by no operation";
  const each = `is passed by at most ${overEach} for each request under way, as a hold is 0`;
  if (concurrent === undefined) return each;
  return `${each}: by ${overEach * concurrent} for each process, as concurrent is ${concurrent}`;
}

/** Prints always one JSON value; --json and --config are accepted and have no effect. */
export const schema: Verb = {
  name: "schema",
  usage: "[--config FILE] [--json]",
  summary: "print the JSON Schema of the configuration",
  options: [CONFIG_IGNORED, JSON_FLAG],
  args: [],
  example: "schema > tollgate.schema.json",
  async run(_call, terminal) {
    const { schemaText } = await import("../../config/schema/json-schema.ts");
    terminal.out(schemaText());
    return EXIT_OK;
  },
};
