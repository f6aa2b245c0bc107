import { checkKeyText, makeKey, matchesForeignFormat } from "../core/keys/key.ts";
import type { AccountRecord, Records } from "../core/keys/records.ts";
import type { Config, ConfigChange } from "./config.ts";
import type { Mistake } from "./file/mistake.ts";
import { named, withWorkingKeys } from "./unserved-records.ts";

/**
 * A warning for each setting by which keys of before are refused for their shape, or for the field in
 * which clients send them. A record keeps neither, only the digest: a start cannot know of them, and
 * nothing tells whether an imported key has the shape of Tollgate's own.
 */
export function endedKeys(change: ConfigChange, records: Records, nowMs: number): Mistake[] {
  const context: EndingContext = {
    ...change,
    keys: records.keys,
    ownersOf: (keys) => withWorkingKeys(records.accounts, keys, nowMs),
  };
  return [...ownKeys(context), ...foreignKeys(context), ...keysInFields(context)]
    .filter(({ owners }) => owners.length > 0)
    .map(({ why, owners, what, ended }) => {
      const message = `${why}, and ${named(owners, what)}${ended}`;
      return { file: change.to.file, line: 1, column: 1, message };
    });
}

type EndingContext = ConfigChange & {
  readonly keys: Records["keys"];
  /** The accounts that have a key of these that works. */
  readonly ownersOf: (keys: Records["keys"]) => readonly AccountRecord[];
};

/** The parts of a warning: why, the owners, what of theirs ends, and what requests then get. */
type EndedKeys = {
  readonly why: string;
  readonly owners: readonly AccountRecord[];
  readonly what: string;
  readonly ended: string;
};

/** If foreign keys were taken, an imported key may have another shape. */
function ownKeys({ from, to, keys, ownersOf }: EndingContext): EndedKeys[] {
  return [...Map.groupBy(endedStarts(from, to), ({ why }) => why)].flatMap(([why, of]) => {
    const environments = new Set(of.map(({ environment }) => environment));
    const there = keys.filter(({ environment }) => environments.has(environment));
    const mayBeForeign = from.foreignKeys.length > 0;
    const issued = there.filter(({ importId }) => !mayBeForeign || importId === undefined);
    const certain = new Set(ownersOf(issued));
    const others = ownersOf(there).filter((account) => !certain.has(account));
    const starts = of.map(({ start }) => start).join(", ");
    const ended = `: requests with keys that start with ${starts} ${INVALID}`;
    const mayEnd = `, which may start with ${starts}: requests with these ${INVALID}`;
    return [
      { why, owners: [...certain], what: "keys there", ended },
      { why, owners: others, what: "only imported keys", ended: mayEnd },
    ];
  });
}

/** Keys of another shape come by an import alone. */
function foreignKeys({ from, to, keys, ownersOf }: EndingContext): EndedKeys[] {
  const imported = keys.filter(({ importId }) => importId !== undefined);
  return endedFormats(from, to).map((format) => {
    const overlapping = to.foreignKeys.filter(({ prefix }) => {
      return prefix.startsWith(format.prefix) || format.prefix.startsWith(prefix);
    });
    const taken = overlapping.map((one) => `, unless it takes them as ${shapeOf(one)}`).join("");
    const why = `foreignKeys takes ${shapeOf(format)} no more`;
    const ended = `: requests with keys of that shape ${INVALID}${taken}`;
    return { why, owners: ownersOf(imported), what: "imported keys", ended };
  });
}

function keysInFields({ from, to, keys, ownersOf }: EndingContext): EndedKeys[] {
  const fields = from.keyHeaders.filter((name) => !to.keyHeaders.includes(name));
  return fields.map((name) => {
    const ended = ": requests with keys in that field alone are answered 401 key_missing";
    const why = `keyHeaders has ${name} no more`;
    return { why, owners: ownersOf(keys), what: "keys", ended };
  });
}

const INVALID = "are answered 401 key_invalid";

function shapeOf({ prefix, min }: Config["foreignKeys"][number]): string {
  return `${prefix} and ${min} characters`;
}

/** How the keys of an environment began that its new tag, or the new prefix, refuses. */
function endedStarts(from: Config, to: Config) {
  return from.environments.flatMap(({ name, keyTag }) => {
    const after = to.environments.find((environment) => environment.name === name);
    if (after === undefined) return [];
    const sample = makeKey(from.keyPrefix, keyTag, () => 0);
    if (checkKeyText(sample, { ...to, keyTag: after.keyTag }).ok) return [];
    const why =
      from.keyPrefix === to.keyPrefix
        ? `The keyTag of ${name} is ${after.keyTag} and was ${keyTag}`
        : `keyPrefix is ${to.keyPrefix} and was ${from.keyPrefix}`;
    return [{ why, environment: name, start: `${from.keyPrefix}_${keyTag}_` }];
  });
}

/** The shapes of foreign keys that are taken no more, and with which no key of `to` starts. */
function endedFormats(from: Config, to: Config): Config["foreignKeys"] {
  const starts = to.environments.map(({ keyTag }) => `${to.keyPrefix}_${keyTag}_`);
  return from.foreignKeys.filter(({ prefix, min }) => {
    const isTaken = matchesForeignFormat(prefix + "0".repeat(min), to.foreignKeys);
    return !isTaken && !starts.some((start) => start.startsWith(prefix));
  });
}
