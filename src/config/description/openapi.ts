import { isUnder, type Operation } from "../../core/http/route.ts";
import { Findings } from "../file/findings.ts";
import {
  type ConfigPath,
  formatPath,
  isYamlMap,
  type Mistake,
  type YamlMap,
} from "../file/mistake.ts";
import { parseTree } from "../file/tree.ts";
import { ANY_KEY, readAccess } from "./access.ts";
import type { CostContext } from "./cost.ts";
import { parseJsonPointer, valueAtPath } from "./json-pointer.ts";
import { type DescriptionDefaults, type PathTemplate, readOperation } from "./operation.ts";

export type ApiDescription = {
  readonly operations: readonly Operation[];
  readonly mistakes: readonly Mistake[];
  readonly warnings: readonly Mistake[];
};

type DescriptionContext = {
  /** The name of the file in mistakes. */
  readonly file: string;
  /** The start of a client's path, ahead of the template. */
  readonly basePath: string;
  /** The path of the backend that the description is of: its operations must not lie elsewhere. */
  readonly under?: string;
  readonly charging?: CostContext;
  readonly hasPublicPlan?: boolean;
};

const VALUES_MAX = 500_000;
const METHODS = ["get", "put", "post", "delete", "options", "head", "patch"];
const BESIDE = ["$ref", "summary", "description", "servers", "parameters"];

/**
 * Reads an OpenAPI 3 description (YAML or JSON) into the operations under `basePath`. Only what the
 * gateway acts on is judged; the rest of the description is for others.
 */
export function readDescription(text: string, around: DescriptionContext): ApiDescription {
  const { file } = around;
  const read = parseTree(text, { file, variables: undefined, valuesMax: VALUES_MAX });
  if (read.tree === undefined) return { operations: [], mistakes: read.mistakes, warnings: [] };
  const findings = new Findings(file, read.tree);
  const operations = readPaths(findings, around);
  return {
    operations,
    mistakes: [...read.mistakes, ...findings.mistakes],
    warnings: findings.warnings,
  };
}

function readPaths(findings: Findings, around: DescriptionContext): Operation[] {
  const { basePath, under, charging = alone(), hasPublicPlan = false } = around;
  const root = findings.tree.value;
  if (!isYamlMap(root)) {
    findings.misread([], "an OpenAPI 3 description");
    return [];
  }
  if (typeof root.openapi !== "string" || !/^3\.\d+(\.|$)/.test(root.openapi)) {
    findings.misread(["openapi"], 'a version of OpenAPI 3, such as "3.1.0"');
  }
  if (!isYamlMap(root.paths)) {
    findings.misread(["paths"], "a map of paths");
    return [];
  }
  checkServers(root.servers, basePath, findings);

  const access =
    root.security === undefined
      ? ANY_KEY
      : readAccess(root.security, ["security"], { findings, hasPublicPlan });
  const of: DescriptionDefaults = { charging, hasPublicPlan, access };
  const operations: Operation[] = [];
  const seen = new Map<string, string>();
  for (const [template, item] of Object.entries(root.paths)) {
    if (template.startsWith("x-")) continue;
    const path = ["paths", template];
    const why = mistakeInTemplate(template);
    if (why !== undefined) {
      findings.mistakeAtKey(path, `Cannot use the path ${JSON.stringify(template)}: ${why}`);
      continue;
    }
    const whole = (basePath === "/" ? "" : basePath) + template;
    if (under !== undefined && !isUnder(under, whole)) {
      findings.mistakeAtKey(
        path,
        `Cannot use the path ${JSON.stringify(template)}: as ${whole} it lies outside of its backend's path ${under}; check stripPrefix`,
      );
      continue;
    }
    const segments = whole.split("/").map((part) => (part.startsWith("{") ? undefined : part));
    const matched = segments.map((part) => part ?? "{}").join("/");
    const earlier = seen.get(matched);
    if (earlier !== undefined) {
      findings.mistakeAtKey(
        path,
        `Cannot use the path ${JSON.stringify(template)}: it matches the same requests as ${JSON.stringify(earlier)}; keep one`,
      );
      continue;
    }
    seen.set(matched, template);
    operations.push(...readItem(item, path, { template: whole, segments }, { findings, of }));
  }
  checkOperationIds(operations, findings);
  return operations;
}

/** A description by itself: no other of its environment, and no plan, is known. */
function alone(): CostContext {
  return { environment: "", names: new Map(), leastLimits: new Map() };
}

function readItem(
  value: unknown,
  start: ConfigPath,
  matched: PathTemplate,
  { findings, of }: { readonly findings: Findings; readonly of: DescriptionDefaults },
): Operation[] {
  const { item, path } = followed(value, start, findings);
  if (item === undefined) return [];
  const operations: Operation[] = [];
  for (const [key, operation] of Object.entries(item)) {
    const at = [...path, key];
    if (METHODS.includes(key)) {
      if (isYamlMap(operation))
        operations.push(
          readOperation(operation, at, { ...matched, method: key.toUpperCase() }, findings, of),
        );
      else findings.misread(at, "an operation");
    } else if (key === "trace") {
      findings.warning(at, "The gateway never forwards TRACE: this operation is left out");
    } else if (!BESIDE.includes(key) && !key.startsWith("x-")) {
      findings.warning(at, `There is no method ${formatPath([key])}: this entry is left out`);
    }
  }
  return operations;
}

/** A path item, through references inside of the file. */
function followed(
  value: unknown,
  start: ConfigPath,
  findings: Findings,
): { readonly item: YamlMap | undefined; readonly path: ConfigPath } {
  let item = value;
  let path = start;
  for (let hops = 0; isYamlMap(item) && item.$ref !== undefined; hops++) {
    const reference = item.$ref;
    const at = [...path, "$ref"];
    const target = typeof reference === "string" ? parseJsonPointer(reference) : undefined;
    if (target === undefined) {
      findings.misread(at, "a reference inside this file, such as #/components/pathItems/NAME");
      return { item: undefined, path };
    }
    const found = valueAtPath(findings.tree.value, target);
    if (found === undefined || hops === 16) {
      const why =
        found === undefined ? "there is no such place in the file" : "it leads in a circle";
      findings.mistake(at, `Cannot follow the reference ${JSON.stringify(reference)}: ${why}`);
      return { item: undefined, path };
    }
    item = found;
    path = target;
  }
  if (isYamlMap(item)) return { item, path };
  findings.misread(path, "a map of operations");
  return { item: undefined, path };
}

/**
 * Warns of `servers` that do not fit. The configuration alone decides where requests go, but a
 * description for other paths is hardly the one that was meant.
 */
function checkServers(servers: unknown, basePath: string, findings: Findings): void {
  if (!Array.isArray(servers) || servers.length === 0 || basePath === "/") return;
  const urls = servers.map((server) =>
    isYamlMap(server) && typeof server.url === "string" ? server.url : "",
  );
  if (urls.some((url) => url.replace(/\/$/, "").endsWith(basePath))) return;
  findings.warning(
    ["servers"],
    `No server's URL ends in the basePath ${basePath}: the gateway serves the paths under ${basePath} whatever the servers say`,
  );
}

function checkOperationIds(operations: readonly Operation[], findings: Findings): void {
  const seen = new Set<string>();
  for (const { operationId, method, template } of operations) {
    if (seen.has(operationId)) {
      findings.warning(
        ["paths"],
        `The operationId ${JSON.stringify(operationId)} of ${method} ${template} is not unique`,
      );
    }
    seen.add(operationId);
  }
}
/** The characters that arrive byte for byte as they are written (docs/reference/edge.md#target). */
const SEGMENT = /^(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-F]{2})*$/;
const REFUSED_ESCAPE = /%(?:2E|2F|5C|25|00)/;

/** Why a path template of a description cannot be served, or undefined where it can. */
function mistakeInTemplate(template: string): string | undefined {
  if (!template.startsWith("/")) return "a path starts with /";
  for (const part of template.slice(1).split("/")) {
    if (/^\{[^{}]+\}$/.test(part)) continue;
    if (/[{}]/.test(part)) return "a parameter must be a whole segment, as in /pets/{petId}";
    if (part === "." || part === "..") return "dot segments never arrive";
    if (!SEGMENT.test(part)) {
      return "percent-encode, in upper case, all but letters, digits and -._~!$&'()*+,;=:@";
    }
    if (REFUSED_ESCAPE.test(part) || !decodes(part)) return "such an escape never arrives";
  }
  if (template.includes("//")) return "empty segments never arrive";
  const names = template.match(/\{[^{}]+\}/g) ?? [];
  return new Set(names).size < names.length
    ? "a parameter has the same name as another"
    : undefined;
}

function decodes(part: string): boolean {
  try {
    decodeURIComponent(part);
    return true;
  } catch {
    return false;
  }
}
