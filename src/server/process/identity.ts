import { readFileSync } from "node:fs";

/** The version of this gateway, as its package has it. */
export const GATEWAY_VERSION = String(
  JSON.parse(readFileSync(new URL("../../../package.json", import.meta.url), "utf8")).version,
);
