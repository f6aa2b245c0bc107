import { z } from "zod";
import { shape } from "./shape.ts";

export type JsonSchema = { [key: string]: unknown };

const REFERENCE = { $ref: "#/$defs/reference" };

/** The shape as zod tells it: JSON Schema 2020-12 of what one writes, not of what is made of it. */
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
    },
  };
}

/** The text of config/tollgate.schema.json, and of `tollgate schema`. */
export function schemaText(): string {
  return `${JSON.stringify(configSchema(), null, 2)}\n`;
}

/** Wherever a number or a word of a form stands, a reference may stand for it. */
function withReferences(schema: JsonSchema): JsonSchema {
  const { title, description, default: fallback, ...rules } = schema;
  const words = {
    ...(title === undefined ? {} : { title }),
    ...(description === undefined ? {} : { description }),
    ...(fallback === undefined ? {} : { default: fallback }),
  };
  if (Array.isArray(rules.anyOf)) {
    const options = rules.anyOf.map((option: JsonSchema) => {
      return describesMap(option) ? withReferences(option) : option;
    });
    return { ...words, ...rules, anyOf: [...options, REFERENCE] };
  }
  if (rules.type === "array") {
    return { ...words, ...rules, items: withReferences(rules.items as JsonSchema) };
  }
  if (!describesMap(rules)) {
    const isFreeText = rules.type === "string" && !("pattern" in rules) && !("enum" in rules);
    return isFreeText ? schema : { ...words, anyOf: [rules, REFERENCE] };
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
