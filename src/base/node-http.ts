import { createRequire } from "node:module";

/**
 * Node's HTTP, required and not imported: an import reads every export of the module, and that of
 * `WebSocket` loads Node's own undici, which costs each start 35 ms of processor.
 */
export const { Agent, createServer, request, STATUS_CODES } = createRequire(import.meta.url)(
  "node:http",
) as typeof import("node:http");
