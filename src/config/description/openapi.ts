import { isObject } from "../../base/is-object.ts";
import { isTemplateUnder, type PathMatching, parsePattern } from "../../core/http/path-pattern.ts";
import type { Operation } from "../../core/http/route.ts";
import type { Findings } from "../file/findings.ts";
import type { ConfigPath, Mistake } from "../file/mistake.ts";
import { type AccessRules, ANY_KEY, readAccess } from "./access.ts";
import type { CostContext } from "./cost.ts";
import {
  DescriptionFiles,
  type parseDescription,
  type ReadDescriptionFile,
} from "./description-files.ts";
import {
  type DescriptionDefaults,
  type PathTemplate,
  type PlacedOperation,
  refuseMergeKey,
} from "./operation.ts";
import { OperationNames } from "./operation-names.ts";
import { readPathItem } from "./path-item.ts";
import { mistakeInTemplate } from "./path-template.ts";
import { warnOfServers } from "./servers.ts";
import { warnOfCrossings, warnOfSpellings } from "./spellings.ts";

export type ApiDescription = {
  readonly operations: readonly Operation[];
  readonly mistakes: readonly Mistake[];
  readonly warnings: readonly Mistake[];
};

type DescriptionContext = {
  /** The name of the file in mistakes. */
  readonly file: string;
  /** The start of a client's path, before the template. */
  readonly basePath: string;
  /** The path of the backend that it describes. Its operations must not lie elsewhere. */
  readonly under?: string;
  readonly costContext?: CostContext;
  readonly rules?: AccessRules;
  readonly paths?: PathMatching;
  /** For references into other files of the folder. */
  readonly readFile: ReadDescriptionFile;
  /** If absent, each file is parsed each time. */
  readonly parseFile?: typeof parseDescription;
};

/**
 * Reads an OpenAPI 3 description (YAML or JSON) into the operations under `basePath`. Only the
 * parts that the gateway acts on are checked; the rest of the description is for other tools.
 */
export async function readDescription(
  text: string,
  context: DescriptionContext,
): Promise<ApiDescription> {
  const files = new DescriptionFiles(context.file, text, context.readFile, context.parseFile);
  const operations = files.main === undefined ? [] : await readPaths(files.main, files, context);
  return { operations, mistakes: files.mistakes, warnings: files.warnings };
}

async function readPaths(
  findings: Findings,
  files: DescriptionFiles,
  context: DescriptionContext,
): Promise<Operation[]> {
  const { basePath, costContext = alone(), rules = KEYS_ONLY, paths = "exact" } = context;
  const root = findings.tree.value;
  if (!isObject(root)) {
    findings.wrongValue([], "an OpenAPI 3 description");
    return [];
  }
  if (typeof root.swagger === "string" && root.openapi === undefined) {
    findings.mistake(
      ["swagger"],
      `Cannot read a description of Swagger ${root.swagger.slice(0, 10)}: convert it to OpenAPI 3, as with "npx swagger2openapi FILE -o NEW", and name the new file`,
    );
    return [];
  }
  if (typeof root.openapi !== "string" || !/^3\.\d+(\.|$)/.test(root.openapi)) {
    findings.wrongValue(["openapi"], 'a version of OpenAPI 3, such as "3.1.0"');
  }
  refuseMergeKey(root, [], findings);
  if (!isObject(root.paths)) {
    findings.wrongValue(["paths"], "a map of paths");
    return [];
  }
  warnOfServers(root.servers, ["servers"], basePath, findings);

  const unmet = new Set<string>();
  const access =
    root.security === undefined
      ? ANY_KEY
      : readAccess(root.security, ["security"], { findings, main: findings, rules, unmet });
  const of: DescriptionDefaults = {
    ...{ basePath, costContext, rules, access, main: findings, unmet },
  };
  const placed: PlacedOperation[] = [];
  for (const { path, ...matched } of readTemplates(Object.keys(root.paths), findings, context)) {
    placed.push(...(await readPathItem({ findings, path }, matched, of, files)));
  }
  const operations = placed.map(({ operation }) => operation);
  checkOperationIds(placed);
  warnOfSpellings(placed, paths, rules);
  warnOfCrossings(placed, rules);
  return operations;
}

/** The paths that can be served, each with its place. The mistakes in the others are noted. */
function readTemplates(
  templates: readonly string[],
  findings: Findings,
  { basePath, under, paths = "exact" }: DescriptionContext,
): (PathTemplate & { readonly path: readonly string[] })[] {
  const seen = new Map<string, string>();
  return templates.flatMap((template) => {
    if (template.startsWith("x-")) return [];
    const path = ["paths", template];
    const whole = (basePath === "/" ? "" : basePath) + template;
    const refuse = (why: string) => {
      findings.mistakeAtKey(path, `Cannot use the path ${JSON.stringify(template)}: ${why}`);
      return [];
    };
    const why = mistakeInTemplate(template, paths);
    if (why !== undefined) return refuse(why);
    if (under !== undefined && !isTemplateUnder(under, whole, paths)) {
      return refuse(
        `as ${whole} it lies outside of its backend's path ${under}; check stripPrefix`,
      );
    }
    const segments = parsePattern(whole, paths);
    const matched = JSON.stringify(segments);
    const earlier = seen.get(matched);
    if (earlier !== undefined) {
      return refuse(`it matches the same requests as ${JSON.stringify(earlier)}; keep one`);
    }
    seen.set(matched, template);
    warnOfLongParameters(template, path, findings);
    return [{ path, template: whole, segments }];
  });
}

/** Google writes {+name}, AWS {proxy+}, Express {name*}. None of these is OpenAPI. */
function warnOfLongParameters(template: string, path: ConfigPath, findings: Findings): void {
  const [parameter] = /\{(?:[+*][^{}]*|[^{}]*[+*])\}/.exec(template) ?? [];
  if (parameter === undefined) return;
  findings.warning(
    path,
    `${parameter} stands for one segment, as every parameter of OpenAPI does: describe longer paths by themselves`,
  );
}

const KEYS_ONLY: AccessRules = { hasPublicPlan: false, keyHeaders: ["authorization"] };

/** The context of a description by itself: no other one is known, and no plan. */
function alone(): CostContext {
  const names = new OperationNames();
  return { environment: "", names, leastLimits: new Map(), planMeters: new Map() };
}

function checkOperationIds(operations: readonly PlacedOperation[]): void {
  const seen = new Set<string>();
  for (const { operation, findings, path } of operations) {
    const { operationId, method, template } = operation;
    if (seen.has(operationId)) {
      findings.warning(
        [...path, "operationId"],
        `The operationId ${JSON.stringify(operationId)} of ${method} ${template} is not unique, as OpenAPI wants it; rename one`,
      );
    }
    seen.add(operationId);
  }
}
