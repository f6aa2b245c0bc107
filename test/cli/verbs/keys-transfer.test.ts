import assert from "node:assert/strict";
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, describe, it } from "vitest";
import { digestKey } from "../../../src/core/keys/key.ts";
import { startRedis } from "../../support/redis/redis.ts";
import { type Folder, jsonOf, openFolder, runVerb, writeConfig } from "../kit.ts";

const KEY = "pets_live_Smuggle0Test0Key0For0Vectors004Lozas";
type Told = { readonly id: string; readonly key: string; readonly account: string };

describe("keys by stdin", () => {
  let folder: Folder;
  let file: string;
  const keys = (stdin: string, ...args: string[]) =>
    runVerb(["keys", ...args, "--config", file], { stdin });
  const create = async (...args: string[]) =>
    jsonOf<Told>(
      await keys("", "create", "--env", "production", "--plan", "free", "--json", ...args),
    );

  beforeEach(async () => {
    folder = await openFolder();
    file = await writeConfig(folder, {
      more: "foreignKeys: [{ prefix: sk_, min: 22 }]\n",
    });
  });
  afterEach(() => folder[Symbol.asyncDispose]());

  it("are found and revoked, and never repeated", async () => {
    const made = await create();
    const found = await keys(`${made.key}\n`, "find", "-", "--json");
    assert.equal(jsonOf<Told>(found).id, made.id);
    const unknown = await keys(KEY, "find", "-");
    assert.deepEqual([unknown.status, unknown.err], [1, "This key is not known here\n"]);
    assert.equal((await keys(made.key, "revoke", "-")).out, `Key ${made.id} is revoked\n`);
    assert.match((await keys(made.key, "find", "-")).out, /state +revoked 20[2-9]/);
    assert.equal((await keys("", "find", "-")).status, 64);
    assert.equal((await keys("no key", "revoke", "-")).status, 64);
    assert.deepEqual(await keys(KEY, "revoke", "-"), unknown);
    assert.equal((await keys(made.key, "find", made.id)).status, 64);
  });

  it("that cannot be revoked are told to work still, with what refuses them meanwhile", async () => {
    const made = await create();
    // A folder in the place of the temporary file is refused even for root.
    const path = join(folder.path, "data/keys.json");
    await mkdir(`${path}.tmp`);
    const { status, out, err } = await keys(made.key, "revoke", "-");
    assert.deepEqual([status, out], [1, ""]);
    assert.match(
      err,
      /^Cannot write the keys file .*: nothing was changed\nThe key still works: `bans add ID --for 1d` refuses its account meanwhile\n$/,
    );
    await rm(`${path}.tmp`, { recursive: true });
    assert.equal((await keys(made.key, "revoke", "-")).out, `Key ${made.id} is revoked\n`);
  });

  it("as an argument of any verb are wrong usage, and stand nowhere in what is said", async () => {
    const foreign = `sk_${"b".repeat(24)}`;
    for (const args of [
      ["keys", "show", KEY],
      ["keys", "revoke", KEY],
      ["keys", "set", "k_1", `--name=${KEY}`],
      ["usage", KEY],
      ["bans", "lift", `x${KEY}`],
      [KEY],
      ["keys", KEY],
      ["help", KEY],
      ["keys", "show", foreign, "--config", file],
      ["accounts", "show", foreign, "--config", file],
      ["plans", "try", file, "--log", foreign, "--config", file],
      ["plans", "try", file, "--log", foreign],
      ["explain", foreign, "--log", file, "--config", file],
      ["keys", "revoke", "k_1", foreign, "--config", file],
    ]) {
      const { status, out, err } = await runVerb(args);
      assert.deepEqual([status, out], [64, ""], args.join(" "));
      assert.doesNotMatch(err, /Smuggle|bbbb/);
    }
  });

  it("set changes a key in place, and needs something to change", async () => {
    const { id } = await create("--scope", "read");
    const set = ["--name", "new", "--scope", "orders:write", "--drop-scope", "read"];
    await keys("", "set", id, ...set, "--from", "192.0.2.0/24", "--expires", "90d");
    const shown = jsonOf<Record<string, unknown>>(await keys("", "show", id, "--json"));
    assert.deepEqual(
      [shown.name, shown.scopes, shown.from, typeof shown.expires],
      ["new", ["orders:write"], ["192.0.2.0/24"], "number"],
    );
    await keys("", "set", id, "--from", "any", "--expires", "never");
    const later = jsonOf<Record<string, unknown>>(await keys("", "show", id, "--json"));
    assert.deepEqual([later.from, later.expires], [[], null]);
    assert.equal((await keys("", "set", id)).status, 64);
    for (const alone of [["--from", "::1"], ["--cap", "day=5"], ["--no-caps"]]) {
      assert.equal((await keys("", "set", id, ...alone)).status, 0, alone.join(" "));
    }
    const last = jsonOf<Record<string, unknown>>(await keys("", "show", id, "--json"));
    assert.deepEqual([last.from, last.caps], [["::1"], {}]);
    assert.equal((await keys("", "set", id, "--from", "any", "--from", "::1")).status, 64);
    assert.equal((await keys("", "set", "nobody", "--name", "x")).status, 1);
  });

  it("list is filtered by environment, plan, account and state", async () => {
    const [one, two] = [await create("--account", "acme"), await create()];
    await keys("", "revoke", two.id);
    const ids = async (...args: string[]) =>
      jsonOf<Told[]>(await keys("", "list", "--json", ...args)).map(({ id }) => id);
    assert.deepEqual(await ids("--state", "works"), [one.id]);
    assert.deepEqual(await ids("--state", "revoked"), [two.id]);
    assert.deepEqual(await ids("--account", "acme"), [one.id]);
    assert.deepEqual(await ids("--env", "staging"), []);
    assert.deepEqual(await ids("--plan", "free"), [one.id, two.id]);
    assert.equal((await keys("", "list", "--state", "dead")).status, 64);
    assert.equal((await keys("", "list", "--env", "prod")).status, 64);
  });

  it("are imported from no file that is not there, which is 1", async () => {
    const { status, out, err } = await keys("", "import", join(folder.path, "none.jsonl"));
    assert.deepEqual([status, out], [1, ""]);
    assert.match(err, /^Cannot read .*none\.jsonl: /);
  });

  it("go from a file to Redis and back with ids, ends and accounts, and no key", async () => {
    const redis = await startRedis();
    await using other = await openFolder();
    const remote = await writeConfig(other, { store: redis.url, keys: "redis" });
    try {
      const old = await create("--account", "acme", "--scope", "beta", "--from", "::1");
      await keys("", "rotate", old.id, "--grace", "1h");
      const out = (await keys("", "export")).out;
      assert.doesNotMatch(out, new RegExp(old.key));
      assert.match(out, /^\{"record":"account","version":2,"id":"acme"/);
      const there = (...args: string[]) =>
        runVerb(["keys", ...args, "--config", remote], { stdin: out });
      const dry = jsonOf(await there("import", "-", "--dry-run", "--json"));
      assert.deepEqual(dry, { keys: 2, accounts: 1, known: 0, ended: 0, differing: 0 });
      assert.equal(
        (await there("import", "-", "--dry-run")).out,
        "2 keys and 1 account would be new, 0 keys known already, 0 of them would be ended sooner\n",
      );
      assert.equal(jsonOf<Told[]>(await there("list", "--json")).length, 0);
      assert.deepEqual(jsonOf(await there("import", "-", "--json")), dry);
      const again = { keys: 0, accounts: 0, known: 2, ended: 0, differing: 0 };
      assert.deepEqual(jsonOf(await there("import", "-", "--dry-run", "--json")), again);
      assert.deepEqual(jsonOf(await there("import", "-", "--json")), again);
      assert.equal(
        (await there("import", "-")).out,
        "0 keys and 0 accounts new, 2 keys known already, 0 of them ended sooner\n",
      );
      assert.equal((await there("export")).out, out);
      await there("revoke", "acme");
      const back = (await there("export")).out;
      const here = await keys(back, "import", "-", "--json");
      assert.deepEqual(jsonOf(here), { ...again, ended: 2 });
      assert.equal((await keys("", "export")).out, back);
    } finally {
      await redis.close();
    }
  });

  it("names the known accounts that an import leaves other than in its lines, and counts them", async () => {
    await create("--account", "same");
    await create("--account", "acme");
    await using other = await openFolder();
    const target = await writeConfig(other);
    const set = async (at: string, ...args: string[]) => {
      const { status, err } = await runVerb(["accounts", ...args, "--config", at]);
      assert.equal(status, 0, err);
    };
    const there = async (...args: string[]) => {
      const stdin = (await keys("", "export")).out;
      return runVerb(["keys", "import", "-", ...args, "--config", target], { stdin });
    };
    assert.equal((await there()).err, "");
    assert.equal((await there()).err, "", "all are as in the lines");
    await set(file, "suspend", "acme", "--reason", "unpaid");
    const others = ["--limit", "minute=7", "--meta", "a=b", "--anchor", "5"];
    await set(file, "set", "acme", ...others);
    const change = "`accounts set`, `suspend`, `resume` and `keys set` change that\n";
    for (const dry of [["--dry-run"], []]) {
      const told = await there(...dry, "--json");
      const parts = "acme (state, limits, metadata, anchor)";
      const err = `1 known record differs, and stays as it is here: ${parts}. ${change}`;
      assert.deepEqual([told.status, told.err], [0, err]);
      const counts = { keys: 0, accounts: 0, known: 2, ended: 0, differing: 1 };
      assert.deepEqual(jsonOf(told), counts);
    }
    await set(target, "suspend", "acme");
    await set(target, "set", "acme", "--limit", "minute=7", "--meta", "a=b");
    assert.match((await there()).err, /: acme \(anchor\)\. /);
    await set(target, "resume", "acme");
    await set(target, "suspend", "acme", "--for", "1h");
    assert.match((await there()).err, /: acme \(state, anchor\)\. /, "it ends sooner here");
    await set(target, "resume", "acme");
    await set(target, "suspend", "acme");
    const plain = { account: "acme", plan: "free", environment: "production" };
    const stdin = JSON.stringify({ key: KEY, ...plain });
    const elsewhere = await runVerb(["keys", "import", "-", "--plain", "--config", target], {
      stdin,
    });
    assert.deepEqual(
      [elsewhere.status, elsewhere.err],
      [0, ""],
      "a line without limits and metadata",
    );
    await set(target, "suspend", "same");
    assert.match(
      (await there()).err,
      /^2 known records differ, .*: same \(state\); acme \(anchor\)\. /,
    );
  });

  it("are named up to 20 that an import leaves as they are, with the number of more", async () => {
    const marked = (count: number, meta: object) =>
      Array.from({ length: count }, (_, i) => {
        const account = { id: `a${i}`, environment: "production", plan: "free", limits: {}, meta };
        const created = "2026-01-01T00:00:00.000Z";
        return JSON.stringify({ record: "account", version: 2, ...account, created });
      }).join("\n");
    assert.equal((await keys(marked(21, {}), "import", "-")).err, "");
    const told = async (count: number) =>
      (await keys(marked(count, { a: "b" }), "import", "-")).err;
    assert.match(await told(20), /; a19 \(metadata\)\. /);
    assert.match(await told(21), /; a19 \(metadata\); and 1 more\. /);
  });

  it("stop after 20 mistakes, saying so, and say what lines with a key itself need", async () => {
    const line = (i: number) =>
      `{"key":"k${i}","account":"a","plan":"free","environment":"production"}`;
    const many = (count: number) => Array.from({ length: count }, (_, i) => line(i)).join("\n");
    const told = await keys(many(21), "import", "-");
    const lines = told.err.trimEnd().split("\n");
    assert.equal(told.status, 1);
    assert.equal(lines.length, 21);
    assert.match(lines[0] ?? "", /^-:1: it is no line of `keys export`: .* need --plain$/);
    assert.equal(lines[20], "Stopped after 20 mistakes: more may follow");
    const few = (await keys(many(19), "import", "-")).err.trimEnd().split("\n");
    assert.equal(few.length, 19);
    assert.doesNotMatch(told.err, /k20|"k1"/, "a key itself is never repeated");
  });

  it("come in from a whole key file, such as the copy of what Redis has lost", async () => {
    const { id } = await create("--account", "acme");
    const lost = join(folder.path, "state.json.lost");
    await writeFile(lost, await readFile(join(folder.path, "data/keys.json"), "utf8"));
    await writeFile(join(folder.path, "data/keys.json"), '{"version":2,"keys":[],"accounts":[]}');
    const back = await keys("", "import", lost, "--json");
    assert.deepEqual(jsonOf(back), { keys: 1, accounts: 1, known: 0, ended: 0, differing: 0 });
    assert.equal(jsonOf<Told>(await keys("", "show", id, "--json")).account, "acme");
    await writeFile(lost, '{"version":2,"keys":[7],"accounts":[]}');
    const broken = await keys("", "import", lost);
    assert.equal(broken.status, 1);
    assert.match(broken.err, /state\.json\.lost:1:22: Cannot use keys\[0\]/);
  });

  it("come in from a file of the first version with the terms of the newest key that works by now", async () => {
    const old = (id: string, letter: string, more: object) => ({
      ...{ id, digest: letter.repeat(64), name: "", environment: "production", account: "acme" },
      ...{ scopes: [], limits: {}, ...more },
    });
    const works = old("k_1", "a", { plan: "pro", created: "2026-01-01T00:00:00.000Z" });
    const ended = { created: "2026-01-02T00:00:00.000Z", expires: "2026-01-03T00:00:00.000Z" };
    const records = [works, old("k_2", "b", { plan: "free", ...ended })];
    const path = join(folder.path, "old.json");
    await writeFile(path, `{"version":1,"keys":${JSON.stringify(records)}}`);
    const made = await keys("", "import", path, "--json");
    assert.deepEqual(jsonOf(made), { keys: 2, accounts: 1, known: 0, ended: 0, differing: 0 });
    const shown = await keys("", "show", "k_1", "--json");
    assert.equal(jsonOf<{ plan: string }>(shown).plan, "pro");
  });

  it("come in all or none, each mistake with its line", async () => {
    await create("--account", "acme");
    const path = join(folder.path, "plain.jsonl");
    const line = (more: object) =>
      JSON.stringify({
        key: KEY,
        account: "shop",
        plan: "free",
        environment: "production",
        ...more,
      });
    const lines = [
      line({}),
      "{oops",
      line({ key: "sk_short" }),
      line({ key: `sk_${"c".repeat(22)}`, account: "acme", plan: "pro" }),
      line({ plan: "gold", account: "new" }),
      line({ environment: "prod" }),
      line({ account: ".." }),
      line({ extra: 1 }),
      line({ account: "other" }),
      line({ plan: "enterprise", account: "big" }),
    ];
    await writeFile(path, lines.join("\n"));
    const before = await readFile(join(folder.path, "data/keys.json"), "utf8");
    const { status, out, err } = await keys("", "import", path, "--plain");
    assert.deepEqual([status, out], [1, ""]);
    const told = err
      .trim()
      .split("\n")
      .map((text) => text.replace(`${path}:`, ""));
    assert.deepEqual(
      told.map((text) => text.split(":")[0]),
      ["2", "3", "4", "5", "6", "7", "8", "9", "10"],
    );
    assert.match(told[0] ?? "", /^2: it is no JSON/);
    assert.match((await keys("x\n", "import", "-")).err, /^-:1: it is no JSON/);
    assert.match(told[2] ?? "", /^4: account acme is on plan free here, not on pro/);
    assert.doesNotMatch(err, /Smuggle|sk_short|cccc/);
    assert.equal(await readFile(join(folder.path, "data/keys.json"), "utf8"), before);
    await writeFile(path, lines[0] ?? "");
    assert.equal((await keys("", "import", path, "--plain")).status, 0);
    const stored = await readFile(join(folder.path, "data/keys.json"), "utf8");
    assert.ok(stored.includes(digestKey(KEY)) && !stored.includes(KEY));
  });

  it("are told by --dry-run that a damaged record has their ID, as without it", async () => {
    await create("--account", "acme");
    const [account] = JSON.parse((await keys("", "export", "--json")).out) as [{ id: string }];
    const path = join(folder.path, "data/keys.json");
    const text = await readFile(path, "utf8");
    await writeFile(path, text.replace('"id":"acme"', '"x":1,"id":"acme"'));
    const tried = await keys(`${JSON.stringify(account)}\n`, "import", "-", "--dry-run");
    const done = await keys(`${JSON.stringify(account)}\n`, "import", "-");
    assert.match(
      tried.err,
      /Cannot use the ID acme: the record that has it is damaged, repair it\n$/,
    );
    assert.deepEqual([tried.status, tried], [1, done]);
    const other = `${JSON.stringify({ ...account, id: "other" })}\n`;
    assert.equal((await keys(other, "import", "-", "--dry-run")).status, 0);
  });

  it("are refused without the escapes of the terminal that a file has", async () => {
    await create("--account", "acme");
    const exported = (await keys("", "export")).out.trimEnd().split("\n");
    const [account, key] = exported.map((line) => JSON.parse(line) as object);
    const other = { ...key, id: "k_1", digest: "a".repeat(64) };
    const odd = [
      { ...account, plan: "\u001b[31mX" },
      { ...other, environment: "\u009b31mX" },
      { ...account, "\u001b[2J": 1 },
      { ...account, environment: "\u202eX" },
    ];
    const lines = await keys(odd.map((one) => `${JSON.stringify(one)}\n`).join(""), "import", "-");
    const places = [...lines.err.matchAll(/^-:(\d): .*\\u(001b|009b|202e)/gm)].map(([, at]) => at);
    assert.deepEqual([lines.status, places], [1, ["1", "2", "3", "4"]], lines.err);
    const path = join(folder.path, "whole.json");
    const whole = JSON.stringify({ version: 2, keys: [], accounts: [{ ...odd[0], id: "b" }] });
    await writeFile(path, whole.replace('"record":"account",', ""));
    const named = await keys("", "import", path);
    assert.match(named.err, /whole\.json: environment production and plan \\u001b\[31mX must/);
    await writeFile(path, whole.replace('"record":"account",', '"\u009b2J":1,'));
    const damaged = await keys("", "import", path);
    assert.match(damaged.err, /accounts\[0\]\.\\u009b2J: it is unknown/);
    assert.deepEqual([named.status, damaged.status], [1, 1]);
    assert.doesNotMatch(lines.err + named.err + damaged.err, /(?!\n)[\p{Cc}\p{Cf}]/u);
  });

  it("10,000 foreign keys are in within seconds, and none of them is kept", async () => {
    const lines = Array.from({ length: 10_000 }, (_, i) => {
      const key = `sk_${String(i).padStart(22, "x")}`;
      return JSON.stringify({
        key,
        account: `acme-${i % 3_000}`,
        plan: "free",
        environment: "staging",
      });
    });
    const startedMs = performance.now();
    const made = await keys(lines.join("\n"), "import", "-", "--plain", "--json");
    const tookMs = performance.now() - startedMs;
    assert.deepEqual(jsonOf(made), {
      keys: 10_000,
      accounts: 3_000,
      known: 0,
      ended: 0,
      differing: 0,
    });
    assert.ok(tookMs < 5_000, `${tookMs} ms`);
    assert.doesNotMatch(await readFile(join(folder.path, "data/keys.json"), "utf8"), /sk_/);
    const again = await keys(lines.join("\n"), "import", "-", "--plain", "--json");
    assert.deepEqual(jsonOf(again), {
      keys: 0,
      accounts: 0,
      known: 10_000,
      ended: 0,
      differing: 0,
    });
  });
});
