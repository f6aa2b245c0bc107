import { randomBytes } from "node:crypto";
import { hostname } from "node:os";

/** The name of this process in events and telemetry: two on one machine have two. */
export const GATEWAY_ID = `${hostname()}-${randomBytes(3).toString("hex")}`;
