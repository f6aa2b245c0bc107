import { isObject } from "../../base/is-object.ts";
import type { TextPosition } from "../../base/text-position.ts";
import { examplePath, type Operation } from "../../core/http/route.ts";
import type { Config } from "../config.ts";
import { nearestKey } from "../file/findings.ts";
import { formatPath, formatPlace, type Mistake, type YamlMap } from "../file/mistake.ts";
import type { Variables } from "../file/substitute.ts";
import { parseTree, type Tree } from "../file/tree.ts";
import { shape } from "../schema/shape.ts";
import { CONFIG_VALUES_MAX, loadTree, readTree } from "./load.ts";

/** The keys that lead to a running gateway and to its records. */
const REACH = ["admin", "store", "storePrefix", "keys"] as const;
/** Keys that commands read but can do without. */
const OPTIONAL = ["stateFile", "keyPrefix", "foreignKeys", "history"] as const;
/** The keys of an environment that commands read, of a file and of GET /api/config alike. */
const ENVIRONMENT = ["listen", "hosts", "keyTag", "basePath", "upstreams"] as const;

/** Replaces upstreams that cannot be read: commands forward nothing. */
const NO_UPSTREAM = ["http://127.0.0.1:1"];

export type ReachResult =
  | { readonly ok: true; readonly reach: Reach }
  | { readonly ok: false; readonly mistakes: readonly Mistake[] };

/** A part of the file that some commands need, beside what leads to the gateway. */
export type FilePart =
  | readonly ["keyPrefix" | "foreignKeys"]
  | readonly ["environments" | "plans", string];

/** A file with mistakes whose part that leads to the gateway is sound. */
export type Reach = {
  readonly mistakes: readonly Mistake[];
  /** The usable part of the file: all of `REACH`, and the sound parts of plans and environments. */
  readonly config: Config;
  /** The same with plans and environments from GET /api/config instead of those in the file. */
  with(running: YamlMap): Promise<Config | undefined>;
  /**
   * Why `config` lacks a part of the file; undefined if it has the part, or the file does not. A file
   * without one sound plan or environment may have any.
   */
  brokenPartError(part: FilePart): string | undefined;
};

/**
 * Reads from a file with mistakes the keys that lead to the running gateway, so that a leaked key
 * can be revoked even if the rest of the file is wrong
 * (docs/reference/commands.md#a-file-with-mistakes). Fails with every mistake if the file is not
 * YAML, or if one of the keys that lead there is wrong.
 */
export async function loadReachable(file: string, variables: Variables): Promise<ReachResult> {
  const read = await readTree(file, variables);
  if (!read.ok) return read;
  const whole = await loadTree(file, read, variables);
  const mistakes = whole.ok ? [] : whole.mistakes;
  const root = isObject(read.tree.value) ? read.tree.value : {};
  const isBroken = REACH.some((key) => {
    return read.tree.isBroken([key]) || misspelt(root, key) !== undefined;
  });
  const document = isBroken ? undefined : await soundPart(root, read.tree, { file, variables });
  const loaded = document && (await loadDocument({ ...MINIMUM, ...document }, file, variables));
  if (document === undefined || !loaded?.ok) return { ok: false, mistakes };
  const placed = mistakes.filter((one) => one.file === file);
  const config = withoutMinimum(withUnloaded(loaded.config, root), document);
  return {
    ok: true,
    reach: {
      mistakes,
      config,
      with: async (running) => {
        const merged = await loadDocument(
          { ...MINIMUM, ...document, ...runningPart(running) },
          file,
          variables,
        );
        return merged.ok ? withUnloaded(merged.config, running) : undefined;
      },
      brokenPartError: (part) => {
        const broken = brokenPath(part, root, document);
        return broken && brokenError(broken, read.tree, placed);
      },
    },
  };
}

/** The path of what has a mistake if the sound part of a file lacks a part of it. */
function brokenPath(
  [key, name]: FilePart,
  root: YamlMap,
  sound: YamlMap,
): readonly string[] | undefined {
  if (name === undefined) {
    if (Object.hasOwn(sound, key)) return undefined;
    const given = Object.hasOwn(root, key) ? key : misspelt(root, key);
    return given === undefined ? undefined : [given];
  }
  const names = new Set(entriesOf(sound[key]).map(([one]) => one));
  if (names.has(name)) return undefined;
  if (entriesOf(root[key]).some(([one]) => one === name)) return [key, name];
  return names.size === 0 ? [key] : undefined;
}

const KEYS = Object.keys(shape.shape);

/** Another spelling of a key that the file lacks: what it means stands there, and is not in force. */
function misspelt(root: YamlMap, key: string): string | undefined {
  if (Object.hasOwn(root, key)) return undefined;
  return Object.keys(root).find((one) => nearestKey(one, KEYS) === key);
}

/**
 * The first mistake between the key of the part and the next key beside or above it is that of the
 * part. It may have none there: `admin` is told for an environment that listens on its address.
 */
function brokenError(
  part: readonly string[],
  { value, placeOfKey }: Tree,
  mistakes: readonly Mistake[],
): string | undefined {
  const start = placeOfKey(part);
  const [above = ""] = part;
  const keys = entriesOf(value).map(([key]) => [key]);
  const inner = part.length > 1 && isObject(value) ? entriesOf(value[above]) : [];
  const names = inner.map(([name]) => [above, name]);
  const ends = [...keys, ...names].map(placeOfKey).filter((at) => isBefore(start, at));
  const own = mistakes.find((one) => {
    return !isBefore(one, start) && ends.every((end) => isBefore(one, end));
  });
  const shown = own ?? mistakes[0];
  const what = own === undefined ? "the mistakes of the file are" : "its mistake is";
  return shown && `Cannot use ${formatPath(part)} until ${what} corrected: ${formatPlace(shown)}`;
}

function isBefore(one: TextPosition, other: TextPosition): boolean {
  return one.line < other.line || (one.line === other.line && one.column < other.column);
}

/** A configuration that knows only the address. Plans and environments come from the gateway. */
export async function configOfRunning(
  running: YamlMap,
  admin: NonNullable<Config["admin"]>,
): Promise<Config | undefined> {
  const document = { ...MINIMUM, ...runningPart(running), admin: "off" };
  const loaded = await loadDocument(document, "--admin", {});
  return loaded.ok ? { ...withUnloaded(loaded.config, running), admin } : undefined;
}

/**
 * Puts back what the loading would read from files that may be on the gateway's machine only: whether
 * a listener has TLS, and a path of its description.
 */
function withUnloaded(config: Config, { environments }: YamlMap): Config {
  const given = new Map(entriesOf(environments));
  return {
    ...config,
    environments: config.environments.map((one) => {
      const environment = given.get(one.name);
      const { tls, operations } = isObject(environment) ? environment : {};
      return {
        ...one,
        tls: isObject(tls) ? { cert: String(tls.cert), key: String(tls.key) } : undefined,
        examplePath: Array.isArray(operations)
          ? examplePath(operations.filter(isShownOperation))
          : undefined,
      };
    }),
  };
}

/** Another program may answer, so a path that a terminal would not show as it is counts as none. */
function isShownOperation(value: unknown): value is Operation {
  if (!isObject(value) || !isObject(value.lifecycle)) return false;
  return typeof value.template === "string" && /^\/[\x21-\x7e]*$/.test(value.template);
}

/** The minimum that every configuration needs. */
const MINIMUM = {
  environments: { default: { listen: "127.0.0.1:1", keyTag: "x", upstreams: NO_UPSTREAM } },
  plans: { none: { minute: 1 } },
};

/** Leaves out what the minimum has put in the place of plans and environments. */
function withoutMinimum(config: Config, document: YamlMap): Config {
  const { plans, environments } = document;
  return {
    ...config,
    ...(plans === undefined && { plans: new Map(), planBounds: new Map() }),
    ...(environments === undefined && { environments: [] }),
  };
}

/**
 * The sound part of a file; undefined if one of `REACH` is not sound. Without a sound plan, or a
 * sound environment, it has none.
 */
async function soundPart(
  root: YamlMap,
  { isBroken }: Tree,
  { file, variables }: { readonly file: string; readonly variables: Variables },
): Promise<YamlMap | undefined> {
  const isSound = async (document: YamlMap) => (await loadDocument(document, file, variables)).ok;
  const reach = pick(root, REACH);
  if (!(await isSound({ ...MINIMUM, ...reach }))) return undefined;
  let document: YamlMap = reach;
  for (const key of OPTIONAL) {
    const next = { ...document, ...pick(root, [key]) };
    // A value without its variable is left out, so that the default would stand in its place.
    if (!isBroken([key]) && (await isSound({ ...MINIMUM, ...next }))) document = next;
  }
  const plans: Record<string, unknown> = {};
  for (const [name, plan] of entriesOf(root.plans)) {
    if (await isSound({ ...MINIMUM, plans: { [name]: plan } })) plans[name] = plan;
  }
  const environments: Record<string, unknown> = {};
  for (const [name, value] of entriesOf(root.environments)) {
    const next = { ...environments, [name]: environmentPart(value) };
    if (await isSound({ ...MINIMUM, ...document, environments: next })) {
      environments[name] = next[name];
    }
  }
  return {
    ...document,
    ...(Object.keys(plans).length > 0 && { plans }),
    ...(Object.keys(environments).length > 0 && { environments }),
  };
}

/** The part of a running gateway that commands need, from its GET /api/config. */
function runningPart({ plans, environments, keyPrefix, foreignKeys, history }: YamlMap): YamlMap {
  const named = entriesOf(environments).map(([name, value]) => [name, environmentPart(value)]);
  return { plans, environments: Object.fromEntries(named), keyPrefix, foreignKeys, history };
}

function environmentPart(value: unknown): YamlMap {
  const given = isObject(value) ? pick(value, ENVIRONMENT) : {};
  // GET /api/config has "off" for keys that the file leaves out.
  const part = Object.fromEntries(Object.entries(given).filter(([, one]) => one !== "off"));
  const { upstreams } = part;
  const hasUpstreams = Array.isArray(upstreams) && upstreams.length > 0;
  return hasUpstreams ? part : { ...part, upstreams: NO_UPSTREAM };
}

function entriesOf(value: unknown): readonly (readonly [string, unknown])[] {
  return isObject(value) ? Object.entries(value) : [];
}

function pick(from: YamlMap, keys: readonly string[]): YamlMap {
  return Object.fromEntries(
    keys.filter((key) => Object.hasOwn(from, key)).map((key) => [key, from[key]]),
  );
}

/**
 * References in the file are replaced already, so a dollar here is only a dollar. Of the variables
 * that decide by themselves, commands need only the folder of the records.
 */
async function loadDocument(document: YamlMap, file: string, variables: Variables) {
  const text = JSON.stringify(document);
  const { tree, mistakes } = parseTree(text, {
    file,
    variables: undefined,
    valuesMax: CONFIG_VALUES_MAX,
  });
  if (tree === undefined) return { ok: false as const, mistakes };
  const { TOLLGATE_DATA } = variables;
  return loadTree(file, { text, tree, mistakes, paths: [] }, { TOLLGATE_DATA });
}
