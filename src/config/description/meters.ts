import { isHopByHop } from "../../core/http/forwarded-fields.ts";
import type { OperationMeter } from "../../core/quota/meters.ts";
import { type PlanMeter, windowRow } from "../../core/quota/windows.ts";
import { type Findings, noteIssues } from "../file/findings.ts";
import { type ConfigPath, formatPath, type YamlMap } from "../file/mistake.ts";
import { buildOperationMeters, operationMeters } from "../schema/meters.ts";
import type { OperationNames } from "./operation-names.ts";

/** The meters of each plan. */
export type PlanMeters = ReadonlyMap<string, readonly PlanMeter[]>;

const KEYS = ["hold", "max", "untold", "used"];

/** Reads `x-meters`: what an answer costs by each meter (docs/reference/meters.md). */
export function readOperationMeters(
  operation: YamlMap,
  path: ConfigPath,
  findings: Findings,
  { names, planMeters }: { readonly names: OperationNames; readonly planMeters: PlanMeters },
): readonly OperationMeter[] {
  const value = operation["x-meters"];
  if (value === undefined) return [];
  const at = [...path, "x-meters"];
  const read = operationMeters.safeParse(value);
  if (!read.success) {
    noteIssues(findings, read.error.issues, at, () => KEYS);
    return [];
  }
  const meters = buildOperationMeters(read.data);
  for (const { name } of meters) {
    const where = `${formatPath([...at, name])} of ${findings.file}`;
    const other = names.claimMeter(name, where);
    if (other === undefined) continue;
    findings.mistakeAtKey(
      [...at, name],
      `Cannot use the name ${name} for a meter: the operation at ${other} has it; rename one`,
    );
  }
  warnOfMeters(meters, at, findings, planMeters);
  return meters;
}

/** Windows up to this length are often over before a stream has ended. */
const SHORT_MS_MAX = 3_600_000;

/** Meters that can do less than they seem to are allowed, but probably unintended. */
export function warnOfMeters(
  meters: readonly OperationMeter[],
  path: ConfigPath,
  findings: Findings,
  planMeters: PlanMeters,
): void {
  for (const meter of meters) {
    const at = [...path, meter.name];
    for (const message of [
      ...lackOf(meter, planMeters),
      ...lowLimitsOf(meter, planMeters),
      ...shortWindowsOf(meter, planMeters),
      ...hintsOf(meter),
    ]) {
      findings.warning(at, message);
    }
  }
}

function lackOf({ name }: OperationMeter, planMeters: PlanMeters): string[] {
  const plans = [...planMeters].flatMap(([plan, meters]) => {
    return meters.some((meter) => meter.name === name) ? [] : [plan];
  });
  if (plans.length === 0) return [];
  return [
    `The meter ${name} is not in plan ${plans.join(", ")}: accounts there without a limit of their own for it get 403 meter_missing; add it to the plan, with windows or as unlimited`,
  ];
}

function lowLimitsOf({ name, hold }: OperationMeter, planMeters: PlanMeters): string[] {
  const low = [...planMeters].flatMap(([plan, meters]) => {
    const limits = meters.find((meter) => meter.name === name)?.limits ?? [];
    return limits
      .filter(({ limit }) => hold > limit)
      .map(({ window, limit }) => `${window} ${limit} (plan ${plan})`);
  });
  if (low.length === 0) return [];
  return [
    `The hold of ${hold} of the meter ${name} is above its limits: ${low.join(", ")}; such accounts always get 403 cost_over_limit; raise these, or hold less`,
  ];
}

function shortWindowsOf({ name, hold, max, used }: OperationMeter, planMeters: PlanMeters) {
  if (hold === max || used.every(({ from }) => from !== "sse")) return [];
  const short = [...planMeters].flatMap(([plan, meters]) => {
    const limits = meters.find((meter) => meter.name === name)?.limits ?? [];
    return limits
      .filter(({ window }) => windowRow(window).lengthMs <= SHORT_MS_MAX)
      .map(({ window }) => `${window} (plan ${plan})`);
  });
  if (short.length === 0) return [];
  return [
    `A stream may outlast a window of the meter ${name}, which then keeps the hold of ${hold}, whatever was used: ${short.join(", ")}; use windows of a day and longer, or hold max, ${max}`,
  ];
}

function hintsOf({ name, hold, max, used }: OperationMeter): string[] {
  const all: string[] = [];
  if (hold === 0) {
    all.push(
      `With a hold of 0 each request under way may take the meter ${name} over its limit by ${max}, and only concurrent bounds how many there are; hold what a request typically uses`,
    );
  }
  if (used.length === 0) {
    all.push(
      `No answer tells what it used of the meter ${name}: each takes untold; name a source in used`,
    );
  }
  for (const source of used) {
    if (source.from !== "header" || !isHopByHop(source.name)) continue;
    all.push(
      `The field ${source.name} is of the connection to the backend, and not of the answer, so it should tell no use of the meter ${name}; name another field in used`,
    );
  }
  return all;
}
