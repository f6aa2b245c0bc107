import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, it } from "vitest";
import { type Folder, jsonOf, openFolder, runVerb, writeConfig } from "../kit.ts";

type Exported = Readonly<Record<string, unknown>> & { readonly id: string };

describe("keys export --json", () => {
  let folder: Folder;
  let file: string;
  const verb = (stdin: string, ...args: string[]) =>
    runVerb([...args, "--config", file], { stdin });
  const exported = async () => jsonOf<Exported[]>(await verb("", "keys", "export", "--json"));
  const create = async (...more: string[]) => {
    const args = ["--env", "production", "--plan", "free", "--account", "acme", ...more];
    return jsonOf<{ id: string }>(await verb("", "keys", "create", "--json", ...args)).id;
  };

  /** An account and keys that have every instant a record can have. */
  async function makeRecords(): Promise<string[]> {
    const ids = [await create("--expires", "90d", "--cap", "day=5"), await create()];
    for (const args of [
      ["keys", "set", ids[0]!, "--no-caps"],
      ["keys", "revoke", ids[1]!],
      ["accounts", "set", "acme", "--anchor", "5"],
      ["accounts", "suspend", "acme", "--for", "1h"],
    ]) {
      const { status, err } = await verb("", ...args);
      assert.equal(status, 0, err);
    }
    return ids;
  }

  beforeEach(async () => {
    folder = await openFolder();
    file = await writeConfig(folder);
  });
  afterEach(() => folder[Symbol.asyncDispose]());

  it("prints one list of the records that are lines without it, each instant in Unix seconds", async () => {
    assert.deepEqual(await exported(), []);
    const ids = await makeRecords();
    const text = (await verb("", "keys", "export")).out;
    const records = await exported();
    assert.deepEqual(
      records.map(({ id }) => id),
      ["acme", ...ids],
    );
    const floor = (ms: number) => Math.floor(ms / 1_000);
    const ceil = (ms: number) => Math.ceil(ms / 1_000);
    const inSeconds = text
      .trimEnd()
      .split("\n")
      .map((line) =>
        JSON.parse(line, (name, value: unknown) => {
          if (typeof value !== "string" || !/^\d{4}-.*Z$/.test(value)) return value;
          const isEnd = ["expires", "revoked", "until"].includes(name);
          return (isEnd ? ceil : floor)(Date.parse(value));
        }),
      );
    assert.deepEqual(records, inSeconds);
    const instants = JSON.stringify(records).match(
      /"(created|expires|revoked|since|until|dropped|from)":\d{10}\b/g,
    );
    assert.equal(instants?.length, 3 + 1 + 1 + 2 + 1 + 1, text);
  });

  it("is taken back by keys import as it is, over several lines, and with its records as lines", async () => {
    await makeRecords();
    const records = await exported();
    const lines = records.map((record) => `${JSON.stringify(record)}\n`).join("");
    const texts = [JSON.stringify(records), `\n${JSON.stringify(records, null, 2)}\n`, lines];
    const source = file;
    for (const text of texts) {
      await using other = await openFolder();
      file = await writeConfig(other);
      const fresh = { keys: 2, accounts: 1, known: 0, ended: 0, differing: 0 };
      assert.deepEqual(jsonOf(await verb(text, "keys", "import", "-", "--json")), fresh);
      assert.deepEqual(await exported(), records);
      const again = await verb(text, "keys", "import", "-", "--json");
      const same = { keys: 0, accounts: 0, known: 2, ended: 0, differing: 0 };
      assert.deepEqual([jsonOf(again), again.err], [same, ""]);
      file = source;
      const before = await verb("", "keys", "export");
      const home = await verb(text, "keys", "import", "-", "--json");
      assert.deepEqual([jsonOf(home), home.err], [same, ""], "known to the millisecond");
      assert.deepEqual(await verb("", "keys", "export"), before);
    }
  });

  it("is imported all or none, each mistake named by its record", async () => {
    await makeRecords();
    const [account, key, other] = await exported();
    const odd = [
      { ...account, id: "one", created: 1.5 },
      { ...account, id: "two", created: 1_764_892_800_000 },
      { ...account, id: "three", created: -1 },
      { ...account, id: "five", created: 1e15 },
      { ...key, id: "k_1", digest: "a".repeat(64), account: "none" },
      7,
      { ...other, version: undefined },
      { ...account, id: "four", anchors: 7, caps: 1 },
    ];
    const { status, out, err } = await verb(JSON.stringify(odd), "keys", "import", "-");
    const told = err.trimEnd().split("\n");
    assert.deepEqual([status, out, told.length], [1, "", odd.length], err);
    told.forEach((line, index) => {
      assert.ok(line.startsWith(`-: record ${index + 1}: `), line);
    });
    assert.match(told[0]!, /created cannot be used: it must be an instant/);
    const plain = { key: "no key", account: "a", plan: "free", environment: "production" };
    assert.match(
      (await verb(JSON.stringify([plain]), "keys", "import", "-", "--plain")).err,
      /^-: record 1: /,
    );
    assert.equal((await exported()).length, 3);
  });

  it("is one mistake with its place if it is cut off, and each line that is not UTF-8 is one", async () => {
    await makeRecords();
    const text = JSON.stringify(await exported(), null, 2);
    const cut = await verb(text.slice(0, -2), "keys", "import", "-");
    assert.deepEqual([cut.status, cut.out], [1, ""]);
    const lines = text.split("\n").length;
    assert.match(cut.err, new RegExp(`^-:${lines - 1}:\\d+: it is no JSON: .*\n$`));
    const bytes = Buffer.from(text.replace('"acme"', '"\u00e9"'), "latin1");
    const coded = await runVerb(["keys", "import", "-", "--config", file], { stdin: bytes });
    assert.deepEqual([coded.status, coded.err.trimEnd().split("\n").length], [1, 1], coded.err);
    assert.match(coded.err, /^-:5: .*UTF-8/);
  });
});
