import { crc32 } from "node:zlib";
import { COST_MAX } from "../../core/quota/decide.ts";
import {
  CAP_NAME,
  type Limit,
  type OperationLimits,
  WINDOW_NAMES,
} from "../../core/quota/windows.ts";
import { type Findings, noteIssues } from "../file/findings.ts";
import { type ConfigPath, formatPath, type YamlMap } from "../file/mistake.ts";
import { limitsByLength, windowKeys } from "../schema/plan-windows.ts";
import { cost } from "../schema/value-types.ts";
import type { PlanMeters } from "./meters.ts";
import type { OperationNames } from "./operation-names.ts";

/** The limits and meters of all plans, for comparison with the cost of an operation. */
export type PlanCosts = {
  /** The smallest limit of each plan that has one. */
  readonly leastLimits: ReadonlyMap<string, number>;
  readonly planMeters: PlanMeters;
};

export type CostContext = PlanCosts & {
  readonly environment: string;
  readonly names: OperationNames;
};

export type OperationCost = {
  /** Units of one request, from 0. */
  readonly cost: number;
  readonly limits: OperationLimits | undefined;
};

/**
 * Reads the cost of a request of the operation, and the windows that it has in addition to those of
 * the plan (docs/reference/plans.md#cost). `x-limits` need an `operationId` that is unique in the
 * environment, because the counts are kept under it.
 */
export function readOperationCost(
  operation: YamlMap,
  path: ConfigPath,
  findings: Findings,
  costContext: CostContext,
): OperationCost {
  const units = readCost(operation["x-cost"], [...path, "x-cost"], findings);
  const windows = readWindows(operation["x-limits"], [...path, "x-limits"], findings);
  const id = claimName(operation, path, findings, costContext);
  warnOfCost(units, windows, { path, findings, costContext });
  const of = { id: id ?? "", name: String(operation.operationId) };
  const owned = windows.map((limit) => ({ ...limit, part: of }));
  return {
    cost: units,
    limits: windows.length === 0 || id === undefined ? undefined : { id, windows: owned },
  };
}

function readCost(value: unknown, path: ConfigPath, findings: Findings): number {
  if (value === undefined) return 1;
  const read = cost.safeParse(value);
  if (read.success) return read.data;
  findings.wrongValue(path, `a whole number of units from 0 to ${COST_MAX}`);
  return 1;
}

function readWindows(value: unknown, path: ConfigPath, findings: Findings): readonly Limit[] {
  if (value === undefined) return [];
  const read = windowKeys("Units").safeParse(value);
  if (!read.success) {
    noteIssues(findings, read.error.issues, path, () => WINDOW_NAMES);
    return [];
  }
  const windows = limitsByLength(read.data);
  if (windows.length === 0)
    findings.wrongValue(path, `a map with at least one of ${WINDOW_NAMES.join(", ")}`);
  return windows;
}

const OPERATION_NAME = /^[A-Za-z0-9_-]{1,64}$/;

/** The name under which the operation is counted; undefined if it has no usable name. */
function claimName(
  operation: YamlMap,
  path: ConfigPath,
  findings: Findings,
  { environment, names }: CostContext,
): string | undefined {
  const { operationId } = operation;
  const isLimited = operation["x-limits"] !== undefined;
  const at = [...path, "operationId"];
  if (typeof operationId !== "string" || !OPERATION_NAME.test(operationId)) {
    if (!isLimited) return undefined;
    const why = "its counts are kept under that name; use 1 to 64 letters, digits, _ and -";
    if (operationId === undefined) {
      findings.mistake([...path, "x-limits"], `Cannot use x-limits without an operationId: ${why}`);
    } else findings.wrongValue(at, "a name for x-limits", why);
    return undefined;
  }
  if (isLimited && operationId === CAP_NAME) {
    findings.mistake(
      at,
      `Cannot use the operationId ${CAP_NAME} with x-limits: ${CAP_NAME}.minute is the name of a limit of one key; rename it`,
    );
    return undefined;
  }
  const where = `${formatPath(path)} of ${findings.file}`;
  const other = names.get(operationId);
  if (other !== undefined && (isLimited || other.isLimited)) {
    findings.mistake(
      at,
      `Cannot use the operationId ${operationId} twice in one environment where one has x-limits: ${other.where} has it; rename one`,
    );
    return undefined;
  }
  const meter = names.meterAt(operationId);
  if (meter !== undefined) {
    findings.mistake(
      at,
      `Cannot use the operationId ${operationId}: it is the name of a meter, at ${meter}; rename one`,
    );
    return undefined;
  }
  names.set(operationId, { where, isLimited });
  if (!isLimited) return undefined;
  const id = countsId(environment, operationId);
  const taken = names.get(`#${id}`);
  if (taken !== undefined) {
    findings.mistake(
      at,
      `Cannot use the operationId ${operationId} with x-limits: its short number ${id} is that of ${taken.where}; rename one`,
    );
  } else names.set(`#${id}`, { where, isLimited });
  return id;
}

/** 24 bits in base 36, the same in every gateway and after every start. */
export function countsId(environment: string, operationId: string): string {
  return (crc32(`${environment} ${operationId}`) % 2 ** 24).toString(36);
}

type CostCheck = {
  readonly path: ConfigPath;
  readonly findings: Findings;
  readonly costContext: CostContext;
};

/** A cost that no account of a plan can ever pay is allowed, but probably unintended. */
export function warnOfPlans(
  units: number,
  path: ConfigPath,
  findings: Findings,
  leastLimits: PlanCosts["leastLimits"],
): void {
  const plans = [...leastLimits].filter(([, least]) => units > least);
  if (plans.length === 0) return;
  const names = plans.map(([plan, least]) => `${plan} (${least})`).join(", ");
  findings.warning(
    path,
    `${path.at(-1)} ${units} is above the smallest limit of ${names}: such accounts always get 403 cost_over_limit`,
  );
}

/** The same of the limits of the operation itself. */
function warnOfCost(
  units: number,
  windows: readonly Limit[],
  { path, findings, costContext }: CostCheck,
): void {
  const at = [...path, "x-cost"];
  warnOfPlans(units, at, findings, costContext.leastLimits);
  const own = windows.find(({ limit }) => units > limit);
  if (own === undefined) return;
  findings.warning(
    at,
    `x-cost ${units} is above the operation's own ${own.window} limit, ${own.limit}: every request gets 403 cost_over_limit`,
  );
}
