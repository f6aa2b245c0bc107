import { type MemberMistake, MISTAKES_MAX } from "./files/damaged.ts";
import type { JsonPath } from "./files/json-place.ts";

/** Reads members of a parsed file or notes a mistake, so that several are told at once. */
export class MemberReader {
  readonly mistakes: MemberMistake[] = [];

  /** So many mistakes that no more are told: reading on is of no use. */
  get full(): boolean {
    return this.mistakes.length >= MISTAKES_MAX;
  }

  object(value: unknown, path: JsonPath): Record<string, unknown> {
    if (typeof value === "object" && value !== null && !Array.isArray(value)) {
      return value as Record<string, unknown>;
    }
    this.note(path, "it must be an object", value);
    return {};
  }

  list(value: unknown, path: JsonPath): readonly unknown[] {
    if (Array.isArray(value)) return value;
    this.note(path, "it must be a list", value);
    return [];
  }

  whole(value: unknown, path: JsonPath, least = 0, most = Number.MAX_SAFE_INTEGER): number {
    if (typeof value === "number" && Number.isInteger(value) && value >= least && value <= most) {
      return value;
    }
    this.note(path, `it must be a whole number from ${least} to ${most}`, value);
    return least;
  }

  text(value: unknown, path: JsonPath, pattern: RegExp, wanted: string): string {
    if (typeof value === "string" && pattern.test(value)) return value;
    this.note(path, `it must be ${wanted}`, value);
    return "";
  }

  note(path: JsonPath, why: string, value: unknown): void {
    const found = JSON.stringify(value)?.slice(0, 60) ?? "nothing";
    this.mistakes.push({ path, why: `${why}: found ${found}` });
  }
}
