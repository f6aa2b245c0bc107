import { randomBytes } from "node:crypto";

/** `<number>.<random>`: the number grows with each change, and no two changes have one version. */
export function versionAfter(version: string): string {
  return `${numberOfVersion(version) + 1}.${randomBytes(6).toString("hex")}`;
}

/** The number of a version; 0 where there is none, or none that can be read. */
export function numberOfVersion(version: string): number {
  const number = Number.parseInt(version, 10);
  return Number.isSafeInteger(number) ? number : 0;
}
