import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { describe, it } from "vitest";
import { startTestGateway, type TestGateway } from "../../support/gateway/house.ts";
import { eventually } from "../../support/poll.ts";
import { jsonOf, openFolder, runVerb, writeConfig } from "../kit.ts";

type Told = {
  requests: number;
  from: number;
  accounts: {
    account: string;
    limited: number;
    limitedSince: number | null;
    window: string | null;
    banned: number;
    bans: number;
    admitted: number;
    unbanned: number;
  }[];
  missing: string[];
};

const START_MS = Date.UTC(2026, 10, 1);
const CONFIG = {
  plans: { free: { minute: 10, day: 40 }, enterprise: "custom" },
  bans: { strikes: 3, grace: "1s", within: "60s", duration: "30s" },
};

/** Half an hour of one account that is limited and banned, and one with limits of its own. */
async function lived(clock: { ms: number }): Promise<{ house: TestGateway; ids: string[] }> {
  const house = await startTestGateway({ config: CONFIG, now: () => clock.ms });
  const free = await house.issue();
  const own = await house.issue({ plan: "enterprise", limits: { minute: 15 } });
  for (const stepMs of [...Array(25).fill(400), ...Array(30).fill(3_000), 60_000, 60_000]) {
    await (await house.ask(free.key)).text();
    await (await house.ask(own.key)).text();
    clock.ms += stepMs;
  }
  await eventually(() => assert.equal(house.lines.length, 114));
  return { house, ids: [free.account, own.account] };
}

async function writeLogs(house: TestGateway): Promise<string[]> {
  const texts = house.lines.map((entry) => `${JSON.stringify(entry)}\n`).reverse();
  const files = [join(house.directory, "one.log"), join(house.directory, "two.log.gz")];
  await writeFile(files[0] as string, texts.filter((_, i) => i % 3 === 0).join(""));
  await writeFile(files[1] as string, gzipSync(texts.filter((_, i) => i % 3 !== 0).join("")));
  return files;
}

describe("plans try", () => {
  it("against the log of the same plan differs nowhere, and names who is limited by a smaller one", async () => {
    const clock = { ms: START_MS };
    const { house, ids } = await lived(clock);
    await using _house = house;
    const codes = new Set(house.lines.map(({ code }) => code));
    assert.deepEqual([...codes].sort(), ["key_banned", "rate_limited", undefined]);
    const logs = await writeLogs(house);
    const [one = "", two = ""] = logs;

    const same = await runVerb([
      "plans",
      "try",
      house.file,
      "--config",
      house.file,
      "--log",
      one,
      two,
      "--json",
    ]);
    assert.equal(same.status, 0, same.err);
    const told = jsonOf<Told>(same);
    assert.deepEqual([told.requests, told.from, told.accounts], [114, START_MS / 1_000, []]);
    assert.deepEqual(told.missing, []);

    const plans = join(house.directory, "new.yaml");
    await writeFile(plans, "plans:\n  free: { minute: 5, day: 40 }\n  enterprise: custom\n");
    const asked = ["plans", "try", plans, "--config", house.file, "--log", one, "--log", two];
    const stricter = jsonOf<Told>(await runVerb([...asked, "--json"]));
    assert.deepEqual(
      stricter.accounts.map(({ account }) => account),
      [ids[0]],
    );
    const [first] = stricter.accounts;
    assert.equal(first?.limited, 5, "five of the first ten were admitted by the old plan");
    assert.deepEqual([first?.window, first?.limitedSince], ["minute", START_MS / 1_000 + 2]);
    const text = await runVerb(asked);
    assert.match(text.out, /^114 requests of 2 accounts, 2026-11-01 00:00:00Z to /);
    assert.match(text.out, new RegExp(`${ids[0]} +production +free +5 +minute`));

    // The accounts are those of the configuration that is named, beside a whole one too.
    await using folder = await openFolder();
    const whole = ["plans", "try", await writeConfig(folder), ...asked.slice(3)];
    assert.deepEqual(jsonOf<Told>(await runVerb([...whole, "--json"])).missing, []);

    // Without bans, nobody is banned any more; the rest of the plan is what it was.
    await writeFile(
      plans,
      "plans: { free: { minute: 10, day: 40 }, enterprise: custom }\nbans: off\n",
    );
    const [without] = jsonOf<Told>(await runVerb([...asked, "--json"])).accounts;
    assert.deepEqual([without?.banned, without?.bans, without?.limited], [0, 0, 0]);
    const { admitted = 0, unbanned = 0 } = without ?? {};
    assert.ok(admitted > 0 && unbanned > 0, JSON.stringify(without));
    assert.match((await runVerb(asked)).out, new RegExp(` ${admitted + unbanned}$`, "m"));
  });

  it("names accounts in the order in which the log has them", async () => {
    const clock = { ms: START_MS };
    await using house = await startTestGateway({ config: CONFIG, now: () => clock.ms });
    const issued = [await house.issue(), await house.issue(), await house.issue()];
    for (let i = 0; i < 9; i++) {
      await (await house.ask(issued[i % 3]?.key ?? "")).text();
      clock.ms += 100;
    }
    await eventually(() => assert.equal(house.lines.length, 9));
    const log = join(house.directory, "one.log");
    await writeFile(log, house.lines.map((entry) => `${JSON.stringify(entry)}\n`).join(""));
    const plans = join(house.directory, "new.yaml");
    await writeFile(plans, "plans:\n  free: { minute: 2, day: 40 }\n  enterprise: custom\n");
    const asked = ["plans", "try", plans, "--config", house.file, "--log", log, "--json"];
    const { accounts } = jsonOf<Told>(await runVerb(asked));
    assert.deepEqual(
      accounts.map(({ account, limited }) => [account, limited]),
      issued.map(({ account }) => [account, 1]),
    );
  });

  it("leaves out what a limit of one key refused, and says how many requests", async () => {
    const clock = { ms: START_MS };
    await using house = await startTestGateway({ config: CONFIG, now: () => clock.ms });
    const { key } = await house.issue({ caps: { minute: 2 } });
    for (let i = 0; i < 5; i++) await (await house.ask(key)).text();
    await eventually(() => assert.equal(house.lines.length, 5));
    const logs = await writeLogs(house);
    const asked = ["plans", "try", house.file, "--config", house.file, "--log", ...logs, "--json"];
    const { requests, accounts, missing } = jsonOf<Told>(await runVerb(asked));
    assert.deepEqual([requests, accounts], [2, []]);
    assert.deepEqual(missing, [
      "3 requests were refused by a limit of one key, which is not tried",
    ]);
  });

  it("of the plans in force differs nowhere where a cost was above a limit, and eases it where the limit is raised", async () => {
    const clock = { ms: START_MS };
    await using house = await startTestGateway({
      config: CONFIG,
      environment: { api: null, costs: [{ match: "GET /v1/export", cost: 11 }] },
      now: () => clock.ms,
    });
    const { key, account } = await house.issue();
    const capped = await house.issue({ caps: { minute: 10 }, limits: { minute: 20 } });
    for (let i = 0; i < 3; i++) await (await house.ask(key, "/v1/export")).text();
    for (let i = 0; i < 10; i++) await (await house.ask(key)).text();
    await (await house.ask(capped.key, "/v1/export")).text();
    await eventually(() => assert.equal(house.lines.length, 14));
    assert.deepEqual(
      house.lines
        .filter(({ code }) => code === "cost_over_limit")
        .map(({ cost, over }) => [cost, over]),
      [...Array(3).fill([11, "minute"]), [11, "key.minute"]],
    );
    const logs = await writeLogs(house);
    const tried = async (file: string) => {
      const asked = ["plans", "try", file, "--config", house.file, "--log", ...logs, "--json"];
      const { accounts, missing } = jsonOf<Told>(await runVerb(asked));
      assert.deepEqual(missing, [
        "1 request was refused by a limit of one key, which is not tried",
      ]);
      return accounts.map((one) => [one.account, one.limited, one.admitted]);
    };
    assert.deepEqual(await tried(house.file), []);
    const plans = join(house.directory, "new.yaml");
    const raisedTo = async (minute: number) => {
      await writeFile(
        plans,
        `plans: { free: { minute: ${minute}, day: 40 }, enterprise: custom }\n`,
      );
      return tried(plans);
    };
    assert.deepEqual(await raisedTo(10), []);
    assert.deepEqual(await raisedTo(33), [[account, 0, 3]]);
  });

  it("tries an account with an anchor in its own months", async () => {
    const clock = { ms: Date.UTC(2026, 10, 15) };
    const config = { ...CONFIG, plans: { free: { month: 3 } } };
    await using house = await startTestGateway({ config, now: () => clock.ms });
    const { key, account } = await house.issue({ anchor: 15 });
    const { key: later } = await house.issue({ anchor: 20 });
    await (await house.ask(later)).text();
    for (const day of ["2026-11-15", "2026-12-01", "2026-12-14", "2026-12-15"]) {
      clock.ms = Date.parse(day);
      for (let i = 0; i < 2; i++) await (await house.ask(key)).text();
    }
    await eventually(() => assert.equal(house.lines.length, 9));
    assert.equal(house.lines.filter(({ status }) => status === 429).length, 3);
    const logs = await writeLogs(house);
    const asked = ["plans", "try", house.file, "--config", house.file, "--log", ...logs, "--json"];
    const same = jsonOf<Told>(await runVerb(asked));
    assert.deepEqual([same.accounts, same.requests], [[], 9]);
    assert.deepEqual(same.missing, [
      "the log begins at 2026-11-15 00:00:00Z, and its month at 2026-10-20 00:00:00Z: what was charged between them is not in it",
    ]);
    const plans = join(house.directory, "new.yaml");
    await writeFile(plans, "plans: { free: { month: 2 } }\n");
    const trying = ["plans", "try", plans, "--config", house.file, "--log", ...logs, "--json"];
    const [stricter] = jsonOf<Told>(await runVerb(trying)).accounts;
    assert.deepEqual(
      [stricter?.account, stricter?.limited, stricter?.window],
      [account, 1, "month"],
    );
  });

  it("says what a log lacks: its beginning, lines, plans, and changes meanwhile", async () => {
    const clock = { ms: START_MS + 5_000 };
    const { house } = await lived(clock);
    await using _house = house;
    const log = join(house.directory, "some.log");
    const reset = { level: "info", time: 1, msg: "account_reset", account: "a", env: "production" };
    const lines = house.lines.map((entry, i) => ({
      ...entry,
      time: entry.decidedAt,
      config: i < 5 ? "00000000" : "11111111",
    }));
    const event = { level: "info", msg: "event", kind: "config_reloaded", hash: "11111111" };
    const reload = { ...event, time: START_MS + 5_800 };
    const text = [reset, reload, ...lines].map((line) => JSON.stringify(line)).join("\n");
    await writeFile(log, `${text}\n{"cut`);
    const plans = join(house.directory, "new.yaml");
    await writeFile(plans, "plans: { enterprise: custom }\n");
    const asked = ["plans", "try", plans, "--config", house.file, "--log", log];
    const { missing } = jsonOf<Told>(await runVerb([...asked, "--json"]));
    const words = [
      /^1 damaged line left out, the first at .*some\.log:117$/,
      /^accounts were reset \(account_reset: 1\)$/,
      /^the configuration changed: 2 are in the log, 00000000, 11111111$/,
      /begins at 2026-11-01 00:00:05Z, and its minute at 2026-11-01 00:00:00Z/,
      /^57 requests were not tried, since plan free has no windows for them$/,
    ];
    assert.equal(missing.length, words.length, missing.join("\n"));
    for (const [i, word] of words.entries()) assert.match(missing[i] ?? "", word);
    assert.match((await runVerb(asked)).out, /\nMissing: 57 requests were not tried/);
  });

  it("refuses to run without a log, with one that is not there, and with plans that are wrong", async () => {
    await using folder = await openFolder();
    const file = await writeConfig(folder);
    const without = await runVerb(["plans", "try", file]);
    assert.deepEqual([without.status, without.out], [64, ""]);
    assert.equal(without.err, "Missing --log FILE (see: tollgate help plans try)\n");
    const none = await runVerb(["plans", "try", file, "--log", "nowhere.log"]);
    assert.deepEqual(
      [none.status, none.err.includes("nowhere.log: there is no such file")],
      [1, true],
    );
    const plans = join(folder.path, "new.yaml");
    await writeFile(plans, "plans:\n  free: { minutes: 5 }\nstore: memory\n");
    const wrong = await runVerb(["plans", "try", plans, "--config", file, "--log", file]);
    assert.equal(wrong.status, 78);
    assert.match(wrong.err, /new\.yaml:2:11: /);
    assert.match(wrong.err, /^\S*new\.yaml:3:1: .*store/m);
    assert.equal(wrong.err.trimEnd().split("\n").length, 2, wrong.err);
    await writeFile(plans, "plans: { free: { minute: 5 } }\n");
    await writeFile(file, "bogus: 1\nother: 2\n");
    const args = ["plans", "try", plans, "--config", file, "--log", file];
    const broken = await runVerb(args);
    assert.equal(broken.status, 78);
    assert.match(broken.err, /tollgate\.yaml:1:1: Cannot use bogus/);
    assert.match(broken.err, /^\S*tollgate\.yaml:2:1: Cannot use other/m, "and each further one");
  });
});

describe("plans list", () => {
  it("tells every plan with its limits and how many accounts are on it", async () => {
    await using folder = await openFolder();
    const file = await writeConfig(folder);
    const create = ["keys", "create", "--env", "production", "--plan", "pro", "--config", file];
    for (const count of ["1", "2"]) {
      assert.equal((await runVerb([...create, "--count", count])).status, 0);
    }
    const listed = await runVerb(["plans", "list", "--config", file, "--json"]);
    const plans = jsonOf<{ plan: string; accounts: number }[]>(listed);
    assert.deepEqual(plans[1], {
      ...{ plan: "pro", custom: false, observe: [], included: [], concurrent: null, accounts: 3 },
      meters: {},
      environments: { production: 3 },
      limits: [
        { window: "minute", limit: 300 },
        { window: "day", limit: 10_000 },
      ],
    });
    const { out } = await runVerb(["plans", "list", "--config", file]);
    assert.match(
      out,
      /^PLAN +LIMITS +OBSERVED +CONCURRENT +ACCOUNTS\nfree +minute=60 day=1000 +- +- +0\n/,
    );
    assert.match(out, /enterprise +agreed per account/);
    assert.ok((await readFile(file, "utf8")).includes("pro:"));
  });

  it("tells the windows of meters and those observed, a meter without a limit, and requests at a time", async () => {
    await using folder = await openFolder();
    const meters = "{ tokens: { minute: 900, month: 5000 }, rows: unlimited }";
    const more = `concurrent: 5, observe: { hour: 9 }, meters: ${meters}`;
    const file = await writeConfig(folder, { free: `{ minute: 60, ${more} }` });
    const listed = await runVerb(["plans", "list", "--config", file, "--json"]);
    const [free] = jsonOf<{ limits: object[]; meters: object }[]>(listed);
    assert.deepEqual(free?.limits, [{ window: "minute", limit: 60 }]);
    assert.deepEqual(free?.meters, {
      tokens: [
        { window: "minute", limit: 900 },
        { window: "month", limit: 5_000 },
      ],
      rows: [],
    });
    const { out } = await runVerb(["plans", "list", "--config", file]);
    assert.match(
      out,
      /free +minute=60 tokens\.minute=900 tokens\.month=5000 rows=unlimited +hour=9 +5 +0$/m,
    );
  });

  it("tells the units that plans include, if any plan does", async () => {
    await using folder = await openFolder();
    const more = "history: 62d\n";
    const free = "{ month: 5000, included: { month: 1000 } }";
    const file = await writeConfig(folder, { free, more });
    const { out } = await runVerb(["plans", "list", "--config", file]);
    assert.match(out, /^PLAN +LIMITS +INCLUDED +OBSERVED +CONCURRENT +ACCOUNTS\n/);
    assert.match(out, /^free +month=5000 +month=1000 +- +- +0$/m);
    assert.match(out, /^pro +minute=300 day=10000 +- +- +- +0$/m);
  });
});
