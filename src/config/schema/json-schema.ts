import { z } from "zod";
import { shape } from "./shape.ts";
import { QUOTED_BOOLEAN, QUOTED_NUMBER } from "./value-types.ts";

export type JsonSchema = { [key: string]: unknown };

const REFERENCE = { $ref: "#/$defs/reference" };
/** Between braces a reference is in quotes, and so may be the number that replaces it. */
const QUOTED: Readonly<Record<string, JsonSchema>> = {
  integer: { $ref: "#/$defs/number" },
  number: { $ref: "#/$defs/number" },
  boolean: { $ref: "#/$defs/boolean" },
};

/** The shape as zod exports it: JSON Schema 2020-12 of the input, not of the parsed output. */
export function shapeSchema(): JsonSchema {
  return z.toJSONSchema(shape, { io: "input" }) as JsonSchema;
}

/** The JSON Schema of the configuration, for editors: `tollgate schema`, config/tollgate.schema.json. */
export function configSchema(): JsonSchema {
  const { $schema, ...schema } = withReferences(shapeSchema());
  return {
    $schema,
    title: "Tollgate configuration",
    ...schema,
    $defs: {
      reference: {
        description: `Text with \${NAME} or \${NAME:-default}, replaced from the environment.`,
        type: "string",
        pattern: "\\$\\{",
      },
      number: {
        description: "A number in quotes, as it becomes of a reference in quotes.",
        type: "string",
        pattern: QUOTED_NUMBER.source,
      },
      boolean: {
        description: "true or false in quotes, as it becomes of a reference in quotes.",
        type: "string",
        pattern: QUOTED_BOOLEAN.source,
      },
    },
  };
}

/** The text of config/tollgate.schema.json, and of `tollgate schema`. */
export function schemaText(): string {
  return `${JSON.stringify(configSchema(), null, 2)}\n`;
}

/** A reference may replace any number and any word of a fixed format. */
function withReferences(schema: JsonSchema): JsonSchema {
  const { title, description, default: fallback, ...rules } = schema;
  const words = {
    ...(title === undefined ? {} : { title }),
    ...(description === undefined ? {} : { description }),
    ...(fallback === undefined ? {} : { default: fallback }),
  };
  if (Array.isArray(rules.anyOf)) {
    const options = rules.anyOf.map((option: JsonSchema) => {
      return option.type === "array" || describesMap(option) ? withReferences(option) : option;
    });
    return { ...words, ...rules, anyOf: [...options, REFERENCE] };
  }
  if (rules.type === "array") {
    return { ...words, ...rules, items: withReferences(rules.items as JsonSchema) };
  }
  if (!describesMap(rules)) {
    const isFreeText = rules.type === "string" && !("pattern" in rules) && !("enum" in rules);
    if (isFreeText) return schema;
    const quoted = QUOTED[String(rules.type)];
    return { ...words, anyOf: [rules, REFERENCE, ...(quoted === undefined ? [] : [quoted])] };
  }
  const { properties, additionalProperties } = rules;
  return {
    ...words,
    ...rules,
    ...(properties === undefined ? {} : { properties: ofEach(properties as JsonSchema) }),
    ...(additionalProperties === false
      ? {}
      : { additionalProperties: withReferences(additionalProperties as JsonSchema) }),
  };
}

function ofEach(properties: JsonSchema): JsonSchema {
  const entries = Object.entries(properties);
  return Object.fromEntries(
    entries.map(([key, value]) => [key, withReferences(value as JsonSchema)]),
  );
}

function describesMap(schema: JsonSchema): boolean {
  return schema.type === "object";
}
