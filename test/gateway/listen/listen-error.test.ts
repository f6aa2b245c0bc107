import assert from "node:assert/strict";
import { it } from "vitest";
import { listenError } from "../../../src/gateway/listen/listen-error.ts";

it("an address in use names the other listeners that may have it, and never the one that failed", () => {
  const listen = { host: "localhost", port: 8080 };
  const at = (name: string, host: string, port = 8080) => ({ name, listen: { host, port } });
  const environments = [at("one", "localhost"), at("two", "127.0.0.1"), at("three", "::1", 81)];
  const config = { environments, admin: undefined } as unknown as Parameters<typeof listenError>[3];
  const inUse = Object.assign(new Error("bind"), { code: "EADDRINUSE" });
  const { message } = listenError(inUse, listen, "environments.one.listen", config);
  assert.match(
    message,
    /already, and environments\.two\.listen of this file may be the same address/,
  );
});
