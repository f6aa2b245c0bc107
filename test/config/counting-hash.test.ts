import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { countingHash } from "../../src/config/queries/counting-hash.ts";
import { loadFiles } from "./folder.ts";

type Terms = { plans?: string; top?: string; limits?: string; password?: string };

const FREE = "free: { minute: 60, day: 100, meters: { tokens: { minute: 9 } } }";

async function hashOf({ plans = FREE, top = "", limits = "day: 5", password = "one" }: Terms) {
  const store = /^store:/m.test(top) ? "" : `store: redis://u:\${PASSWORD}@127.0.0.1:1\n`;
  const loaded = await loadFiles(
    {
      "tollgate.yaml": `${store}${top}
environments:
  production: { listen: 127.0.0.1:0, keyTag: live, api: ./api.yaml, upstreams: [http://127.0.0.1:9001] }
plans: { ${plans}, other: { day: 7 } }
`,
      "api.yaml": `openapi: 3.1.0
info: { title: t, version: 1.0.0 }
paths:
  /few: { get: { operationId: few, x-limits: { ${limits} }, responses: {} } }
`,
    },
    { PASSWORD: password },
  );
  assert.ok(loaded.ok, JSON.stringify(loaded));
  return countingHash(loaded.config);
}

describe("the hash of what a configuration counts", () => {
  it("stays as it is whatever limits, bans, logs and the login of the store are", async () => {
    const first = await hashOf({});
    for (const terms of [
      {
        plans:
          "free: { minute: 61, day: 99, observe: { day: 9 }, meters: { tokens: { minute: 8 } } }",
      },
      { top: "bans: off\nlog: { level: warn }" },
      { limits: "day: 6" },
      { password: "another" },
    ]) {
      assert.equal(await hashOf(terms), first, JSON.stringify(terms));
    }
    const [long, short] = [
      await hashOf({ top: "history: 400d" }),
      await hashOf({ top: "history: 62d" }),
    ];
    assert.equal(long, short);
  });

  it("is another one for each window, meter, history and place of counts", async () => {
    const all = [
      {},
      { plans: "free: { minute: 60, meters: { tokens: { minute: 9 } } }" },
      {
        plans:
          "free: { minute: 60, day: 100, observe: { hour: 9 }, meters: { tokens: { minute: 9 } } }",
      },
      { plans: "free: { minute: 60, day: 100, meters: { tokens: { hour: 9 } } }" },
      { plans: "free: { minute: 60, day: 100, meters: { words: { minute: 9 } } }" },
      { plans: "free: { minute: 60, day: 100 }" },
      { plans: "free: custom" },
      { limits: "minute: 5" },
      { top: "history: 400d" },
      { top: "storePrefix: another" },
      { top: "store: redis://127.0.0.1:2" },
      { top: "store: memory\nstateFile: ./one.json" },
    ];
    const hashes = await Promise.all(all.map(hashOf));
    assert.equal(new Set(hashes).size, all.length, JSON.stringify(hashes));
  });
});
