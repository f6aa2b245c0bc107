import assert from "node:assert/strict";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "vitest";
import { makeKeys } from "../../../bench/scale/house.ts";
import { startTestUpstream } from "../../support/gateway/backend.ts";
import { startTollgate } from "../../support/gateway/processes.ts";
import { freePorts, jsonOf, openFolder, runVerb, writeConfig } from "../kit.ts";

const CREATE = ["keys", "create", "--env", "production", "--plan", "free", "--json"];

describe("a key among 100,000 accounts", () => {
  it("works when its command ends, four times of four, and its account can be banned then", async () => {
    await using folder = await openFolder();
    await using backend = await startTestUpstream();
    const [production = 0, admin = 0] = await freePorts(2);
    const productionUpstream = Number(new URL(backend.origin).port);
    const file = await writeConfig(folder, { production, admin, productionUpstream });
    await mkdir(join(folder.path, "data"));
    const { text } = makeKeys([{ plan: "free", count: 100_000 }]);
    await writeFile(join(folder.path, "data/keys.json"), text);
    await using gateway = startTollgate(["start", "--config", file]);
    await gateway.line(({ msg }) => msg === "serving");
    for (let i = 0; i < 4; i++) {
      const made = await runVerb([...CREATE, "--config", file]);
      assert.deepEqual([made.status, made.err], [0, ""]);
      const { key, account } = jsonOf<{ key: string; account: string }>(made);
      const headers = { Authorization: `Bearer ${key}`, Connection: "close" };
      const asked = await fetch(`http://127.0.0.1:${production}/v1/pets`, { headers });
      assert.equal(asked.status, 200);
      const banned = await runVerb(["bans", "add", account, "--for", "1h", "--config", file]);
      assert.deepEqual([banned.status, banned.err], [0, ""]);
    }
  });

  it("is made all the same where the gateway does not answer, and the command says when it works", async () => {
    await using folder = await openFolder();
    const [admin = 0] = await freePorts(1);
    const file = await writeConfig(folder, { admin });
    await using gateway = startTollgate(["start", "--config", file]);
    await gateway.line(({ msg }) => msg === "serving");
    gateway.child.kill("SIGSTOP");
    try {
      const made = await runVerb([...CREATE, "--config", file]);
      assert.equal(made.status, 0);
      assert.match(made.err, /takes effect within a second/);
      assert.match(jsonOf<{ key: string }>(made).key, /_live_/);
    } finally {
      gateway.child.kill("SIGCONT");
    }
  });
});
