import { hash } from "node:crypto";

/**
 * The id of a copy on disk: the version of its records and the place that they are of, without
 * dots. Undefined before the first change, as such a copy is named by nothing.
 */
export function idOfCopy(version: string, place: string): string | undefined {
  return /^\d+\.[0-9a-f]+$/.test(version)
    ? `${version.replace(".", "v")}x${markOf(place)}`
    : undefined;
}

/**
 * The version of the records that a copy with this id has; "" if it names none. `isElsewhere`: they
 * are of another place, such as before `store` was changed.
 */
export function versionOfCopy(
  id: string | undefined,
  place: string,
): { readonly version: string; readonly isElsewhere: boolean } {
  const [, version, mark] = /^(\d+v[0-9a-f]+)x([0-9a-f]+)$/.exec(id ?? "") ?? [];
  if (version === undefined) return { version: "", isElsewhere: false };
  return { version: version.replace("v", "."), isElsewhere: mark !== markOf(place) };
}

/** The login and TLS say how to reach a store, and not which it is. */
function markOf(place: string): string {
  const store = place.replace(/^(redis)s?(\+\w+)?:\/\/(?:[^/]*@)?/, "$1$2://");
  return hash("sha256", store, "hex").slice(0, 16);
}
