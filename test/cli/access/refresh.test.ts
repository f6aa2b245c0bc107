import assert from "node:assert/strict";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { describe, it } from "vitest";
import { jsonOf, openFolder, runVerb, writeConfig } from "../kit.ts";

describe("the running gateway", () => {
  it("is told to read the records after a change, and not after a look at them", async () => {
    const asked: string[] = [];
    const server = createServer((request, response) => {
      asked.push(`${request.method} ${request.url}`);
      response.writeHead(404).end("{}");
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    await using folder = await openFolder();
    const { port } = server.address() as AddressInfo;
    const file = await writeConfig(folder, { admin: port });
    const refreshes = async (...verb: string[]) => {
      asked.length = 0;
      const said = await runVerb([...verb, "--config", file]);
      assert.equal(said.status, 0, said.err);
      return asked.filter((one) => one === "POST /api/keys/refresh").length;
    };
    try {
      const create = ["keys", "create", "--env", "production", "--plan", "free"];
      assert.equal(await refreshes(...create), 1);
      const listed = await runVerb(["keys", "list", "--json", "--config", file]);
      const [key] = jsonOf<{ id: string; account: string }[]>(listed);
      assert.equal(await refreshes("keys", "list"), 0);
      assert.equal(await refreshes("accounts", "show", key?.account ?? ""), 0);
      assert.equal(await refreshes("keys", "revoke", key?.id ?? ""), 1);
    } finally {
      server.close();
    }
  });
});
