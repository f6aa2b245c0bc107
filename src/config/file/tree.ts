import {
  type Alias,
  isAlias,
  isMap,
  isScalar,
  isSeq,
  type Node,
  type Pair,
  type Scalar,
  type ScalarTag,
} from "yaml";
import type { TextPosition } from "../../base/text-position.ts";
import {
  type ConfigPath,
  formatPath,
  isWithin,
  type Mistake,
  makeMistake,
  pathKey,
} from "./mistake.ts";
import { substitute, type Variables } from "./substitute.ts";
import type { TextFileResult } from "./text-file.ts";
import { type ParsedYaml, parseYaml } from "./yaml.ts";

/** A YAML file as plain values, each with its place. */
export type Tree = {
  readonly value: unknown;
  /** The place of a value; of the nearest key or value around it if the value is absent. */
  positionOf(path: ConfigPath): TextPosition;
  /** The place of the key of a value. */
  placeOfKey(path: ConfigPath): TextPosition;
  /** Whether text from the environment is in this value. It may be a secret and is never shown. */
  isSubstituted(path: ConfigPath): boolean;
  /** Whether a part of the value could not be read, so that the value is unknown. */
  isBroken(path: ConfigPath): boolean;
};

export type TreeOptions = {
  /** The name of the file in mistakes. */
  readonly file: string;
  /** The variables for `${NAME}`. If undefined, dollars are left alone. */
  readonly variables: Variables | undefined;
  /** The files for `${file:PATH}`, by PATH. */
  readonly files?: ReadonlyMap<string, TextFileResult>;
  /** The most values, with aliases expanded: a file of nested aliases must not exhaust memory. */
  readonly valuesMax: number;
};

const DEPTH_MAX = 64;
/** The file is read as YAML 1.2 all the same, so that commands know what leads to the gateway. */
const OTHER_VERSION = /^%YAML[ \t]+1\.1/m;
const OTHER_VERSION_MISTAKE =
  "Cannot read the file as YAML: it says that it is YAML 1.1, in which 060 is 48; remove the line";
const RESERVED = new Set(["__proto__", "constructor", "prototype"]);

/** The state of reading one file. Offsets are positions in its text. */
type ParseState = ParsedYaml & {
  readonly options: TreeOptions;
  readonly mistakes: Mistake[];
  readonly values: Map<string, number>;
  readonly keys: Map<string, number>;
  readonly substituted: Set<string>;
  readonly broken: Set<string>;
  /** The node that an alias of this name stands for from this point on. */
  readonly anchors: Map<string, Node>;
  /** Nodes whose anchors are noted, and resolved aliases. An expansion meets them again. */
  readonly anchored: Set<Node>;
  readonly targets: Map<Alias, Node | undefined>;
  count: number;
  exceeded: boolean;
};

/**
 * Parses YAML 1.2 and replaces references in scalars, so that lines and columns are those of the
 * file and no variable can add structure. There is no tree if the text is not YAML or is too large.
 */
export function parseTree(
  text: string,
  options: TreeOptions,
): { readonly tree?: Tree; readonly mistakes: readonly Mistake[] } {
  // A description comes from other tools, some of which write YAML 1.1.
  const at = options.variables === undefined ? -1 : text.search(OTHER_VERSION);
  const own = at < 0 ? text : text.replace(OTHER_VERSION, "#YAML 1.1");
  const { parsed, mistakes } = parseYaml(own, options.file);
  if (parsed === undefined) return { mistakes };
  const state: ParseState = {
    ...parsed,
    options,
    mistakes: at < 0 ? [] : [makeMistake(options.file, parsed.placeAt(at), OTHER_VERSION_MISTAKE)],
    values: new Map(),
    keys: new Map(),
    substituted: new Set(),
    broken: new Set(),
    anchors: new Map(),
    anchored: new Set(),
    targets: new Map(),
    count: 0,
    exceeded: false,
  };
  const value = plain(state, state.document.contents, { path: [] });
  if (state.exceeded) return { mistakes: state.mistakes };
  return { tree: treeOf(state, value), mistakes: state.mistakes };
}

type Spot = {
  readonly path: ConfigPath;
  /** The place of an alias to the value. Mistakes are reported there. */
  readonly aliasAt?: number;
};

function plain(state: ParseState, node: Node | null | undefined, { path, aliasAt }: Spot): unknown {
  state.count++;
  const offset = aliasAt ?? node?.range?.[0];
  if (isTooMuch(state, path, offset)) return undefined;
  const isEmpty = isScalar(node) && node.value === null && node.source === "";
  if (offset !== undefined && !isEmpty) state.values.set(pathKey(path), offset);
  noteAnchor(state, node);
  if (isAlias(node)) {
    const target = targetOf(state, node);
    if (target === undefined) {
      note(state, offset ?? 0, "Cannot follow the alias: no anchor before it has this name");
      state.broken.add(pathKey(path));
      return undefined;
    }
    return plain(state, target, offset === undefined ? { path } : { path, aliasAt: offset });
  }
  if (isMap(node)) return plainMap(state, node.items, path);
  if (isSeq<Node>(node)) {
    return node.items.map((item, i) => plain(state, item, { path: [...path, i] }));
  }
  return isScalar(node) ? plainScalar(state, node, path) : null;
}

/**
 * Stores the node under its anchor, in the order of the file: an alias means the last anchor of its
 * name before it (YAML 1.2.2, 7.1). The parser's own look-up walks the whole file for each alias.
 */
function noteAnchor({ anchors, anchored }: ParseState, node: Node | null | undefined): void {
  if (!isScalar(node) && !isMap(node) && !isSeq(node)) return;
  if (node.anchor === undefined || anchored.has(node)) return;
  anchored.add(node);
  anchors.set(node.anchor, node);
}

function targetOf({ anchors, targets }: ParseState, alias: Alias): Node | undefined {
  if (!targets.has(alias)) targets.set(alias, anchors.get(alias.source));
  return targets.get(alias);
}

function plainMap(
  state: ParseState,
  items: readonly Pair[],
  path: ConfigPath,
): Record<string, unknown> {
  const map: Record<string, unknown> = {};
  for (const pair of items) {
    if (state.exceeded) break;
    const offset = (pair.key as Node).range?.[0] ?? 0;
    noteAnchor(state, pair.key as Node);
    const key = isAlias(pair.key) ? targetOf(state, pair.key) : pair.key;
    if (!isScalar(key)) {
      note(state, offset, "Cannot use a map or a list as a key: write a word");
      continue;
    }
    // As it is written: `1.10` is not the number 1.1.
    const name = key.type === "PLAIN" && key.source ? key.source : String(key.value);
    const here = [...path, name];
    if (RESERVED.has(name)) {
      note(state, offset, `Cannot use ${name} as a key: the name is reserved; choose another`);
    } else if (Object.hasOwn(map, name)) {
      const { line } = state.placeAt(state.keys.get(pathKey(here)) ?? 0);
      const problem = `Cannot use the key ${formatPath(here)} twice: it is on line ${line} already`;
      note(state, offset, `${problem}; remove one`);
    } else {
      state.keys.set(pathKey(here), offset);
      map[name] = plain(state, pair.value as Node | null, { path: here });
    }
  }
  return map;
}

function plainScalar(state: ParseState, node: Scalar, path: ConfigPath): unknown {
  const { variables, files } = state.options;
  if (variables === undefined || !node.source?.includes("$")) return node.value;
  const { text, used, mistakes } = substitute(node.source, variables, files);
  for (const mistake of mistakes) {
    const offset = state.values.get(pathKey(path)) ?? 0;
    note(state, offset, `Cannot replace the references in ${formatPath(path)}: ${mistake}`);
  }
  if (used.length > 0) state.substituted.add(pathKey(path));
  if (mistakes.length > 0) {
    state.broken.add(pathKey(path));
    return undefined;
  }
  // Only a plain scalar can be a number or a boolean: quotes mean text (YAML 1.2.2, 10.3.2).
  if (node.type !== "PLAIN" || node.tag !== undefined) return text;
  const tag = state.document.schema.tags.find(
    (one): one is ScalarTag =>
      one.default === true && "test" in one && one.test?.test(text) === true,
  );
  if (tag === undefined) return text;
  const resolved = tag.resolve(text, () => {}, { intAsBigInt: false });
  const value = isScalar(resolved) ? resolved.value : resolved;
  // A reference is a value, also to a variable that is empty or "null".
  return value === null ? text : value;
}

function isTooMuch(state: ParseState, path: ConfigPath, offset = 0): boolean {
  const { valuesMax } = state.options;
  const isDeep = path.length > DEPTH_MAX;
  if (state.exceeded) return true;
  if (!isDeep && state.count <= valuesMax) return false;
  state.exceeded = true;
  const why = isDeep
    ? `it is nested deeper than ${DEPTH_MAX} levels`
    : `with its aliases it holds more than ${valuesMax} values`;
  note(state, offset, `Cannot read the file: ${why}`);
  return true;
}

function note({ mistakes, options, placeAt }: ParseState, offset: number, message: string): void {
  mistakes.push(makeMistake(options.file, placeAt(offset), message));
}

function treeOf(state: ParseState, value: unknown): Tree {
  const { values, keys, placeAt, substituted, broken } = state;
  const placeOf = (path: ConfigPath): TextPosition => {
    const exact = values.get(pathKey(path));
    if (exact !== undefined && path.length > 0) return placeAt(exact);
    for (let length = path.length; length > 0; length--) {
      const near = pathKey(path.slice(0, length));
      const offset = keys.get(near) ?? values.get(near);
      if (offset !== undefined) return placeAt(offset);
    }
    return { line: 1, column: 1 };
  };
  return {
    value,
    positionOf: placeOf,
    placeOfKey: (path) => {
      const offset = keys.get(pathKey(path));
      return offset === undefined ? placeOf(path) : placeAt(offset);
    },
    isSubstituted: (path) => substituted.has(pathKey(path)),
    isBroken: (path) => [...broken].some((one) => isWithin(one, pathKey(path))),
  };
}
