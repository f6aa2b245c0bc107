import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { afterEach, beforeEach, describe, it } from "vitest";
import { startRedis } from "../../support/redis/redis.ts";
import { type Folder, jsonOf, openFolder, runVerb, writeConfig } from "../kit.ts";

type Account = {
  readonly account: string;
  readonly plan: string;
  readonly limits: Record<string, number>;
  readonly meta: Record<string, string>;
  readonly state: string;
  readonly suspended: { until: number | null; reason: string } | null;
  readonly keys: readonly string[];
};

const NOW_MS = Date.UTC(2030, 0, 1);

describe("accounts", () => {
  let folder: Folder;
  let file: string;
  const run = (...args: string[]) => runVerb([...args, "--config", file], { nowMs: NOW_MS });
  const accounts = (...args: string[]) => run("accounts", ...args);
  const create = (...args: string[]) =>
    run("keys", "create", "--env", "production", "--plan", "free", "--json", ...args);
  const show = async (id: string) => jsonOf<Account>(await accounts("show", id, "--json"));

  beforeEach(async () => {
    folder = await openFolder();
    file = await writeConfig(folder);
  });
  afterEach(() => folder[Symbol.asyncDispose]());

  it("list and show tell an account with its keys that work", async () => {
    const [one, two] = [
      jsonOf<{ id: string }>(await create("--account", "acme", "--meta", "tenant=42")),
      jsonOf<{ id: string }>(await create("--account", "acme")),
    ];
    await create();
    await run("keys", "revoke", two.id);
    assert.deepEqual(await show("acme"), {
      account: "acme",
      environment: "production",
      plan: "free",
      limits: {},
      meta: { tenant: "42" },
      anchor: 1,
      anchorFrom: null,
      state: "active",
      suspended: null,
      created: NOW_MS / 1000,
      keys: [one.id],
      names: [],
    });
    assert.equal((await show(one.id)).account, "acme");
    for (const more of [[], ["--json"]]) {
      const unknown = await accounts("show", "nobody", ...more);
      assert.deepEqual([unknown.status, unknown.out], [1, ""]);
      assert.match(unknown.err, /nobody/);
    }
    const all = jsonOf<Account[]>(await accounts("list", "--json"));
    assert.equal(all.length, 2);
    assert.match(all[1]?.account ?? "", /^a_[0-9A-Za-z]{12}$/);
    assert.equal(jsonOf<Account[]>(await accounts("list", "--plan", "pro", "--json")).length, 0);
    assert.deepEqual(jsonOf(await accounts("list", "--env", "staging", "--json")), []);
    assert.deepEqual(jsonOf(await accounts("list", "--env", "production", "--json")), all);
    assert.equal((await accounts("list", "--env", "prod")).status, 64);
    const unheard = await accounts("list", "--plan", "gold", "--json");
    assert.deepEqual([unheard.status, unheard.out], [64, ""]);
    assert.match(unheard.err, /Unknown plan "gold": expected free, pro/);
    assert.match(
      (await accounts("list")).out,
      /^ACCOUNT +ENVIRONMENT +PLAN +LIMITS +KEYS +STATE\n/,
    );
    assert.match((await accounts("show", "acme")).out, /metadata +tenant=42/);
  });

  it("set changes plan, limits and metadata; own limits stay beside another plan, and are named", async () => {
    await create("--account", "acme", "--limit", "minute=500", "--meta", "tenant=42");
    const moved = await accounts("set", "acme", "--plan", "pro", "--meta", "region=eu");
    assert.equal(moved.out, "Account acme is on plan pro, with its own limits minute=500\n");
    const { plan, limits, meta } = await show("acme");
    assert.deepEqual(
      [plan, limits, meta],
      ["pro", { minute: 500 }, { tenant: "42", region: "eu" }],
    );
    await accounts("set", "acme", "--limit", "minute=6", "--limit", "day=7", "--meta", "tenant=");
    assert.deepEqual((await show("acme")).limits, { minute: 6, day: 7 });
    assert.deepEqual((await show("acme")).meta, { region: "eu" });
    await accounts("set", "acme", "--no-limits", "--limit", "hour=8");
    assert.deepEqual((await show("acme")).limits, { hour: 8 });
    await accounts("set", "acme", "--no-limits");
    assert.deepEqual((await show("acme")).limits, {});
  });

  it("set tells one account as it is, and several as a list, whose limits stand side by side", async () => {
    for (const name of ["one", "two"]) await create("--account", name);
    const set = async (...ids: readonly string[]) => {
      const args = ["--limit", "minute=5", "--limit", "day=7", "--json"];
      return jsonOf<Account | Account[]>(await accounts("set", ...ids, ...args));
    };
    assert.equal(((await set("one")) as Account).account, "one");
    const both = (await set("one", "two")) as Account[];
    assert.deepEqual(
      both.map(({ account }) => account),
      ["one", "two"],
    );
    assert.match((await accounts("list")).out, /^two +production +free +minute=5 day=7 +1 /m);
  });

  it("list takes those of a plan that the configuration no longer has", async () => {
    await create("--account", "acme");
    await accounts("set", "acme", "--plan", "pro");
    await writeFile(file, (await readFile(file, "utf8")).replace("pro:", "prime:"));
    assert.match((await accounts("list", "--plan", "pro")).out, /^acme +production +pro /m);
  });

  it("set refuses a custom plan without a window with 64, and changes nothing of any", async () => {
    await create("--account", "one", "--limit", "minute=5");
    await create("--account", "two");
    const { status, err } = await accounts("set", "one", "two", "--plan", "enterprise");
    assert.equal(status, 64);
    assert.match(
      err,
      /plan enterprise without a limit, .*give at least one, such as minute=500 \(account two\)/,
    );
    assert.deepEqual([(await show("one")).plan, (await show("two")).plan], ["free", "free"]);
    const dropped = await accounts("set", "one", "--plan", "enterprise", "--no-limits");
    assert.equal(dropped.status, 64);
    assert.equal((await accounts("set", "one", "--plan", "enterprise")).status, 0);
  });

  it("set is wrong usage without an account or a change, and 1 with an unknown one", async () => {
    await create("--account", "acme");
    for (const [args, message] of [
      [["--plan", "pro"], /Missing ID, or --on PLAN/],
      [["acme", "--on", "free", "--plan", "pro"], /not both/],
      [["acme"], /Nothing to set/],
      [["acme", "--plan", "pro", "--dry-run"], /^--dry-run goes with --on PLAN\n/],
      [["acme", "--plan", "gold"], /"gold" as it is unknown: expected free, pro/],
      [["--on", "gold", "--plan", "pro"], /"gold" as it is unknown/],
      [["acme", "--limit", "fortnight=1"], /--limit as WINDOW=NUMBER/],
      [["acme", "--meta", "tenant"], /--meta as NAME=VALUE/],
      [["acme", "--anchor", "1st"], /^Cannot read --anchor as a day of the month/],
      [["acme", "--meta", "Tenant=1"], /metadata name "Tenant"/],
    ] as const) {
      const { status, err, out } = await accounts("set", ...args);
      assert.deepEqual([status, out], [64, ""], args.join(" "));
      assert.match(err, message);
    }
    const unknown = await accounts("set", "acme", "nobody", "--plan", "pro");
    assert.equal(unknown.status, 1);
    assert.equal((await show("acme")).plan, "free");
  });

  it("set --on moves every account of a plan, also one that is no longer configured", async () => {
    for (const count of ["1000", "1000"]) await create("--count", count);
    const one = await accounts("set", "--on", "free", "--plan", "pro");
    assert.deepEqual([one.out, one.err], ["2000 accounts are changed\n", ""], "in one write");
    await accounts("set", "--on", "pro", "--plan", "free");
    await create("--count", "3");
    await create("--account", "other");
    await accounts("set", "other", "--plan", "pro");
    const moved = await accounts("set", "--on", "free", "--plan", "business", "--json");
    assert.deepEqual(jsonOf(moved), { changed: 2_003 });
    assert.equal(moved.err, "2000 of 2003 accounts\n2003 of 2003 accounts\n");
    assert.equal((await show("other")).plan, "pro");
    const again = await accounts("set", "--on", "free", "--plan", "business");
    assert.deepEqual([again.status, again.out], [0, "0 accounts are changed\n"]);
  });

  it("set --on asks at a terminal how many it may change, --yes answers, and --dry-run lists them", async () => {
    for (const name of ["a", "b", "c"]) await create("--account", name);
    const args = ["accounts", "set", "--on", "free", "--plan", "business", "--config", file];
    const dry = await runVerb([...args, "--dry-run"], { nowMs: NOW_MS, answer: "y" });
    assert.deepEqual([dry.status, dry.out], [0, "a\nb\nc\n3 accounts would be changed\n"]);
    const listed = await runVerb([...args, "--dry-run", "--json"], { nowMs: NOW_MS });
    assert.deepEqual(jsonOf(listed), { changed: 0, accounts: ["a", "b", "c"] });
    for (const answer of ["", "n", "yess"]) {
      const asked = await runVerb(args, { nowMs: NOW_MS, answer });
      assert.deepEqual([asked.status, asked.err], [1, "No account is changed\n"], answer);
    }
    assert.equal((await show("a")).plan, "free");
    const questions: string[] = [];
    const onQuestion = (question: string) => void questions.push(question);
    const agreed = await runVerb(args, { nowMs: NOW_MS, answer: " Y ", onQuestion });
    assert.deepEqual([agreed.status, agreed.out], [0, "3 accounts are changed\n"]);
    assert.deepEqual(questions, ["Change 3 accounts on plan free? [y/N]: "]);
    await create("--account", "d");
    const one = await runVerb(args, { nowMs: NOW_MS, answer: "y", onQuestion });
    assert.equal(one.out, "1 account is changed\n");
    assert.equal(questions[1], "Change 1 account on plan free? [y/N]: ");
    const same = ["accounts", "set", "--on", "business", "--plan", "business", "--config", file];
    const none = await runVerb(same, { nowMs: NOW_MS, answer: "n", onQuestion });
    assert.deepEqual([none.status, none.out], [0, "0 accounts are changed\n"]);
    assert.equal(questions.length, 2, "no leave is needed to change nothing");
    const back = ["accounts", "set", "--on", "business", "--plan", "free", "--yes"];
    const sure = await runVerb([...back, "--config", file], { nowMs: NOW_MS, answer: "n" });
    assert.equal(sure.out, "4 accounts are changed\n");
    const json = await runVerb([...args, "--json"], { nowMs: NOW_MS, answer: "n" });
    assert.deepEqual([json.status, json.out], [1, ""], "it asks on stderr");
    const script = await runVerb([...args, "--json"], { nowMs: NOW_MS });
    assert.deepEqual(jsonOf(script), { changed: 4 });
  });

  it("set --on leaves what another command has changed since the question", async () => {
    const limited = ["--limit", "day=5"];
    for (const name of ["a", "b"]) await create("--account", name, ...limited);
    const set = ["accounts", "set", "--on", "free", "--config", file, "--plan"];
    const answered = (plan: string, ...meanwhile: string[]) => {
      const onQuestion = async () => void (await accounts("set", ...meanwhile));
      return runVerb([...set, plan], { nowMs: NOW_MS, answer: "y", onQuestion });
    };
    const refused = await answered("enterprise", "b", "--no-limits");
    assert.deepEqual([refused.status, refused.out], [64, ""]);
    assert.match(refused.err, /plan enterprise without a limit, .* \(account b\)/);
    await create("--account", "c", "--limit", "day=5");
    await accounts("set", "c", "--plan", "pro");
    const come = await answered("business", "c", "--plan", "free");
    assert.equal(come.out, "2 accounts are changed\n", "nor is one that came since");
    await accounts("set", "a", "b", "--plan", "free");
    await accounts("set", "c", "--plan", "pro");
    const moved = await answered("business", "b", "--plan", "pro");
    assert.equal(moved.out, "1 account is changed\n");
    assert.deepEqual([(await show("a")).plan, (await show("b")).plan], ["business", "pro"]);
  });

  it("suspend and resume tell the state, which ends by itself where it was told to", async () => {
    await create("--account", "acme");
    const args = ["suspend", "acme", "--for", "2h", "--reason", "unpaid", "--json"];
    const { state, suspended } = jsonOf<Account>(await accounts(...args));
    assert.equal(state, "suspended");
    assert.deepEqual(suspended, {
      since: NOW_MS / 1000,
      until: NOW_MS / 1000 + 7_200,
      reason: "unpaid",
    });
    assert.match(
      (await accounts("show", "acme")).out,
      /suspended until 2030-01-01 02:00:00Z: unpaid/,
    );
    await accounts("suspend", "acme");
    assert.match((await accounts("show", "acme")).out, /state +suspended\n/);
    assert.equal(jsonOf<Account>(await accounts("resume", "acme", "--json")).state, "active");
    const twice = await accounts("resume", "acme");
    assert.deepEqual([twice.status, twice.err], [1, "Account acme is not suspended\n"]);
    assert.equal((await accounts("suspend", "nobody")).status, 1);
    assert.equal((await accounts("suspend", "acme", "--for", "soon")).status, 64);
  });

  it("reset asks the running gateway, and names admin.listen where there is none", async () => {
    await create("--account", "acme");
    const { status, err } = await accounts("reset", "acme");
    assert.equal(status, 1);
    assert.match(err, /admin\.listen/);
  });

  it("each verb has an example in its help", async () => {
    for (const verb of ["list", "show", "set", "suspend", "resume", "reset"]) {
      assert.match((await accounts(verb, "--help")).out, new RegExp(`tollgate accounts ${verb} `));
    }
  });
});

describe("accounts in Redis", () => {
  it("are changed and reset as those in a file", async () => {
    const redis = await startRedis();
    await using folder = await openFolder();
    const file = await writeConfig(folder, { store: redis.url, keys: "redis" });
    const run = (...args: string[]) => runVerb([...args, "--json", "--config", file]);
    try {
      await run(..."keys create --env staging --plan free --account acme".split(" "));
      const moved = await run(..."accounts set acme --plan pro --limit day=5".split(" "));
      assert.equal(jsonOf<Account>(moved).plan, "pro");
      assert.deepEqual(jsonOf(await run("accounts", "reset", "acme")), {
        account: "acme",
        environment: "staging",
        windows: [],
      });
      const wrong = await run("accounts", "reset", "acme", "--window", "fortnight");
      assert.equal(wrong.status, 64);
      assert.match(wrong.err, /Unknown window "fortnight": expected second, minute/);
      const text = await readFile(file, "utf8");
      await writeFile(file, text.replace("pro:", "prime:"));
      const planless = await run("usage", "acme");
      const why = "Account acme is on plan pro, which is not configured\n";
      assert.deepEqual([planless.status, planless.out, planless.err], [1, "", why]);
      await writeFile(file, text);
      await (await redis.client()).hset("tg:{0}:keys", "k_1", "{");
      for (const verb of ["accounts", "keys"]) {
        const damaged = await run(verb, "list");
        assert.deepEqual([damaged.status, jsonOf<object[]>(damaged).length], [1, 1], verb);
        assert.match(damaged.err, /^Cannot use k_1 in the hash tg:\{0\}:keys: /);
      }
    } finally {
      await redis.close();
    }
    const away = await run("accounts", "reset", "acme");
    assert.deepEqual([away.status, away.out], [1, ""]);
  });
});
