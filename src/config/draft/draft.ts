import { z } from "zod";
import { isObject } from "../../base/is-object.ts";
import { quoteValue } from "../../base/messages.ts";
import { type Findings, noteIssues } from "../file/findings.ts";
import type { ConfigPath, YamlMap } from "../file/mistake.ts";
import { environmentShape } from "../schema/environment.ts";
import { shape } from "../schema/shape.ts";
import { NAME, name } from "../schema/value-types.ts";

type Shapes = Readonly<Record<string, z.ZodType>>;

/**
 * The part of a map that could be read. A key with a mistake in it is undefined; the others are
 * complete. Of `ENTRIES` only the entries with a mistake are left out, so that their siblings are
 * judged in the same run: a map lacks them, and a list is sparse, so that the others keep their
 * places. `forEach` and `flatMap` pass over what a sparse list lacks.
 */
type ShapeDraft<S extends Shapes> = { readonly [K in keyof S]: z.output<S[K]> | undefined };

/** Maps and lists whose entries are judged one by one. */
const ENTRIES = new Map<string, (value: unknown) => value is object>([
  ["plans", isObject],
  ["backends", Array.isArray],
  ["costs", Array.isArray],
  ["publicRoutes", Array.isArray],
]);

export type EnvironmentDraft = ShapeDraft<typeof environmentShape.shape>;
export type Draft = Omit<ShapeDraft<typeof shape.shape>, "environments"> & {
  readonly environments: ReadonlyMap<string, EnvironmentDraft>;
};

/**
 * Parses the values by the shape, key by key, so that one mistake hides no other and the checks
 * across keys still see all sound values.
 */
export function readDraft(findings: Findings): Draft {
  const found = findings.tree.value;
  const { environments: _, ...fields } = shape.shape;
  if (!isObject(found)) {
    findings.wrongValue([], "a map of settings");
    const nothing = Object.fromEntries(Object.keys(fields).map((key) => [key, undefined]));
    return { ...(nothing as ShapeDraft<typeof fields>), environments: new Map() };
  }
  noteUnknownKeys(found, [], Object.keys(shape.shape), findings);
  const read = readFields(fields, { found, findings, path: [] });
  return { ...read, environments: readEnvironments(found.environments, findings) };
}

/** Reads a file that has plans, optionally bans, and nothing else. */
export function readPlansDraft(findings: Findings): Pick<Draft, "plans" | "bans"> {
  const { plans, bans } = shape.shape;
  const found = findings.tree.value as YamlMap;
  noteUnknownKeys(found, [], ["plans", "bans"], findings);
  return readFields({ plans, bans }, { found, findings, path: [] });
}

function noteUnknownKeys(
  found: YamlMap,
  path: ConfigPath,
  known: readonly string[],
  findings: Findings,
): void {
  for (const key of Object.keys(found)) {
    if (!known.includes(key)) findings.unknownKey([...path, key], known);
  }
}

function readEnvironments(
  found: unknown,
  findings: Findings,
): ReadonlyMap<string, EnvironmentDraft> {
  const environments = new Map<string, EnvironmentDraft>();
  const start: ConfigPath = ["environments"];
  if (findings.tree.isBroken(start) && found === undefined) return environments;
  if (!isObject(found)) {
    findings.wrongValue(start, "a map of environments by name");
    return environments;
  }
  if (Object.keys(found).length === 0) {
    findings.wrongValue(start, "a map of at least one environment");
  }
  const known = Object.keys(environmentShape.shape);
  for (const [key, value] of Object.entries(found)) {
    const path = [...start, key];
    if (!NAME.test(key)) {
      const wanted = name.meta()?.title;
      findings.mistakeAtKey(
        path,
        `Cannot use ${quoteValue(key)} as a name in environments: it must be ${wanted}`,
      );
    }
    if (!isObject(value)) {
      if (!findings.tree.isBroken(path))
        findings.wrongValue(path, "a map that describes an environment");
      continue;
    }
    noteUnknownKeys(value, path, known, findings);
    environments.set(key, readFields(environmentShape.shape, { found: value, findings, path }));
  }
  return environments;
}

type DraftInputs = {
  readonly found: YamlMap;
  readonly findings: Findings;
  readonly path: ConfigPath;
};

function readFields<S extends Shapes>(
  fields: S,
  { found, findings, path: start }: DraftInputs,
): ShapeDraft<S> {
  const read: Record<string, unknown> = {};
  for (const [key, field] of Object.entries(fields)) {
    const path = [...start, key];
    const value = found[key];
    const result = field.safeParse(value);
    const knownAt = (at: ConfigPath) => keysOf(field, at.slice(path.length));
    if (!result.success) noteIssues(findings, result.error.issues, path, knownAt);
    if (result.success && !findings.tree.isBroken(path)) read[key] = result.data;
    else if (ENTRIES.get(key)?.(value)) read[key] = soundEntries(field, value, { findings, path });
    else read[key] = undefined;
  }
  return read as ShapeDraft<S>;
}

/** The entries of a map or list that have no mistake, by their keys. */
function soundEntries(
  field: z.ZodType,
  found: object,
  { findings, path }: Omit<DraftInputs, "found">,
): unknown {
  const isList = Array.isArray(found);
  const sound = (isList ? [] : {}) as Record<string, unknown>;
  for (const [key, entry] of Object.entries(found)) {
    if (findings.tree.isBroken([...path, isList ? Number(key) : key])) continue;
    const result = field.safeParse(isList ? [entry] : { [key]: entry });
    if (result.success) sound[key] = Object.values(result.data as object)[0];
  }
  return sound;
}

/** The keys that a map at this place may have, for "did you mean". */
function keysOf(schema: z.core.$ZodType, path: ConfigPath): readonly string[] {
  if (schema instanceof z.ZodUnion) return schema.options.flatMap((one) => keysOf(one, path));
  if (schema instanceof z.ZodPrefault || schema instanceof z.ZodOptional) {
    return keysOf(schema.unwrap(), path);
  }
  if (schema instanceof z.ZodRecord) return keysOf(schema.valueType, path.slice(1));
  if (schema instanceof z.ZodArray) return keysOf(schema.element, path.slice(1));
  if (!(schema instanceof z.ZodObject)) return [];
  const [key] = path;
  if (key === undefined) return Object.keys(schema.shape);
  const inner: z.core.$ZodType | undefined = schema.shape[key];
  return inner === undefined ? [] : keysOf(inner, path.slice(1));
}
