import type { Config } from "../config.ts";
import type { Draft } from "../draft/draft.ts";
import type { Findings } from "../file/findings.ts";
import type { Variables } from "../file/substitute.ts";
import { parseCollector } from "../schema/addresses.ts";

const ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT";

/**
 * The telemetry settings of the file. If the file has none, the standard variables of OpenTelemetry
 * decide (docs/reference/telemetry.md#variables). Undefined if telemetry is off.
 */
export function resolveTelemetry(
  draft: Draft,
  findings: Findings,
  variables: Variables,
): Config["telemetry"] {
  if (variables.OTEL_SDK_DISABLED?.toLowerCase() === "true") return undefined;
  const serviceName = variables.OTEL_SERVICE_NAME ?? "";
  if (findings.isGiven(["telemetry"])) {
    return draft.telemetry === undefined ? undefined : { ...draft.telemetry, serviceName };
  }
  const endpoint = variables[ENDPOINT] ?? "";
  if (endpoint === "") return undefined;
  const read = parseCollector(endpoint);
  if ("value" in read) return { otlp: read.value, sample: sampleOf(variables), serviceName };
  findings.mistake(
    [],
    `Cannot read ${ENDPOINT} as the address of a collector: ` +
      `the value is not shown, as it comes from the environment; ${read.why}`,
  );
  return undefined;
}

/** The samplers of the standard, all as `parentbased_`. Without one every trace is recorded. */
function sampleOf({ OTEL_TRACES_SAMPLER: sampler = "", ...env }: Variables): number {
  if (sampler.endsWith("always_off")) return 0;
  const given = env.OTEL_TRACES_SAMPLER_ARG ?? "";
  const ratio = given === "" ? Number.NaN : Number(given);
  return sampler.endsWith("traceidratio") && ratio >= 0 && ratio <= 1 ? ratio : 1;
}
