import type { z } from "zod";

/** A key that may be left out: what then holds, as one would write it, and what it means. */
export function optional<T extends z.ZodType>(
  schema: T,
  fallback: z.input<T>,
  description: string,
) {
  return schema.prefault(fallback as never).meta({ description });
}

export function required<T extends z.ZodType>(schema: T, description: string): T {
  return schema.meta({ description });
}
