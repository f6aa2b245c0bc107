import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { hostname } from "node:os";

/** The version of this gateway, as its package has it. */
export const GATEWAY_VERSION = String(
  JSON.parse(readFileSync(new URL("../../../package.json", import.meta.url), "utf8")).version,
);

/** The name of this process in events and telemetry: two on one machine have two. */
export const GATEWAY_ID = `${hostname()}-${randomBytes(3).toString("hex")}`;
