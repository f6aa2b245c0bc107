import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, describe, it } from "vitest";
import { type Folder, jsonOf, openFolder, runVerb, writeConfig } from "../kit.ts";

const KEY = "pets_live_Smuggle0Test0Key0For0Vectors004Lozas";

describe("records in a file of another program", () => {
  let folder: Folder;
  let file: string;
  const keys = (stdin: string | Buffer, ...args: string[]) =>
    runVerb(["keys", ...args, "--config", file], { stdin });

  beforeEach(async () => {
    folder = await openFolder();
    file = await writeConfig(folder);
  });
  afterEach(() => folder[Symbol.asyncDispose]());

  it("come in from a file with a byte order mark, as editors and shells of Windows write it", async () => {
    const record = { key: KEY, account: "shop", plan: "free", environment: "production" };
    const path = join(folder.path, "plain.jsonl");
    await writeFile(path, `\uFEFF${JSON.stringify(record)}\r\n`);
    const come = await keys("", "import", path, "--plain", "--json");
    assert.deepEqual(jsonOf(come), { keys: 1, accounts: 1, known: 0, ended: 0, differing: 0 });
    const lines = (await keys("", "export")).out;
    const again = await keys(`\uFEFF${lines}`, "import", "-", "--json");
    assert.deepEqual(jsonOf(again), { keys: 0, accounts: 0, known: 1, ended: 0, differing: 0 });
    const file = join(folder.path, "copy.json");
    const whole = await readFile(join(folder.path, "data/keys.json"), "utf8");
    await writeFile(file, `\uFEFF${whole}`);
    assert.equal((await keys("", "import", file)).status, 0);
  });

  it("are refused with each line that is not UTF-8, and no letter is replaced", async () => {
    const line = (name: string) => {
      const record = { key: KEY, account: "b", plan: "free", environment: "production", name };
      return `${JSON.stringify(record)}\n`;
    };
    const latin = (text: string) => Buffer.from(text, "latin1");
    const utf8 = Buffer.from(`${line("J\ufffd\u00e9")}no JSON\n`);
    const bytes = Buffer.concat([utf8, latin(line("Jos\u00e9")), utf8, latin(line("M\u00fcller"))]);
    const path = join(folder.path, "latin1.jsonl");
    await writeFile(path, bytes);
    for (const name of [path, "-"]) {
      const { status, err } = await keys(bytes, "import", name, "--plain");
      const places = [...err.matchAll(/:(\d+): it is not UTF-8; save it as UTF-8$/gm)];
      assert.deepEqual([status, places.map(([, at]) => at)], [1, ["3", "6"]], err);
      assert.deepEqual(
        err.match(/:[25]: it is no JSON/g)?.length,
        2,
        "the other mistakes are told too",
      );
    }

    const good = await keys(line("Jos\u00e9"), "import", "-", "--plain");
    assert.equal(good.status, 0, good.err);
    const whole = await readFile(join(folder.path, "data/keys.json"), "utf8");
    assert.match(whole, /Jos\u00e9/);
    await writeFile(path, latin(whole));
    const copy = await keys("", "import", path);
    assert.equal(copy.status, 1);
    assert.match(copy.err, /^[^\n]*latin1\.jsonl:\d+: it is not UTF-8; save it as UTF-8\n$/);
  });
});
