/** The part of JSON Schema that the description uses; numbers may be bigint, for int64 bounds. */
export type Schema = {
  readonly type: "object" | "array" | "string" | "integer";
  readonly required?: readonly string[];
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly items?: Schema;
  readonly maxItems?: number | bigint;
  readonly enum?: readonly string[];
  readonly minLength?: number | bigint;
  readonly maxLength?: number | bigint;
  readonly minimum?: number | bigint;
  readonly maximum?: number | bigint;
};

/** Says what in `value` is not as the schema has it; fields without a description are a flaw too. */
export function flaws(schema: Schema, value: unknown, at = "$"): string[] {
  if (schema.type === "array") {
    if (!Array.isArray(value)) return [`${at} is not an array`];
    const many = value.length > (schema.maxItems ?? Number.POSITIVE_INFINITY);
    const inside = value.flatMap((it, i) => flaws(schema.items as Schema, it, `${at}[${i}]`));
    return many ? [...inside, `${at} is too long`] : inside;
  }
  if (schema.type === "object") return objectFlaws(schema, value, at);
  if (schema.type === "integer") {
    const whole = typeof value === "bigint" || Number.isInteger(value);
    const number = value as number | bigint;
    const below = schema.minimum !== undefined && number < schema.minimum;
    const above = schema.maximum !== undefined && number > schema.maximum;
    return whole && !below && !above ? [] : [`${at} is not an integer in its bounds`];
  }
  if (typeof value !== "string") return [`${at} is not a string`];
  const { minLength = 0, maxLength = Number.POSITIVE_INFINITY } = schema;
  const length = [...value].length;
  if (length < minLength || length > maxLength) return [`${at} has a wrong length`];
  return schema.enum?.includes(value) === false ? [`${at} is not one of its values`] : [];
}

function objectFlaws(schema: Schema, value: unknown, at: string): string[] {
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    return [`${at} is not an object`];
  }
  const missing = (schema.required ?? []).filter((name) => !Object.hasOwn(value, name));
  return [
    ...missing.map((name) => `${at}.${name} is missing`),
    ...Object.entries(value).flatMap(([name, it]) => {
      const property = schema.properties?.[name];
      return property === undefined
        ? [`${at}.${name} is not described`]
        : flaws(property, it, `${at}.${name}`);
    }),
  ];
}
