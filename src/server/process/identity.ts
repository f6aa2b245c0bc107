import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { hostname } from "node:os";

/** The version of this gateway, from its package. */
export const GATEWAY_VERSION = String(
  JSON.parse(readFileSync(new URL("../../../package.json", import.meta.url), "utf8")).version,
);

/** The name of this process in events and telemetry. It differs for each process of a machine. */
export const GATEWAY_ID = `${hostname()}-${randomBytes(3).toString("hex")}`;
