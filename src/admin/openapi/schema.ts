/** A JSON Schema (draft 2020-12), which is what OpenAPI 3.1 describes values with. */
export type Schema = Readonly<Record<string, unknown>>;

export const STRING: Schema = { type: "string" };
export const BOOLEAN: Schema = { type: "boolean" };
export const NUMBER: Schema = { type: "number", minimum: 0 };
export const COUNT: Schema = { type: "integer", minimum: 0 };
export const SECONDS: Schema = { type: "integer", description: "Unix seconds" };
/** Instants of decisions have a resolution of one millisecond. */
export const FRACTIONAL_SECONDS: Schema = { type: "number", description: "Unix seconds" };

export function arrayOf(items: Schema): Schema {
  return { type: "array", items };
}

export function mapOf(values: Schema): Schema {
  return { type: "object", additionalProperties: values };
}

/** An object of exactly these members; those named in `optional` may be absent. */
export function objectOf(
  properties: Readonly<Record<string, Schema>>,
  optional: readonly string[] = [],
): Schema {
  const required = Object.keys(properties).filter((name) => !optional.includes(name));
  return { type: "object", properties, required, additionalProperties: false };
}

export function orNull(schema: Schema): Schema {
  return { anyOf: [schema, { type: "null" }] };
}

/** A reference to a schema of the document's components, by its name. */
export function schemaRef(name: string): Schema {
  return { $ref: `#/components/schemas/${name}` };
}
