import { isObject } from "../../base/is-object.ts";
import type { ConfigPath } from "../file/mistake.ts";

/** The path that a JSON Pointer in a fragment leads to (RFC 6901, 6); undefined for others. */
export function parseJsonPointer(reference: string): string[] | undefined {
  if (!/^#\/[^%]+$/.test(reference.replace(/%[0-9A-Fa-f]{2}/g, ""))) return undefined;
  try {
    const parts = decodeURIComponent(reference.slice(2)).split("/");
    return parts.map((part) => part.replaceAll("~1", "/").replaceAll("~0", "~"));
  } catch {
    return undefined;
  }
}

/** The value at a place of a file; undefined if there is none. */
export function valueAtPath(value: unknown, path: ConfigPath): unknown {
  let inner = value;
  for (const part of path) {
    inner = isObject(inner) && Object.hasOwn(inner, part) ? inner[part] : undefined;
  }
  return inner;
}
