import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "vitest";
import { type Folder, jsonOf, openFolder, runVerb, type Said, writeConfig } from "../kit.ts";

/** A file without a gateway to ask; `run` runs a verb with it after a change of its text. */
async function openFile(folder: Folder) {
  const file = await writeConfig(folder);
  const sound = await readFile(file, "utf8");
  const run = async (
    args: readonly string[],
    change: (text: string) => string = (text) => text,
    stdin = "",
  ): Promise<Said> => {
    const text = change(sound);
    await writeFile(file, text);
    return runVerb([...args, "--config", file], { stdin });
  };
  const records = () => readFile(join(folder.path, "data", "keys.json"), "utf8").catch(() => "");
  return { file, run, records };
}

const CREATE = ["keys", "create", "--json", "--plan", "free", "--env"];
const noProduction = (text: string) => text.replace("keyTag: live", "keyTag: LIVE");
const noFree = (text: string) => text.replace("minute: 60", "minute: 0");
const noPrefix = (text: string) => `${text}keyPrefix: \${NOT_SET}\n`;

/** The status is 78, and the last line names the part and the place of its mistake. */
function assertBroken(said: Said, part: string, place: RegExp): void {
  assert.deepEqual([said.status, said.out], [78, ""], said.err);
  const last = said.err.trim().split("\n").at(-1) ?? "";
  assert.ok(last.startsWith(`Cannot use ${part} `), said.err);
  assert.match(last, place);
}

describe("without a gateway to ask, a mistake in keyPrefix", () => {
  it("is 78 for a verb that issues keys, which the gateway would answer 401", async () => {
    await using folder = await openFolder();
    const { run, records } = await openFile(folder);
    const { id } = jsonOf<{ id: string }>(await run([...CREATE, "staging"]));
    const before = await records();
    const misspelt = (text: string) => `${text}keyPrefx: acme\n`;
    const said = await run([...CREATE, "staging"], misspelt);
    assertBroken(said, "keyPrefx", /tollgate\.yaml:\d+:1$/);
    for (const wrong of [noPrefix, (text: string) => `${text}keyPrefix: Acme\n`]) {
      for (const args of [
        [...CREATE, "staging"],
        ["keys", "rotate", id],
      ]) {
        assertBroken(await run(args, wrong), "keyPrefix", /tollgate\.yaml:\d+:12$/);
      }
      const line = '{"key":"x","account":"a","plan":"free","environment":"staging"}\n';
      const taken = await run(["keys", "import", "-", "--plain"], wrong, line);
      assertBroken(taken, "keyPrefix", /tollgate\.yaml:\d+:12$/);
    }
    assert.equal(await records(), before);
  });

  it("keeps no verb from its work that needs no prefix", async () => {
    await using folder = await openFolder();
    const { run } = await openFile(folder);
    const { id } = jsonOf<{ id: string }>(await run([...CREATE, "staging"]));
    const { out } = await run(["keys", "export"]);
    assert.equal((await run(["keys", "import", "-"], noPrefix, out)).status, 0);
    assert.equal((await run(["keys", "list"], noPrefix)).status, 0);
    assert.equal((await run(["keys", "revoke", id], noPrefix)).status, 0);
  });
});

describe("another spelling of a key that leads to the records or to the gateway", () => {
  it("is 78, because the default is another place", async () => {
    await using folder = await openFolder();
    const { run, records } = await openFile(folder);
    for (const [key, wrong] of [
      ["keys", "kyes"],
      ["store", "stores"],
      ["admin", "admn"],
    ] as const) {
      const spell = (text: string) => text.replace(new RegExp(`^${key}:`, "m"), `${wrong}:`);
      for (const args of [[...CREATE, "staging"], ["status"]]) {
        const { status, err } = await run(args, spell);
        assert.deepEqual([status, err.includes(`did you mean ${key}?`)], [78, true], err);
      }
    }
    assert.equal(await records(), "");
    const both = (text: string) => `${text}stores: redis://127.0.0.1:1\n`;
    assert.equal((await run([...CREATE, "staging"], both)).status, 0);
  });
});

describe("without a gateway to ask, a mistake in foreignKeys", () => {
  it("is 78 for keys of other systems, and for no verb that issues ours", async () => {
    await using folder = await openFolder();
    const { run } = await openFile(folder);
    const wrong = (text: string) => `${text}foreignKeys: \${NOT_SET}\n`;
    const line = '{"key":"x","account":"a","plan":"free","environment":"staging"}\n';
    const taken = await run(["keys", "import", "-", "--plain"], wrong, line);
    assertBroken(taken, "foreignKeys", /tollgate\.yaml:\d+:14$/);
    assert.equal((await run([...CREATE, "staging"], wrong)).status, 0);
  });
});

describe("without a gateway to ask, an environment or a plan with a mistake", () => {
  it("is 78 with the place of the mistake where a verb names it, not unknown", async () => {
    await using folder = await openFolder();
    const { run } = await openFile(folder);
    const { id, account } = jsonOf<{ id: string; account: string }>(
      await run([...CREATE, "production"]),
    );
    const further = ["keys", "create", "--account", account];
    for (const args of [
      [...CREATE, "production"],
      ["keys", "rotate", id],
      further,
      ["keys", "list", "--env", "production"],
      ["accounts", "list", "--env", "production"],
      ["usage", "--env", "production"],
    ]) {
      const said = await run(args, noProduction);
      assertBroken(said, "environments.production", /tollgate\.yaml:8:13$/);
    }
    for (const args of [
      [...CREATE, "staging"],
      ["accounts", "set", account, "--plan", "free"],
      ["usage", "--plan", "free"],
    ]) {
      assertBroken(await run(args, noFree), "plans.free", /tollgate\.yaml:\d+:19$/);
    }
    const line = { key: "x", account, plan: "free", environment: "production" };
    const plain = await run(["keys", "import", "-", "--plain"], noProduction, JSON.stringify(line));
    assertBroken(plain, "environments.production", /tollgate\.yaml:8:13$/);
    const { out } = await run(["keys", "export"]);
    const other = out.replaceAll(account, "a_other").replaceAll(id, "k_other");
    for (const [wrong, part] of [
      [noProduction, "environments.production"],
      [noFree, "plans.free"],
    ] as const) {
      assertBroken(await run(["keys", "import", "-"], wrong, other), part, /tollgate\.yaml/);
      // Records that are here already are not judged again.
      assert.equal((await run(["keys", "list"], wrong)).status, 0);
      assert.equal((await run(["keys", "import", "-"], wrong, out)).status, 0);
    }
    assert.equal((await run(["accounts", "list", "--plan", "free"], noFree)).status, 0);
    const onto = ["accounts", "set", "--plan", "enterprise", "--limit", "day=5", "--on"];
    const noPro = (text: string) => text.replace("minute: 300", "minute: 0");
    assertBroken(await run([...onto, "pro"], noPro), "plans.pro", /tollgate\.yaml:\d+:18$/);
    assert.equal((await run([...onto, "free"], noFree)).status, 0);
    assert.equal((await run([...CREATE, "staging"], noProduction)).status, 0);
    const strange = await run([...CREATE, "nowhere"], noProduction);
    assert.equal(strange.status, 64);
    assert.match(strange.err, /"nowhere" as it is unknown: expected staging$/m);
  });

  it("is told no mistake of another part as its own", async () => {
    await using folder = await openFolder();
    const { run } = await openFile(folder);
    const admin = 'admin: { listen: "127.0.0.1:49201" }\n';
    const taken = (text: string) => {
      const listening = text.replace("listen: 127.0.0.1:0", "listen: 127.0.0.1:49201");
      return `${admin}${noFree(listening.replace("admin: off\n", ""))}`;
    };
    const said = await run([...CREATE, "production"], taken);
    assertBroken(said, "environments.production", /until the mistakes of the file .*yaml:1:18$/);
    const both = (text: string) => taken(text).replace("keyTag: test", "keyTag: T_T");
    const again = await run([...CREATE, "production"], both);
    assertBroken(again, "environments.production", /until the mistakes of the file .*yaml:1:18$/);
    assertBroken(await run([...CREATE, "staging"], taken), "plans.free", /its mistake .*:19:19$/);
  });

  it("leaves no name in its place that the file does not have", async () => {
    await using folder = await openFolder();
    const { run, records } = await openFile(folder);
    const none = (text: string) => text.replaceAll(/keyTag: \w+/g, "keyTag: A_B");
    const free = (text: string) => text.replace(/^plans:[\s\S]*(?=^admin)/m, "plans: { pro: 1 }\n");
    for (const [name, part] of [
      ["default", "environments"],
      ["production", "environments.production"],
    ] as const) {
      assertBroken(await run([...CREATE, name], none), part, /tollgate\.yaml:8:13$/);
    }
    const planned = ["keys", "create", "--env", "staging", "--plan"];
    assertBroken(await run([...planned, "none"], free), "plans", /tollgate\.yaml:\d+:15$/);
    for (const [kind, wrong] of [
      ["env", none],
      ["plan", free],
    ] as const) {
      assert.equal((await run(["completion", "bash", "--names", kind], wrong)).out, "");
    }
    assert.equal(await records(), "");
  });
});
