import { formatPath, isYamlMap, type YamlMap } from "../file/mistake.ts";
import type { DescriptionFiles, DescriptionPlace } from "./description-files.ts";
import { valueAtPath } from "./json-pointer.ts";
import {
  type DescriptionDefaults,
  EXTENSIONS,
  type PathTemplate,
  type PlacedOperation,
  readOperation,
} from "./operation.ts";

const METHODS = ["get", "put", "post", "delete", "options", "head", "patch"];
const BESIDE = ["$ref", "summary", "description", "servers", "parameters"];
const HOPS_MAX = 16;

/** Reads the operations of the path item at a place, through references. */
export async function readPathItem(
  place: DescriptionPlace,
  matched: PathTemplate,
  of: DescriptionDefaults,
  files: DescriptionFiles,
): Promise<PlacedOperation[]> {
  const found = await follow(place, files, "a map of operations");
  if (found === undefined) return [];
  const { findings, path, item } = found;
  const operations: PlacedOperation[] = [];
  for (const key of Object.keys(item)) {
    const at = [...path, key];
    if (METHODS.includes(key)) {
      // OpenAPI has no reference in place of an operation, but bundlers and people write it.
      const place = await follow({ findings, path: at }, files, "an operation");
      if (place === undefined) continue;
      const method = key.toUpperCase();
      operations.push(readOperation(place, { ...matched, method }, of));
    } else if (key === "trace") {
      findings.warning(at, "The gateway never forwards TRACE: this operation is left out");
    } else if (EXTENSIONS.includes(key)) {
      findings.warning(at, `${key} has no effect here: write it in the operations`);
    } else if (!BESIDE.includes(key) && !key.startsWith("x-")) {
      findings.warning(at, `There is no method ${formatPath([key])}: this entry is left out`);
    }
  }
  return operations;
}

/** The map at a place, through references. A reference that leads nowhere is noted as a mistake. */
async function follow(
  start: DescriptionPlace,
  files: DescriptionFiles,
  wanted: string,
): Promise<(DescriptionPlace & { readonly item: YamlMap }) | undefined> {
  let place = start;
  for (let hops = 0; ; hops++) {
    const { findings, path } = place;
    const item = valueAtPath(findings.tree.value, path);
    if (!isYamlMap(item)) {
      findings.wrongValue(path, wanted);
      return undefined;
    }
    if (item.$ref === undefined) return { ...place, item };
    const next = await nextPlace(item.$ref, place, files, hops);
    if (next === undefined) return undefined;
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
