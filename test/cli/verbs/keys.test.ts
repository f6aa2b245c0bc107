import assert from "node:assert/strict";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, describe, it } from "vitest";
import { checkKeyFormat, digestKey } from "../../../src/core/keys/key.ts";
import { runTollgate } from "../../support/gateway/processes.ts";
import { startRedis } from "../../support/redis/redis.ts";
import { type Folder, jsonOf, openFolder, runVerb, writeConfig } from "../kit.ts";

type Told = {
  readonly id: string;
  readonly key: string;
  readonly account: string;
  readonly plan: string;
  readonly expires: number | null;
  readonly revoked: number | null;
  readonly previous: Told;
};

const NOW_MS = Date.UTC(2030, 0, 1, 0, 0, 0, 500);

describe("keys", () => {
  let folder: Folder;
  let file: string;
  const keys = (...args: string[]) =>
    runVerb(["keys", ...args, "--config", file], { nowMs: NOW_MS });
  const create = async (...args: string[]) =>
    jsonOf<Told>(await keys("create", "--env", "production", "--plan", "free", "--json", ...args));

  beforeEach(async () => {
    folder = await openFolder();
    file = await writeConfig(folder);
  });
  afterEach(() => folder[Symbol.asyncDispose]());

  it("set on a key that does not work says that it still does not, and what would help", async () => {
    const { id } = await create("--expires", "1h");
    assert.equal((await keys("set", id, "--name", "x")).out, `Key ${id} is changed\n`);
    const later = { nowMs: NOW_MS + 2 * 3_600_000 };
    const set = (...args: string[]) =>
      runVerb(["keys", "set", id, ...args, "--config", file], later);
    assert.match(
      (await set("--name", "y")).out,
      /It still does not work: it is expired\. .*--expires/,
    );
    assert.equal((await set("--expires", "90d")).out, `Key ${id} is changed\n`);
    assert.equal(jsonOf<Told>(await set("--expires", "never", "--json")).expires, null);
    await keys("revoke", id);
    assert.equal((await set("--name", "z")).status, 1, "a revoked key is changed no more");
  });

  it("create names all that is missing at once, and an account that is there has it all", async () => {
    const missing = async (...args: string[]) => {
      const { status, err } = await keys("create", ...args);
      return [status, /^Missing (.*) \(/.exec(err)?.[1]];
    };
    assert.deepEqual(await missing(), [64, "--env ENV, --plan PLAN"]);
    assert.deepEqual(await missing("--plan", "free"), [64, "--env ENV"]);
    assert.deepEqual(await missing("--env", "production"), [64, "--plan PLAN"]);
    const { account } = await create("--account", "acme");
    const joined = jsonOf<Told>(await keys("create", "--account", account, "--json"));
    assert.deepEqual([joined.account, joined.plan], ["acme", "free"]);
  });

  it("create --json tells one key with the documented members, and stores its digest only", async () => {
    const told = await create("--name", "a shop", "--expires", "90d", "--scope", "beta");
    assert.deepEqual(told, {
      id: told.id,
      key: told.key,
      name: "a shop",
      plan: "free",
      environment: "production",
      account: told.account,
      scopes: ["beta"],
      from: [],
      limits: {},
      caps: {},
      created: Math.floor(NOW_MS / 1000),
      expires: Math.ceil(NOW_MS / 1000) + 90 * 86_400,
      revoked: null,
    });
    assert.equal(checkKeyFormat(told.key, "pets", "live").ok, true);
    const stored = await readFile(join(folder.path, "data/keys.json"), "utf8");
    assert.ok(stored.includes(digestKey(told.key)));
    assert.ok(!stored.includes(told.key) && !stored.includes(told.key.slice(10, 40)));
  });

  it("create --count tells an array, also of one", async () => {
    const one = await keys(..."create --env staging --plan pro --count 1 --json".split(" "));
    assert.equal(jsonOf<Told[]>(one).length, 1);
    const three = await keys(..."create --env staging --plan pro --count 3 --json".split(" "));
    const told = jsonOf<Told[]>(three);
    assert.equal(new Set(told.map(({ key }) => key)).size, 3);
    assert.equal(new Set(told.map(({ account }) => account)).size, 3);
    for (const [count, why] of [
      ["1001", /must be a whole number from 1 to 1000/],
      ["1e3", /^Cannot read --count as a whole number from 1 to 1000: the value is "1e3"/],
    ] as const) {
      const said = await keys("create", "--env", "staging", "--plan", "pro", "--count", count);
      assert.equal(said.status, 64);
      assert.match(said.err, why);
    }
    assert.equal(jsonOf<Told[]>(await keys("list", "--json")).length, 4);
  });

  it("create without --json prints the key once, with a curl line that has it", async () => {
    const { out, status } = await keys("create", "--env", "staging", "--plan", "pro");
    assert.equal(status, 0);
    const key = /^ {2}(pets_test_\w{36})$/m.exec(out)?.[1];
    assert.match(
      out,
      new RegExp(`^ {2}curl -i -H "Authorization: Bearer ${key}" "http://.*/v1/pets"$`, "m"),
    );
    assert.doesNotMatch((await keys("list")).out, /pets_test_/);
    const two = await keys("create", "--env", "staging", "--plan", "pro", "--count", "2");
    const one =
      "Key k_\\w+: staging, plan pro, account \\w+\\. It is shown this once:\n.*\n {2}curl .*\n";
    assert.match(two.out, new RegExp(`^${one}\n${one}$`));
  });

  it("--limit replaces a window of any plan, and repeats", async () => {
    const limits = ["--limit", "minute=500", "--limit", "day=20000"];
    const made = await keys(
      ...["create", "--env", "production", "--plan", "enterprise", ...limits, "--json"],
    );
    assert.deepEqual(jsonOf<{ limits: unknown }>(made).limits, { minute: 500, day: 20_000 });
  });

  it("set takes several scopes away, and adds several, in one call", async () => {
    const { id } = await create("--scope", "a", "--scope", "b", "--scope", "c");
    const scopes = [...["--drop-scope", "a", "--drop-scope", "b"], "--scope", "d", "--scope", "e"];
    const said = await keys("set", id, ...scopes, "--json");
    assert.deepEqual(jsonOf<{ scopes: unknown }>(said).scopes, ["c", "d", "e"]);
  });

  it("set with a value that cannot be read is 64 and names it, and changes nothing", async () => {
    const { id } = await create("--scope", "a");
    for (const [args, told] of [
      [["--name", "x", "--expires", "soon"], /^Cannot read --expires .*"soon"/],
      [["--name", "x", "--cap", "decade=5"], /^Cannot read --cap .*"decade=5"/],
      [[], /^Nothing to set: give --name, /],
    ] as const) {
      const { status, err } = await keys("set", id, ...args);
      assert.equal(status, 64, err);
      assert.match(err, told);
    }
    const { name, scopes } = jsonOf<{ name: unknown; scopes: unknown }>(
      await keys("set", id, "--drop-scope", "a", "--json"),
    );
    assert.deepEqual([name, scopes], ["", []], "a scope that goes is something to set");
  });

  it("set refuses --from any beside a network with 64, in any order, and changes nothing", async () => {
    const { id } = await create("--from", "10.0.0.0/8");
    for (const from of [
      ["any", "192.0.2.1"],
      ["192.0.2.1", "any"],
    ]) {
      const said = await keys("set", id, ...from.flatMap((one) => ["--from", one]));
      assert.deepEqual([said.status, said.out], [64, ""]);
      assert.match(said.err, /^Cannot use --from any beside a network: give one of them/);
    }
    const shown = await keys("show", id, "--json");
    assert.deepEqual(jsonOf<{ from: string[] }>(shown).from, ["10.0.0.0/8"]);
    const any = await keys("set", id, "--from", "any", "--json");
    assert.deepEqual(jsonOf<{ from: string[] }>(any).from, []);
  });

  it("list takes those of one plan, environment, account and state, and of all of these", async () => {
    const pro = await keys(..."create --env staging --plan pro --account shop --json".split(" "));
    const shop = jsonOf<Told>(pro).id;
    const first = (await create()).id;
    const ended = (await create("--account", "late", "--expires", "1h")).id;
    await keys("revoke", first);
    const listed = async (...args: string[]) => {
      const said = await runVerb(["keys", "list", ...args, "--json", "--config", file], {
        nowMs: NOW_MS + 2 * 3_600_000,
      });
      return jsonOf<Told[]>(said).map(({ id }) => id);
    };
    for (const [args, ids] of [
      [["--plan", "pro"], [shop]],
      [
        ["--plan", "free"],
        [first, ended],
      ],
      [["--env", "staging"], [shop]],
      [["--account", "late"], [ended]],
      [["--state", "works"], [shop]],
      [["--state", "revoked"], [first]],
      [["--state", "expired"], [ended]],
      [["--state", "expired", "--plan", "pro"], []],
    ] as const) {
      assert.deepEqual(await listed(...args), ids, args.join(" "));
    }
  });

  it("list says whether there are no keys, or none like that", async () => {
    assert.match((await keys("list")).out, /^There are no keys: issue one with `keys create`\n$/);
    await create();
    const { status, out } = await keys("list", "--plan", "pro");
    assert.deepEqual([status, out], [0, "No key matches\n"]);
    const unknown = await keys("list", "--account", "nobody", "--json");
    assert.deepEqual([unknown.status, unknown.out], [1, ""]);
  });

  it("an account may have an id that begins with a dash", async () => {
    assert.equal((await create("--account", "-a.b")).account, "-a.b");
  });

  it("a further key of an account is refused with 1 where plan, limits or environment differ", async () => {
    const { account } = await create("--account", "shop");
    assert.equal(account, "shop");
    assert.equal((await create("--account", "shop")).account, "shop");
    const clash = await keys(
      ..."create --env production --plan pro --account shop --json".split(" "),
    );
    assert.deepEqual({ status: clash.status, out: clash.out }, { status: 1, out: "" });
    assert.match(clash.err, /account shop, which is on plan free/);
    const elsewhere = await keys(..."create --env staging --plan free --account shop".split(" "));
    assert.equal(elsewhere.status, 1);
    assert.match(elsewhere.err, /lives in production/);
  });

  it("list and show tell keys without digest, and an account by its keys", async () => {
    const first = await create("--account", "shop");
    const second = await create("--account", "shop");
    const { out } = await keys("list", "--json");
    assert.doesNotMatch(out, /digest|pets_/);
    assert.deepEqual(
      jsonOf<Told[]>({ out }).map(({ id }) => id),
      [first.id, second.id],
    );
    assert.equal(jsonOf<Told>(await keys("show", first.id, "--json")).id, first.id);
    assert.equal(jsonOf<Told[]>(await keys("show", "shop", "--json")).length, 2);
    const people = (await keys("list")).out.split("\n");
    assert.match(people[0] ?? "", /^ID +NAME +PLAN +ENVIRONMENT +ACCOUNT +LAST USED +STATE$/);
    assert.equal(people[1]?.indexOf("shop"), people[0]?.indexOf("ACCOUNT"));
  });

  it("rotate makes a key of the same account, and the old one works on for the grace", async () => {
    const old = await create();
    const told = jsonOf<Told>(await keys("rotate", old.id, "--json"));
    assert.notEqual(told.id, old.id);
    assert.equal(told.account, old.account);
    assert.equal(told.previous.id, old.id);
    assert.equal(told.previous.expires, Math.ceil(NOW_MS / 1000) + 86_400);
    const again = jsonOf<Told>(await keys("rotate", told.id, "--grace", "0s", "--json"));
    assert.equal(again.previous.expires, Math.ceil(NOW_MS / 1000));
    const twice = await keys("rotate", old.id);
    assert.equal(twice.status, 1);
    assert.match(twice.err, new RegExp(`rotated before: rotate ${told.id}`));
  });

  it("are shown with a command at the listener of their environment, and not rotated where that is gone", async () => {
    await writeConfig(folder, { production: 8001, staging: 8002 });
    const made = await keys("create", "--env", "staging", "--plan", "free");
    assert.match(made.out, /^ {2}curl -i .* "http:\/\/127\.0\.0\.1:8002\/v1\/pets"$/m);
    const text = await readFile(file, "utf8");
    await writeFile(file, text.replace(/ {2}staging:\n(?: {4}.*\n)+/, ""));
    const [, id = ""] = /^Key (k_\w+): staging, /.exec(made.out) ?? [];
    const rotated = await keys("rotate", id);
    const why = `Cannot rotate key ${id}: its environment "staging" is no longer configured\n`;
    assert.deepEqual([rotated.status, rotated.out, rotated.err], [1, "", why]);
  });

  it("revoke ends a key, and says so again when asked again", async () => {
    const { id } = await create();
    const { revoked } = jsonOf<Told>(await keys("revoke", id, "--json"));
    assert.equal(revoked, Math.ceil(NOW_MS / 1000));
    assert.equal((await keys("revoke", id)).status, 0);
    assert.match((await keys("show", id)).out, /revoked 2030-01-01 00:00:01Z/);
    const [first, second] = [await create("--account", "acme"), await create("--account", "acme")];
    const all = await keys("revoke", "acme");
    const lines = [first, second].map((key) => `Key ${key.id} is revoked\n`);
    assert.deepEqual([all.status, all.out], [0, lines.join("")]);
    const pair = [await create("--account", "pair"), await create("--account", "pair")];
    const told = jsonOf<Told[]>(await keys("revoke", "pair", "--json"));
    assert.deepEqual(
      told.map(({ id: one }) => one),
      pair.map(({ id: one }) => one),
    );
  });

  it("revoke - without a key in stdin is 64, and looks for no key of that name", async () => {
    const { status, err } = await keys("revoke", "-");
    assert.equal(status, 64);
    assert.doesNotMatch(err, /Cannot find/);
  });

  it("an unknown ID is 1 for each verb, with nothing on stdout", async () => {
    for (const verb of ["show", "rotate", "revoke"]) {
      const { status, out, err } = await keys(verb, "k_nobody", "--json");
      assert.deepEqual({ status, out }, { status: 1, out: "" });
      assert.match(err, /Cannot find "k_nobody"/);
    }
  });

  it("a key of a damaged account is not found here, which says which gateway may accept it", async () => {
    const { id } = await create("--account", "acme");
    const hint =
      /A running gateway goes on with these as it last read them: --admin URL asks it; one that never read them accepts none of their keys\n/;
    assert.doesNotMatch((await keys("revoke", "k_nobody")).err, hint);
    const path = join(folder.path, "data/keys.json");
    const text = await readFile(path, "utf8");
    await writeFile(path, text.replace('"plan":"free"', '"plan":""'));
    const { status, out, err } = await keys("revoke", id);
    assert.deepEqual([status, out], [1, ""]);
    assert.match(err, hint);
    assert.match(err, /Cannot find "k_/);
  });

  it("a damaged keys file is refused by place, and left as it was", async () => {
    const path = join(folder.path, "data/keys.json");
    await mkdir(join(folder.path, "data"));
    await writeFile(path, '{"version":1,\n"keys":[{]}');
    for (const args of [["list"], ["create", "--env", "staging", "--plan", "free"]]) {
      const { status, out, err } = await keys(...args);
      assert.deepEqual({ status, out }, { status: 1, out: "" });
      assert.match(err, /keys\.json:2:10: Cannot read this as JSON/);
    }
    assert.equal(await readFile(path, "utf8"), '{"version":1,\n"keys":[{]}');
  });

  it("processes that write at the same time never lose each other's change", async () => {
    const args = ["keys", "create", "--env", "production", "--plan", "free", "--count", "5"];
    const all = await Promise.all(
      Array.from({ length: 4 }, () => runTollgate([...args, "--config", file, "--json"])),
    );
    const made = all.flatMap(({ stdout }) => jsonOf<Told[]>({ out: stdout }).map(({ id }) => id));
    const listed = jsonOf<Told[]>(await keys("list", "--json")).map(({ id }) => id);
    assert.deepEqual(listed.sort(), made.sort());
    assert.equal(made.length, 20);
  });
});

describe("keys in Redis", () => {
  it("are issued, listed, rotated and revoked as those in a file", async () => {
    const redis = await startRedis();
    await using folder = await openFolder();
    const file = await writeConfig(folder, { store: redis.url, keys: "redis" });
    const keys = (...args: string[]) => runVerb(["keys", ...args, "--json", "--config", file]);
    try {
      const made = jsonOf<Told>(await keys("create", "--env", "staging", "--plan", "pro"));
      const rotated = jsonOf<Told>(await keys("rotate", made.id));
      assert.equal(rotated.account, made.account);
      assert.equal((await keys("revoke", rotated.id)).status, 0);
      const listed = jsonOf<Told[]>(await keys("list"));
      assert.deepEqual(
        listed.map(({ id, revoked }) => [id, revoked === null]),
        [
          [made.id, true],
          [rotated.id, false],
        ],
      );
      const client = await redis.client();
      await client.hset("tg:{0}:keys", made.id, "{oops", ":version", "7.x");
      const some = await keys("list");
      const left = jsonOf<Told[]>(some).map(({ id }) => id);
      assert.deepEqual(
        [some.status, left],
        [1, [rotated.id]],
        "the others, and not as if all were",
      );
      assert.match(some.err, new RegExp(made.id));
      assert.equal((await keys("export")).status, 1, "a part is no whole export");
    } finally {
      await redis.close();
    }
    const away = await keys("list");
    assert.deepEqual({ status: away.status, out: away.out }, { status: 1, out: "" });
    assert.match(
      away.err,
      new RegExp(`^Cannot read the keys in redis://127\\.0\\.0\\.1:${redis.port}`),
    );
  });
});
