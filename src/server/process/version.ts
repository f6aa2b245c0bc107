import { readFileSync } from "node:fs";

/** Of this gateway, as its package says. */
export const VERSION = String(
  JSON.parse(readFileSync(new URL("../../../package.json", import.meta.url), "utf8")).version,
);
