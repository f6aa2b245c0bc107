import { readFileSync } from "node:fs";

/** The version of this gateway, as its package has it. */
export const VERSION = String(
  JSON.parse(readFileSync(new URL("../../../package.json", import.meta.url), "utf8")).version,
);
