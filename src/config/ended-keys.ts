import { checkKeyText, makeKey, matchesForeignFormat } from "../core/keys/key.ts";
import type { AccountRecord, Records } from "../core/keys/records.ts";
import type { Config, ConfigChange } from "./config.ts";
import type { Mistake } from "./file/mistake.ts";
import { named, withWorkingKeys } from "./unserved-records.ts";

/**
 * A warning for each setting by which keys of before are refused for their shape, or for the field in
 * which clients send them. A record keeps neither, only the digest, so that a start cannot know, and
 * nothing knows whether an imported key has the shape of ours.
 */
export function endedKeys({ from, to }: ConfigChange, records: Records, nowMs: number): Mistake[] {
  const warning = (why: string, owners: readonly AccountRecord[], what: string, ended: string) => {
    const message = `${why}, and ${named(owners, what)}${ended}`;
    return owners.length === 0 ? [] : [{ file: to.file, line: 1, column: 1, message }];
  };
  const ownersOf = (keys: Records["keys"]) => withWorkingKeys(records.accounts, keys, nowMs);
  const imported = records.keys.filter(({ importId }) => importId !== undefined);
  const own = [...Map.groupBy(endedStarts(from, to), ({ why }) => why)].flatMap(([why, of]) => {
    const environments = new Set(of.map(({ environment }) => environment));
    const there = records.keys.filter(({ environment }) => environments.has(environment));
    const mayBeForeign = from.foreignKeys.length > 0;
    const issued = there.filter(({ importId }) => !mayBeForeign || importId === undefined);
    const certain = new Set(ownersOf(issued));
    const others = ownersOf(there).filter((account) => !certain.has(account));
    const starts = of.map(({ start }) => start).join(", ");
    const mayStart = `, which may start with ${starts}: requests with these ${INVALID}`;
    return [
      ...warning(
        why,
        [...certain],
        "keys there",
        `: requests with keys that start with ${starts} ${INVALID}`,
      ),
      ...warning(why, others, "only imported keys", mayStart),
    ];
  });
  // Keys of another shape come by an import alone.
  const foreign = endedFormats(from, to).flatMap((format) => {
    const overlapping = to.foreignKeys.filter(({ prefix }) => {
      return prefix.startsWith(format.prefix) || format.prefix.startsWith(prefix);
    });
    const taken = overlapping.map((one) => `, unless it takes them as ${shapeOf(one)}`).join("");
    const ended = `: requests with keys of that shape ${INVALID}${taken}`;
    return warning(
      `foreignKeys takes ${shapeOf(format)} no more`,
      ownersOf(imported),
      "imported keys",
      ended,
    );
  });
  const fields = from.keyHeaders.filter((name) => !to.keyHeaders.includes(name));
  const unread = fields.flatMap((name) => {
    const ended = ": requests with keys in that field alone are answered 401 key_missing";
    return warning(`keyHeaders has ${name} no more`, ownersOf(records.keys), "keys", ended);
  });
  return [...own, ...foreign, ...unread];
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
