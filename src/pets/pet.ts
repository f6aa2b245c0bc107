import { invalid, type PetResult, quoted, valid } from "./problem.ts";

export const STATUSES = ["available", "pending", "sold"] as const;
export type PetStatus = (typeof STATUSES)[number];

/**
 * The body of `POST /pets`, NewPet in config/pets.openapi.yaml. Numbers are bigint, because a
 * double cannot hold every int64. An omitted `status` stays absent.
 */
export type NewPet = {
  readonly name: string;
  readonly categoryId: bigint;
  readonly status?: PetStatus;
};
export type Pet = NewPet & { readonly id: bigint };

const NAME_CHARACTERS_MAX = 200;
/** Deep enough for any ignored field, shallow enough for the reviver, which recurses. */
const NESTING_MAX = 32;
const CANONICAL_INTEGER = /^(?:0|-?[1-9][0-9]{0,18})$/;

/** A Pet as JSON, with its integers exact. */
export function encodePet({ id, name, categoryId, status }: Pet): string {
  const end = status === undefined ? "" : `,"status":"${status}"`;
  return `{"id":${id},"name":${JSON.stringify(name)},"categoryId":${categoryId}${end}}`;
}

/** Parses an int64 in its canonical form: no sign but a leading "-", no leading zeros, no "-0". */
export function parseInt64(text: string): bigint | undefined {
  if (!CANONICAL_INTEGER.test(text)) return undefined;
  const value = BigInt(text);
  return BigInt.asIntN(64, value) === value ? value : undefined;
}

export function isPetStatus(value: unknown): value is PetStatus {
  return STATUSES.some((status) => status === value);
}

/**
 * Reads the body of `POST /pets`: a NewPet, or 400 `invalid_body` that names every mistake in it.
 * Unknown fields are ignored, and `id` is one of them. A duplicate key is refused, because readers
 * differ in which of the two they use (RFC 8259 4).
 */
export function parseNewPet(body: Uint8Array): PetResult<NewPet> {
  if (body.length === 0) return invalid("invalid_body", "The body is empty: send a NewPet as JSON");
  const json = parseExact(body);
  if (!json.ok) return json;
  const { value } = json;
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    return invalid("invalid_body", "The body must be a JSON object");
  }
  return judgeNewPet(value as Record<string, unknown>);
}

const NAME_WANTED = `a string of 1 to ${NAME_CHARACTERS_MAX} Unicode characters`;
const CATEGORY_WANTED = "an int64, written as an integer";

function judgeNewPet({ name, categoryId, status }: Record<string, unknown>): PetResult<NewPet> {
  const problems: string[] = [];
  const goodName = isName(name);
  if (!goodName) problems.push(wanted("name", NAME_WANTED, name));
  const goodCategory = typeof categoryId === "bigint";
  if (!goodCategory) problems.push(wanted("categoryId", CATEGORY_WANTED, categoryId));
  const goodStatus = status === undefined || isPetStatus(status);
  if (!goodStatus) problems.push(`status must be one of ${STATUSES.join(", ")}, or left out`);
  if (!goodName || !goodCategory || !goodStatus) {
    return invalid("invalid_body", problems.join("; "));
  }
  return valid(status === undefined ? { name, categoryId } : { name, categoryId, status });
}

/** The message tells a missing field from one of the wrong type or size. */
function wanted(field: string, kind: string, found: unknown): string {
  if (found === undefined) return `${field} is required: ${kind}`;
  return `${field} must be ${kind}: found ${spoken(found)}`;
}

function spoken(value: unknown): string {
  if (typeof value === "string")
    return value === "" ? "an empty string" : `the string ${quoted(value)}`;
  if (typeof value === "number") return "another number";
  if (typeof value === "bigint") return "a number";
  if (Array.isArray(value)) return "an array";
  return typeof value === "object" && value !== null ? "an object" : String(value);
}

/**
 * Whether a value is a name. Characters are Unicode scalar values, so a lone surrogate is none;
 * blanks and controls are characters.
 */
function isName(value: unknown): value is string {
  if (typeof value !== "string" || value === "" || !value.isWellFormed()) return false;
  return value.length <= 2 * NAME_CHARACTERS_MAX && [...value].length <= NAME_CHARACTERS_MAX;
}

/** The third argument is ES2026, which the compiler's library does not know yet. */
type Reviver = (key: string, value: unknown, context: { readonly source?: string }) => unknown;
const parseWithSource = JSON.parse as (text: string, reviver: Reviver) => unknown;

/** Parses JSON. A number that is written as an integer and fits an int64 becomes a bigint. */
function parseExact(body: Uint8Array): PetResult<unknown> {
  try {
    // A byte order mark is not JSON (RFC 8259 8.1), so it is not skipped.
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(body);
    // Without a reviver the parser neither recurses nor looks back, whatever the text is.
    JSON.parse(text);
    const flaw = structuralFlaw(text);
    if (flaw !== undefined) return invalid("invalid_body", flaw);
    return valid(
      parseWithSource(text, (_key, value, { source = "" }) =>
        typeof value === "number" ? (parseInt64(source) ?? value) : value,
      ),
    );
  } catch {
    return invalid("invalid_body", "The body is not JSON in UTF-8");
  }
}

const TOKEN = /"[^"\\]*(?:\\.[^"\\]*)*"(\s*:)?|[{}[\]]/g;

/**
 * Finds flaws that JSON.parse does not report: a duplicate key in one object, and nesting that is
 * too deep. The text must be valid JSON, because unterminated strings would make the pattern
 * quadratic.
 */
function structuralFlaw(text: string): string | undefined {
  const open: Set<string>[] = [];
  for (const [token, colon] of text.matchAll(TOKEN)) {
    if (token === "{" || token === "[") {
      if (open.push(new Set()) > NESTING_MAX) {
        return `The body is nested deeper than ${NESTING_MAX} levels`;
      }
    } else if (token === "}" || token === "]") {
      open.pop();
    } else if (colon !== undefined) {
      const key: string = JSON.parse(token.slice(0, -colon.length));
      const keys = open.at(-1);
      if (keys?.has(key)) return `The key ${quoted(key)} appears twice`;
      keys?.add(key);
    }
  }
  return undefined;
}
