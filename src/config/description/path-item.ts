import { isObject } from "../../base/is-object.ts";
import type { Findings } from "../file/findings.ts";
import { type ConfigPath, formatPath, type YamlMap } from "../file/mistake.ts";
import type { DescriptionFiles, DescriptionPlace } from "./description-files.ts";
import { valueAtPath } from "./json-pointer.ts";
import {
  ACTED_ON,
  type DescriptionDefaults,
  EXTENSIONS,
  type PathTemplate,
  type PlacedOperation,
  readOperation,
  refuseMergeKey,
} from "./operation.ts";
import { warnOfServers } from "./servers.ts";

const METHODS = ["get", "put", "post", "delete", "options", "head", "patch"];
const BESIDE = ["$ref", "<<", "summary", "description", "servers", "parameters"];
const HOPS_MAX = 16;

/** Reads the operations of the path item at a place, through references. */
export async function readPathItem(
  place: DescriptionPlace,
  matched: PathTemplate,
  of: DescriptionDefaults,
  files: DescriptionFiles,
): Promise<PlacedOperation[]> {
  const parts = await follow(place, files, "a map of operations");
  const operations = new Map<string, PlacedOperation>();
  for (const { findings, path, item } of parts) {
    refuseMergeKey(item, path, findings);
    warnOfServers(item.servers, [...path, "servers"], of.basePath, findings);
    for (const key of Object.keys(item)) {
      const at = [...path, key];
      if (operations.has(key)) {
        findings.mistakeAtKey(
          at,
          `Cannot use ${formatPath(at)} beside $ref: what it refers to has ${key} too, and OpenAPI does not say which of them holds; keep one`,
        );
      } else if (METHODS.includes(key)) {
        const place = await operationAt({ findings, path: at }, files);
        if (place === undefined) continue;
        const servers = [...place.path, "servers"];
        warnOfServers(place.item.servers, servers, of.basePath, place.findings);
        const method = key.toUpperCase();
        operations.set(key, readOperation(place, { ...matched, method }, of));
      } else warnOfEntry(key, at, findings);
    }
  }
  return [...operations.values()];
}

function warnOfEntry(key: string, at: ConfigPath, findings: Findings): void {
  if (key === "trace") {
    findings.warning(at, "The gateway never forwards TRACE: this operation is left out");
  } else if (EXTENSIONS.includes(key)) {
    findings.warning(at, `${key} has no effect here: write it in the operations`);
  } else if (!BESIDE.includes(key) && !key.startsWith("x-")) {
    findings.warning(at, `There is no method ${formatPath([key])}: this entry is left out`);
  }
}

type Part = DescriptionPlace & { readonly item: YamlMap };

/**
 * The operation at a place. OpenAPI has no reference in place of an operation, but bundlers and
 * people write it. Keys beside one would be lost.
 */
async function operationAt(
  start: DescriptionPlace,
  files: DescriptionFiles,
): Promise<Part | undefined> {
  const [operation, ...references] = await follow(start, files, "an operation");
  for (const { findings, path, item } of references) {
    for (const key of ACTED_ON.filter((key) => Object.hasOwn(item, key))) {
      const at = [...path, key];
      findings.mistakeAtKey(
        at,
        `Cannot use ${formatPath(at)} beside $ref: what it refers to takes the place of the whole operation; write ${key} there, or the operation here`,
      );
    }
  }
  return operation;
}

/**
 * The maps on the way through references, the one without a reference first. If a reference leads
 * nowhere, that is noted as a mistake and there are none.
 */
async function follow(
  start: DescriptionPlace,
  files: DescriptionFiles,
  wanted: string,
): Promise<readonly Part[]> {
  const parts: Part[] = [];
  let place = start;
  for (let hops = 0; ; hops++) {
    const { findings, path } = place;
    const item = valueAtPath(findings.tree.value, path);
    if (!isObject(item)) {
      findings.wrongValue(path, wanted);
      return [];
    }
    parts.unshift({ ...place, item });
    if (item.$ref === undefined) return parts;
    const next = await nextPlace(item.$ref, place, files, hops);
    if (next === undefined) return [];
    place = next;
  }
}

async function nextPlace(
  reference: unknown,
  { findings, path }: DescriptionPlace,
  files: DescriptionFiles,
  hops: number,
): Promise<DescriptionPlace | undefined> {
  const at = [...path, "$ref"];
  const next = typeof reference === "string" ? await files.resolve(reference, findings) : undefined;
  if (next === undefined) {
    findings.wrongValue(
      at,
      "a reference inside this folder, such as #/components/pathItems/NAME or pets.yaml#/NAME",
    );
    return undefined;
  }
  const why = typeof next === "string" ? next : whyNoPlace(next, hops);
  if (why === undefined) return next as DescriptionPlace;
  findings.mistake(at, `Cannot follow the reference ${JSON.stringify(reference)}: ${why}`);
  return undefined;
}

function whyNoPlace({ findings, path }: DescriptionPlace, hops: number): string | undefined {
  if (valueAtPath(findings.tree.value, path) === undefined) {
    return "there is no such place in the file";
  }
  return hops === HOPS_MAX ? "it leads in a circle" : undefined;
}
