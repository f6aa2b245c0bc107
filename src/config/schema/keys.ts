import { z } from "zod";
import { hasMeaning } from "../../core/http/field-names.ts";
import * as kind from "./value-types.ts";
import { optional, required } from "./value-types.ts";

const FIELD = "authorization, or the name of a field such as x-api-key";

const keyHeader = kind
  .text(FIELD, /^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}$/)
  .transform((name) => name.toLowerCase())
  .refine(
    (name) => name === "authorization" || !hasMeaning(name),
    "a field that has no meaning of its own for the gateway or in HTTP, such as x-api-key",
  )
  .meta({ title: FIELD });

export const keyHeaders = z
  .array(keyHeader, "a list of field names")
  .min(1, "a list of at least one field name")
  .max(16, "a list of at most 16 field names");

const foreignKey = z.strictObject(
  {
    prefix: required(
      kind.quotable("2 to 16 visible characters", /^[\x21-\x7e]{2,16}$/),
      "What such a key starts with.",
    ),
    min: optional(
      kind.integer({ from: 16, to: 256 }),
      22,
      "So many characters of A-Z, a-z, 0-9, _ and - at least come after it.",
    ),
  },
  "a map with prefix and min",
);

export const foreignKeys = z.union(
  [
    kind.off,
    z
      .array(foreignKey, "a list of prefixes")
      .min(1, "a list of at least one prefix")
      .max(16, "a list of at most 16 prefixes"),
  ],
  "off, or a list of prefixes",
);
