import { isObject } from "../../base/is-object.ts";
import { quoteValue } from "../../base/messages.ts";
import type { Findings } from "../file/findings.ts";
import type { ConfigPath, YamlMap } from "../file/mistake.ts";
import { SCOPE, scope } from "../schema/value-types.ts";
import { parseJsonPointer, valueAtPath } from "./json-pointer.ts";

/** The conditions to call an operation (docs/reference/plans.md#scopes). */
export type OperationAccess = {
  /** A key needs all scopes of one of these lists. If the list is empty, a key needs none. */
  readonly scopes: readonly (readonly string[])[];
  /** Whether it may be called without credentials, if the environment has a plan for that. */
  readonly isPublic: boolean;
};

export const ANY_KEY: OperationAccess = { scopes: [], isPublic: false };

/** The parts of a configuration that decide who may call. */
export type AccessRules = {
  /** Whether the environment has a plan for requests without a key. */
  readonly hasPublicPlan: boolean;
  /** Names of the fields that may carry a key, lower case. */
  readonly keyHeaders: readonly string[];
};

type AccessContext = {
  readonly rules: AccessRules;
  readonly findings: Findings;
  /** The file that the configuration names. It has the security schemes. */
  readonly main: Findings;
  /** Securities that cannot be met, as JSON. Each is reported once, at its first place. */
  readonly unmet: Set<string>;
};

/**
 * Reads the `security` at `path`, of an operation or of the whole description: alternatives, one of
 * which has to be met. A key meets the schemes http bearer, oauth2 and openIdConnect, and apiKey in
 * a field of `keyHeaders`, with the scopes that they name. An alternative with any other scheme is
 * never met.
 */
export function readAccess(
  value: unknown,
  path: ConfigPath,
  context: AccessContext,
): OperationAccess {
  const { rules, findings } = context;
  if (!Array.isArray(value)) {
    findings.wrongValue(path, "a list of security requirements");
    return ANY_KEY;
  }
  const read = value.map((one, i) => readAlternative(one, [...path, i], context));
  const isPublic = value.length === 0 || read.some((one) => one === "public");
  if (isPublic && !rules.hasPublicPlan) {
    findings.warning(
      path,
      "Operations without security need a key all the same: the environment has public: off; name a plan there",
    );
  }
  const scopes = read.filter((one) => typeof one === "object");
  const isUnmet = !isPublic && scopes.length === 0 && !read.includes("unknown");
  const text = isUnmet ? JSON.stringify(value) : "";
  if (isUnmet && !context.unmet.has(text)) {
    context.unmet.add(text);
    const fields = keyFieldsOf(value, context);
    const also = fields.length === 0 ? "" : `, or name the field ${fields[0]} in keyHeaders`;
    findings.mistake(
      path,
      `Cannot serve this security: none of its alternatives can be met by a bearer key; add one with an http bearer, oauth2 or openIdConnect scheme${also}`,
    );
  }
  const isOpen = isPublic || scopes.some((one) => one.length === 0);
  return { scopes: isOpen ? [] : scopes, isPublic };
}

/** Scopes; "public" if nothing is needed; "never" and "unknown" if it cannot be met. */
type Alternative = readonly string[] | "public" | "never" | "unknown";

function readAlternative(value: unknown, path: ConfigPath, context: AccessContext): Alternative {
  const { findings, rules } = context;
  if (!isObject(value)) {
    findings.wrongValue(path, "a map of security schemes to scopes");
    return "unknown";
  }
  const names = Object.keys(value);
  if (names.length === 0) return "public";
  const scopes: string[] = [];
  let result: Alternative = scopes;
  for (const name of names) {
    const scheme = schemeOf(name, context);
    const at = [...path, name];
    if (scheme === undefined) {
      findings.mistakeAtKey(
        at,
        `Cannot use the security scheme ${quoteValue(name)}: components.securitySchemes has none of this name`,
      );
      result = "unknown";
    } else if (!isMetByKey(scheme, rules)) {
      const why = whyNeverMet(scheme);
      findings.warning(at, `This alternative is never met: ${quoteValue(name)} is ${why}`);
      if (result !== "unknown") result = "never";
    }
    if (!readScopes(value[name], at, findings, scopes)) result = "unknown";
  }
  return result;
}

function readScopes(value: unknown, path: ConfigPath, findings: Findings, into: string[]): boolean {
  if (!Array.isArray(value)) {
    findings.wrongValue(path, "a list of scopes");
    return false;
  }
  let isSound = true;
  value.forEach((one, i) => {
    if (scope.safeParse(one).success) {
      if (!into.includes(one)) into.push(one);
      return;
    }
    isSound = false;
    findings.wrongValue([...path, i], SCOPE, "a key can have no other scopes");
  });
  return isSound;
}

function schemeOf(name: string, { main, findings }: AccessContext): YamlMap | undefined {
  return schemeIn(name, main) ?? schemeIn(name, findings);
}

function schemeIn(name: string, findings: Findings): YamlMap | undefined {
  const root = findings.tree.value;
  let scheme = valueAtPath(root, ["components", "securitySchemes", name]);
  for (let hops = 0; isObject(scheme) && typeof scheme.$ref === "string" && hops < 16; hops++) {
    const target = parseJsonPointer(scheme.$ref);
    scheme = target === undefined ? undefined : valueAtPath(root, target);
  }
  return isObject(scheme) ? scheme : undefined;
}

function isMetByKey(description: YamlMap, { keyHeaders }: AccessRules): boolean {
  const { type, scheme } = description;
  if (type === "http") return typeof scheme === "string" && scheme.toLowerCase() === "bearer";
  const field = keyFieldOf(description);
  if (field !== undefined) return keyHeaders.includes(field);
  return type === "oauth2" || type === "openIdConnect";
}

/** The field in which an apiKey scheme expects the key, lower case; undefined for other schemes. */
function keyFieldOf({ type, in: place, name }: YamlMap): string | undefined {
  const isField = type === "apiKey" && place === "header" && typeof name === "string";
  return isField ? name.toLowerCase() : undefined;
}

function whyNeverMet(description: YamlMap): string {
  const field = keyFieldOf(description);
  if (field !== undefined) {
    return `a key in the field ${quoteValue(field)}, which keyHeaders does not name`;
  }
  return "no http bearer, oauth2 or openIdConnect scheme";
}

/** The fields that would let a key meet an alternative if they were in `keyHeaders`. */
function keyFieldsOf(alternatives: readonly unknown[], context: AccessContext): string[] {
  return alternatives.flatMap((one) => {
    const schemes = Object.keys(isObject(one) ? one : {}).map((name) => schemeOf(name, context));
    const unmet = schemes.filter((scheme) => scheme && !isMetByKey(scheme, context.rules));
    const fields = unmet.map((scheme) => (scheme === undefined ? undefined : keyFieldOf(scheme)));
    return fields.every((field) => field !== undefined) ? fields : [];
  });
}
