import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "vitest";
import { jsonOf, openFolder, runVerb, writeConfig } from "../kit.ts";

const START_MS = Date.UTC(2026, 10, 1);
const START_S = START_MS / 1_000;
const BANS = "bans: { strikes: 2, grace: 0s, within: 60s, duration: 30s }\n";

/** The line of a request of an account, so many seconds after the start. */
const line = (account: string, atS: number, more: object = {}) => ({
  ...{ level: "info", msg: "request", time: START_MS + atS * 1_000, id: `${account}-${atS}` },
  ...{ env: "production", account, key: "k", plan: "free", method: "GET", route: "/v1/pets" },
  ...{ path: "/v1/pets", status: 200, source: "backend", decision: "admitted", charged: 1 },
  ...{ forwards: 1, durationMs: 0, decidedAt: START_MS + atS * 1_000, client: "192.0.2.1" },
  ...{ cost: 1, strikes: 0 },
  ...more,
});
const REFUSED = { status: 429, code: "rate_limited", decision: "refused", source: "gateway" };

async function openTrial(lines: readonly object[], plans: string, api = "") {
  const folder = await openFolder();
  const file = await writeConfig(folder, { more: BANS });
  const [log, trial] = [join(folder.path, "one.log"), join(folder.path, "new.yaml")];
  await writeFile(log, lines.map((one) => `${JSON.stringify(one)}\n`).join(""));
  await writeFile(trial, plans);
  await writeFile(join(folder.path, "api.yaml"), api);
  const run = (...more: string[]) => {
    return runVerb(["plans", "try", trial, "--log", log, "--config", file, ...more]);
  };
  return { run, file, trial, log, [Symbol.asyncDispose]: () => folder[Symbol.asyncDispose]() };
}

const UNKNOWN = "Missing: 1 account has no record, so limits of their own are not tried: acme\n";

describe("plans try tells", () => {
  it("accounts that have no record, which are those of --config and not of a copy elsewhere", async () => {
    const lines = [0, 1, 2].map((atS) => line("acme", atS, { plan: "enterprise" }));
    await using trial = await openTrial(lines, "plans: { enterprise: custom }\n");
    const create = ["keys", "create", "--env", "production", "--plan", "enterprise"];
    const own = ["--account", "acme", "--limit", "minute=2", "--config", trial.file];
    assert.equal((await runVerb([...create, ...own])).status, 0);
    const told = await trial.run();
    assert.match(told.out, /^acme +production +enterprise +1 +minute /m);
    assert.doesNotMatch(told.out, /Missing/);
    // The file that is tried has these accounts beside it, and is not in force.
    const alone = await runVerb(["plans", "try", trial.file, "--log", trial.log]);
    assert.match(alone.out, /Missing: 1 account has no record, .*: acme\n/);
  });

  it("the mistakes of plans in the order of their lines", async () => {
    await using trial = await openTrial([], "plans: { free: { nope: 1 } }\nfoo: 1\n");
    const { status, err } = await trial.run();
    const places = err.matchAll(/new\.yaml:(\d+):/g);
    assert.deepEqual([status, ...[...places].map(([, at]) => at)], [78, "1", "2"]);
  });

  it("from when on an account is limited and banned by the bans in force, and whom the plans ease", async () => {
    const lines = [
      ...[0.9, 1.9, 2.9, 3.9, 4.9, 5.9].map((atS) => line("acme", atS)),
      line("eased", 7.9, { ...REFUSED, charged: 0, forwards: 0 }),
    ];
    await using trial = await openTrial(lines, "plans: { free: { minute: 1 } }\n");
    assert.equal(
      (await trial.run()).out,
      `7 requests of 2 accounts, 2026-11-01 00:00:00Z to 2026-11-01 00:00:07Z
ACCOUNT  ENVIRONMENT  PLAN  LIMITED  WINDOW  SINCE                 BANNED  BANS  SINCE                 EASED
acme     production   free        2  minute  2026-11-01 00:00:01Z       3     1  2026-11-01 00:00:03Z      0
eased    production   free        0  -       -                          0     0  -                         1
Missing: 2 accounts have no record, so limits of their own are not tried: acme, eased
`,
    );
    const { requests, from, to, accounts } = jsonOf<{
      requests: number;
      from: number;
      to: number;
      accounts: Record<string, unknown>[];
    }>(await trial.run("--json"));
    assert.deepEqual([requests, from, to], [7, START_S, START_S + 7]);
    const [acme, eased] = accounts.map((one) => {
      return [one.account, one.window, one.limitedSince, one.bannedSince, one.bans, one.admitted];
    });
    assert.deepEqual(acme, ["acme", "minute", START_S + 1, START_S + 3, 1, 0]);
    assert.deepEqual(eased, ["eased", null, null, null, 0, 1]);
  });

  it("that nothing differs, and no span of a log without a request", async () => {
    const plans = "plans: { free: { minute: 60 } }\n";
    const same = "Each would be decided as it was: no account is newly limited or banned\n";
    await using one = await openTrial([line("acme", 0)], plans);
    const at = "2026-11-01 00:00:00Z";
    assert.equal(
      (await one.run()).out,
      `1 request of 1 account, ${at} to ${at}\n${same}${UNKNOWN}`,
    );
    await using none = await openTrial([], plans);
    assert.equal((await none.run()).out, `0 requests of 0 accounts\n${same}`);
    const nothing = { requests: 0, from: null, to: null, accounts: [], missing: [] };
    assert.deepEqual(jsonOf(await none.run("--json")), nothing);
  });

  it("which meters are not tried, though a lower limit, or a plan without them, would refuse requests", async () => {
    const meters = { tokens: { hold: 20, used: 20 } };
    const tried = async (plan: string, more: object) => {
      await using trial = await openTrial([line("acme", 0, more)], `plans: { free: ${plan} }\n`);
      return (await trial.run()).out.split("\n").slice(1).join("\n");
    };
    const same = "each would be decided as it was: no account is newly limited or banned\n";
    const missing =
      "Missing: meters are not tried, and may refuse further requests: tokens of plan free\n";
    const lower = "{ minute: 60, meters: { tokens: { month: 10 } } }";
    for (const [plan, more] of [
      [lower, { meters }],
      [lower, {}],
      ["{ minute: 60 }", { meters }],
    ] as const) {
      assert.equal(await tried(plan, more), `By what is tried, ${same}${missing}${UNKNOWN}`);
    }
    const windows = [["minute", 1, 1, START_S + 60]];
    const eased = await tried("{ minute: 60 }", { ...REFUSED, windows, holds: { tokens: 20 } });
    assert.ok(eased.includes(missing), eased);
    const unlimited = await tried("{ minute: 60, meters: { tokens: unlimited } }", { meters });
    assert.equal(unlimited, `E${same.slice(1)}${UNKNOWN}`);
  });

  it("that a limit of one key may refuse what a plan eases, and nothing of it where nothing is eased", async () => {
    const windows = [
      ["minute", 1, 1, START_S + 60],
      ["key.day", 5, 5, START_S + 86_400],
    ];
    const lines = [line("acme", 0), line("acme", 1, { ...REFUSED, windows })];
    const missing = async (minute: number) => {
      await using trial = await openTrial(lines, `plans: { free: { minute: ${minute} } }\n`);
      return jsonOf<{ missing: string[] }>(await trial.run("--json")).missing;
    };
    const [of, ...more] = await missing(9);
    assert.equal(
      of,
      "limits of one key are not tried, and may refuse requests that are told as eased: acme",
    );
    assert.deepEqual(await missing(1), more);
  });

  it("who is limited by the windows of operations, where the file is a whole configuration", async () => {
    const operation = "{ operationId: list, x-limits: { minute: 1 } }";
    const api = `openapi: 3.1.0\npaths: { /pets: { get: ${operation} } }\n`;
    const environment =
      "{ listen: 127.0.0.1:0, keyTag: live, upstreams: [http://127.0.0.1:9], api: ./api.yaml }";
    const whole = `environments: { production: ${environment} }\nplans: { free: { minute: 60 } }\n`;
    await using trial = await openTrial([line("acme", 0), line("acme", 1)], whole, api);
    const { accounts } = jsonOf<{ accounts: Record<string, unknown>[] }>(await trial.run("--json"));
    assert.deepEqual(
      accounts.map(({ account, limited, window }) => [account, limited, window]),
      [["acme", 1, "list.minute"]],
    );
  });

  it("a variable of the plans that is not set, and tries none", async () => {
    const plans = `plans: { free: { minute: "$\{NOWHERE}" } }\n`;
    await using trial = await openTrial([line("acme", 0)], plans);
    const { status, out, err } = await trial.run();
    assert.deepEqual([status, out], [78, ""]);
    assert.match(err, /new\.yaml:1:26: .*NOWHERE/);
  });
});
