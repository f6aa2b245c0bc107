import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { hostname } from "node:os";

/** The version of this gateway, from its package. */
export const GATEWAY_VERSION = String(
  JSON.parse(readFileSync(new URL("../../../package.json", import.meta.url), "utf8")).version,
);

/** Differs for each process of a machine. */
const PROCESS_ID = `${hostname()}-${randomBytes(3).toString("hex")}`;

let gatewaysInProcess = 0;

/**
 * A name for a gateway, in its events, metrics and telemetry, and in the list of gateways. A
 * program may embed several: from the second on, the name ends in a number.
 */
export function newGatewayName(): string {
  gatewaysInProcess += 1;
  return gatewaysInProcess === 1 ? PROCESS_ID : `${PROCESS_ID}-${gatewaysInProcess}`;
}
