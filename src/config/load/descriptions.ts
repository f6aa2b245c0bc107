import { dirname, isAbsolute, join } from "node:path";
import { isTemplateUnder } from "../../core/http/path-pattern.ts";
import { findRoute, type Operation } from "../../core/http/route.ts";
import type { PlanCosts } from "../description/cost.ts";
import { readDescription } from "../description/openapi.ts";
import { OperationNames } from "../description/operation-names.ts";
import type { Draft } from "../draft/draft.ts";
import { listServices, type ServiceDraft } from "../draft/service-drafts.ts";
import type { Findings } from "../file/findings.ts";
import { formatPath, type Mistake } from "../file/mistake.ts";
import { DescriptionSources } from "./description-sources.ts";

export type Descriptions = {
  /** By the key of the service; services without a description have no entry. */
  readonly operations: ReadonlyMap<string, readonly Operation[]>;
  readonly texts: readonly string[];
  readonly files: readonly string[];
  readonly mistakes: readonly Mistake[];
  readonly warnings: readonly Mistake[];
};

/** Reads the descriptions of all services. A file that several share is read and parsed once. */
export async function readDescriptions(
  draft: Draft,
  findings: Findings,
  planCosts: PlanCosts,
): Promise<Descriptions> {
  const operations = new Map<string, readonly Operation[]>();
  const sources = new DescriptionSources();
  const mistakes: Mistake[] = [];
  const warnings: Mistake[] = [];
  const names = new Map<string, OperationNames>();
  for (const service of listServices(draft.environments)) {
    const { api, environment, start, paths } = service;
    if (api === undefined) continue;
    const file = isAbsolute(api) ? api : join(dirname(findings.file), api);
    const source = await sources.read(file);
    if (!source.ok) {
      noteUnread(service, `${file} `, source.why, findings);
      continue;
    }
    const ofEnvironment = names.get(environment) ?? namesOf(environment, draft, planCosts);
    names.set(environment, ofEnvironment);
    const read = await readDescription(source.text, {
      file,
      basePath: start ?? "/",
      paths,
      ...(service.backend === undefined || start === undefined
        ? {}
        : { under: service.backend.path }),
      costContext: { environment, names: ofEnvironment, ...planCosts },
      rules: {
        hasPublicPlan: draft.environments.get(environment)?.public !== undefined,
        keyHeaders: draft.keyHeaders ?? ["authorization"],
      },
      readFile: sources.read,
      parseFile: sources.parse,
    });
    operations.set(service.key, read.operations);
    mistakes.push(...read.mistakes);
    warnings.push(...read.warnings);
    judgeTogether(service, read.operations, draft, findings);
  }
  findings.unread ??= sources.unread;
  return { operations, texts: sources.texts, files: sources.files, mistakes, warnings };
}

function namesOf(
  environment: string,
  { environments }: Draft,
  { planMeters }: PlanCosts,
): OperationNames {
  const names = new OperationNames();
  environments.get(environment)?.costs?.forEach(({ meters = {} }, i) => {
    const where = formatPath(["environments", environment, "costs", i]);
    for (const name of Object.keys(meters)) names.claimMeter(name, where);
  });
  for (const [plan, meters] of planMeters) {
    for (const { name } of meters) names.claimMeter(name, formatPath(["plans", plan, "meters"]));
  }
  return names;
}

function noteUnread(
  { environment, path, backend }: ServiceDraft,
  file: string,
  why: string,
  findings: Findings,
): void {
  const at = [...path, "api"];
  const shown = findings.tree.isSubstituted(at) ? "" : file;
  const owner = backend === undefined ? environment : formatPath(path);
  findings.mistake(at, `Cannot read the API description ${shown}for ${owner}: ${why}`);
}

/** Finds the mistakes that only a description and the configuration together show. */
function judgeTogether(
  { environment, path, start, backend, paths }: ServiceDraft,
  operations: readonly Operation[],
  { environments }: Draft,
  findings: Findings,
): void {
  const { standing, backends = [] } = environments.get(environment) ?? {};
  const table = { basePath: start ?? "/", paths, operations };
  if (standing !== undefined && findRoute(table, "GET", standing).allowedMethods !== undefined) {
    const at = ["environments", environment, "standing"];
    findings.mistake(
      at,
      `Cannot use the path ${findings.shown(at, standing)}: the description has it too; choose another`,
    );
  }
  if (backend !== undefined) return;
  const hidden = operations.find(({ template }) => {
    return backends.some((other) => isTemplateUnder(other.path, template, other.paths ?? paths));
  });
  if (hidden === undefined) return;
  findings.warning(
    [...path, "api"],
    `${hidden.method} ${hidden.template} is described here and never served from here: a backend has its path`,
  );
}
