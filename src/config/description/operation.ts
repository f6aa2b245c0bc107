import { quoteValue } from "../../base/messages.ts";
import type { Operation } from "../../core/http/route.ts";
import { type Findings, nearestKey } from "../file/findings.ts";
import { type ConfigPath, formatPath, type YamlMap } from "../file/mistake.ts";
import { ADDRESS_WINDOWS, fitsAddresses } from "../schema/plan-windows.ts";
import { type AccessRules, type OperationAccess, readAccess } from "./access.ts";
import { type CostContext, type OperationCost, readOperationCost } from "./cost.ts";
import type { DescriptionPlace } from "./description-files.ts";
import { readLifecycle } from "./lifecycle.ts";
import { readOperationMeters } from "./meters.ts";

/** The path that an operation belongs to, and the settings of all operations of its description. */
export type PathTemplate = Pick<Operation, "template" | "segments">;
export type DescriptionDefaults = {
  readonly basePath: string;
  readonly costContext: CostContext;
  readonly rules: AccessRules;
  /** The description's own `security`. */
  readonly access: OperationAccess;
  /** The file that the configuration names. It has the security schemes. */
  readonly main: Findings;
  readonly unmet: Set<string>;
};

/** An operation with its place in one of the files of its description. */
export type PlacedOperation = DescriptionPlace & { readonly operation: Operation };

/** Reads the parts of one operation that the gateway acts on. The rest is for other tools. */
export function readOperation(
  { item: operation, findings, path }: DescriptionPlace & { readonly item: YamlMap },
  matched: PathTemplate & Pick<Operation, "method">,
  { costContext, rules, access: inherited, main, unmet }: DescriptionDefaults,
): PlacedOperation {
  refuseMergeKey(operation, path, findings);
  const { operationId, security } = operation;
  if (operationId !== undefined && typeof operationId !== "string") {
    findings.wrongValue([...path, "operationId"], "a name");
  }
  const access =
    security === undefined
      ? inherited
      : readAccess(security, [...path, "security"], { findings, main, rules, unmet });
  const lifecycle = readLifecycle(operation, path, findings);
  const meters = readOperationMeters(operation, path, findings, costContext);
  warnOfMisspeltExtensions(operation, path, findings);
  const costs = readOperationCost(operation, path, findings, costContext);
  if (access.isPublic && rules.hasPublicPlan) warnOfLongWindows(costs, path, findings);
  const read: Operation = {
    ...matched,
    operationId:
      typeof operationId === "string" ? operationId : `${matched.method} ${matched.template}`,
    hasRequestBody: operation.requestBody !== undefined,
    requiresScope: readRequiresScope(operation, path, findings, { access, lifecycle }),
    ...access,
    ...costs,
    ...(meters.length === 0 ? {} : { meters }),
    lifecycle,
  };
  return { operation: read, findings, path };
}

/** The keys of an operation that only the gateway reads. */
export const EXTENSIONS: readonly string[] = [
  ...["x-cost", "x-limits", "x-meters", "x-requires-scope", "x-stability", "x-stability-level"],
  ...["x-deprecated-since", "x-sunset", "x-deprecated-sunset", "x-successor", "x-brownouts"],
];

/** The keys of an operation that change what the gateway does. */
export const ACTED_ON: readonly string[] = [
  ...["operationId", "security", "deprecated", "requestBody", "<<"],
  ...EXTENSIONS,
];

/** Many tools merge `<<` as YAML 1.1 did: left out silently, it would take `security` with it. */
export function refuseMergeKey(map: YamlMap, path: ConfigPath, findings: Findings): void {
  if (!Object.hasOwn(map, "<<")) return;
  const at = [...path, "<<"];
  findings.mistakeAtKey(
    at,
    `Cannot use ${formatPath(at)}: YAML 1.2 has no merge keys; write the keys of the map out`,
  );
}

/** Only a near match is reported, because other tools have extensions of their own. */
function warnOfMisspeltExtensions(operation: YamlMap, path: ConfigPath, findings: Findings): void {
  for (const key of Object.keys(operation)) {
    if (!/^x[-_]./i.test(key) || EXTENSIONS.includes(key)) continue;
    const word = key.slice(2).toLowerCase();
    const alike = EXTENSIONS.map((name) => name.slice(2)).filter((name) => name[0] === word[0]);
    const meant = nearestKey(word, alike, 4);
    if (meant === undefined) continue;
    findings.warning(
      [...path, key],
      `${quoteValue(key)} has no effect: there is no such key; did you mean x-${meant}?`,
    );
  }
}

/** Requests without a key are counted by client address in these windows too. */
function warnOfLongWindows({ limits }: OperationCost, path: ConfigPath, findings: Findings): void {
  for (const { window } of limits?.windows ?? []) {
    if (fitsAddresses(window)) continue;
    findings.warning(
      [...path, "x-limits", window],
      `Each client address is kept for the whole ${window}, as this operation needs no key: windows of addresses should be ${ADDRESS_WINDOWS}`,
    );
  }
}

function readRequiresScope(
  operation: YamlMap,
  path: ConfigPath,
  findings: Findings,
  { access, lifecycle }: { readonly access: OperationAccess } & Pick<Operation, "lifecycle">,
): boolean {
  const value = operation["x-requires-scope"] ?? false;
  const at = [...path, "x-requires-scope"];
  if (typeof value !== "boolean") findings.wrongValue(at, "true or false");
  if (value !== true) return false;
  if (access.isPublic) {
    findings.mistake(
      at,
      "Cannot use x-requires-scope where security lets requests in without a key: there is no key to have the scope; remove one",
    );
  }
  if (lifecycle.stability === undefined) {
    findings.warning(
      at,
      "x-requires-scope has no effect: the operation is neither experimental nor beta",
    );
  }
  return true;
}
