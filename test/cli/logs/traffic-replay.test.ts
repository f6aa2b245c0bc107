import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { type AccountReplay, TrafficReplay } from "../../../src/cli/logs/traffic-replay.ts";
import type { Config } from "../../../src/config/config.ts";
import { loadConfig } from "../../../src/config/load/load.ts";
import type { LoggedRequest } from "../../../src/telemetry/log/logged-line.ts";
import { recordsFrom } from "../../support/records.ts";
import { openFolder, writeConfig } from "../kit.ts";

const START_MS = Date.UTC(2026, 10, 1);
const TWO = [{ window: "minute", limit: 2 }] as const;
const BANS = "bans: { strikes: 2, grace: 0s, within: 60s, duration: 30s }";

async function configOf(free: string, more = ""): Promise<Config> {
  await using folder = await openFolder();
  const loaded = await loadConfig(await writeConfig(folder, { free, more }), {});
  if (!loaded.ok) throw new Error(JSON.stringify(loaded.mistakes));
  return loaded.config;
}

/** The line of an admitted request, one second after the line before it. */
function line(n: number, account: string, method: string): LoggedRequest {
  const admitted = {
    decision: "admitted",
    status: 200,
    code: undefined,
    source: "backend",
  } as const;
  const timeMs = START_MS + n * 1_000;
  return {
    ...admitted,
    ...{ id: `r${n}`, env: "production", account, key: undefined, plan: "free", method },
    ...{ route: "/v1/pets", path: "/v1/pets", charged: 1, forwards: 1, client: "192.0.2.1" },
    ...{ time: timeMs, durationMs: 0, decidedAt: timeMs, why: undefined },
  };
}

function replayed(config: Config, lines: readonly LoggedRequest[]): AccountReplay[] {
  const replay = new TrafficReplay({
    plans: config,
    environments: config.environments,
    accounts: [],
  });
  for (const each of lines) replay.add(each);
  return [...replay.tried()];
}

describe("traffic that is tried again", () => {
  it("bans an account that goes on behind its limit, and no address without a key", async () => {
    const config = await configOf("{ minute: 1, day: 1000 }", BANS);
    const all = (account: string) => Array.from({ length: 6 }, (_, n) => line(n, account, "GET"));
    const [account] = replayed(config, all("acme"));
    assert.ok((account?.bans ?? 0) > 0 && (account?.banned ?? 0) > 0, JSON.stringify(account));
    const [address] = replayed(config, all("addr:192.0.2.1"));
    assert.deepEqual([address?.bans, address?.banned, address?.limited], [0, 0, 5]);
  });

  it("is of the plan that its lines name, though the account is on another one by now", async () => {
    const config = await configOf("{ minute: 1, day: 1000 }", "bans: off");
    const { accounts } = recordsFrom([{ account: "acme", plan: "pro" }]);
    const replay = new TrafficReplay({
      plans: config,
      environments: config.environments,
      accounts,
    });
    for (let n = 0; n < 3; n++) replay.add(line(n, "acme", "GET"));
    const [found] = replay.tried();
    assert.deepEqual([found?.account, found?.plan, found?.limited], ["acme", "free", 2]);
    const [single] = replayed(config, [{ ...line(0, "single", "GET"), cost: 2 }]);
    assert.deepEqual([single?.account, single?.plan, single?.limited], ["single", "free", 1]);
  });

  it("counts HEAD in the windows of its operation, as GET", async () => {
    const config = await configOf("{ minute: 100, day: 1000 }", "bans: off");
    const window = { window: "minute", limit: 1, part: { id: "GET /v1/pets", name: "pets" } };
    const operation = { method: "GET", template: "/v1/pets", limits: { windows: [window] } };
    const environments = [
      { name: "production", routes: { operations: [operation] }, services: [] },
    ];
    const limited = { ...config, environments: environments as unknown as Config["environments"] };
    const services = [{ routes: { operations: [operation] } }];
    const ofService = [{ name: "production", routes: { operations: [] }, services }];
    const served = { ...config, environments: ofService as unknown as Config["environments"] };
    const twice = replayed(served, [line(0, "acme", "GET"), line(1, "acme", "GET")]);
    assert.deepEqual([twice.length, twice[0]?.limited], [1, 1], "of a service");
    for (const methods of [
      ["GET", "GET"],
      ["HEAD", "GET"],
      ["GET", "HEAD"],
      ["HEAD", "HEAD"],
    ]) {
      const found = replayed(
        limited,
        methods.map((method, n) => line(n, "acme", method)),
      );
      assert.deepEqual(
        found.map((each) => each.limited),
        [1],
        methods.join(),
      );
    }
    assert.deepEqual(replayed(limited, [line(0, "acme", "GET"), line(1, "acme", "POST")]), []);
  });

  it("leaves out what no log can decide again, and says why and how often", async () => {
    const config = await configOf("{ minute: 9, day: 1000 }", "bans: off");
    const replay = new TrafficReplay({
      ...{ plans: config, environments: config.environments, accounts: [] },
    });
    const own = (name: string) => [[name, 9, 9, 1]] as const;
    const limited = { decision: "refused", code: "rate_limited", charged: 0 } as const;
    const tokens = (used: number, minute: number) => {
      return [["minute", minute, 9, 1] as const, ["tokens.month", used, 100, 1] as const];
    };
    const holds = { tokens: 10 };
    const changes: Partial<LoggedRequest>[] = [
      {},
      { decision: "none" },
      { account: undefined },
      { ...limited, code: "store_unavailable" },
      { ...limited, code: undefined },
      { ...limited, windows: own("key.day") },
      { ...limited, windows: [...own("key.day"), ["minute", 8, 9, 1]] },
      { ...limited, windows: [...own("key.day"), ...own("minute")] },
      { ...limited, windows: [...own("key.day"), ["minute", 8, 9, 1]], cost: 2 },
      { ...limited, windows: own("minute"), by: "local" },
      { ...limited, windows: tokens(100, 8), holds },
      { ...limited, windows: [...tokens(91, 8), ...own("key.day")], holds },
      { ...limited, windows: tokens(100, 8), holds: { tokens: 0 } },
      { ...limited, windows: tokens(100, 9), holds },
      { ...limited, windows: [...tokens(90, 8), ...own("key.day")], holds },
      { ...limited, code: "cost_over_limit", cost: 10, over: "minute" },
      { ...limited, code: "cost_over_limit", cost: 2, over: "key.day" },
      // An earlier version did not log what was too small. Of a hold there is none.
      { ...limited, code: "cost_over_limit" },
      { ...limited, code: "key_banned", windows: own("key.day") },
      limited,
      { plan: "gone" },
      { plan: "gone" },
    ];
    for (const [n, change] of changes.entries()) replay.add({ ...line(n, "a", "GET"), ...change });
    assert.deepEqual(replay.left(), [
      "1 request was answered store_unavailable",
      "1 request was answered at once",
      "4 requests were refused by a limit of one key, which is not tried",
      "1 request was refused by a gateway without its store, and tried all the same",
      "3 requests were refused by a meter, which is not tried",
      "1 request was answered cost_over_limit",
      "2 requests were not tried, since plan gone has no windows for them",
      "1 account has no record, so limits of their own are not tried: a",
    ]);
    assert.deepEqual([replay.requests, replay.accounts, replay.longest], [8, 1, "day"]);
  });

  it("has the limits of its own account, the cost of each request, and each environment for itself", async () => {
    const config = await configOf("{ minute: 3 }", "bans: off");
    const limits = [{ window: "minute", limit: 1 }] as const;
    const replay = new TrafficReplay({
      ...{ plans: config, environments: config.environments },
      accounts: [
        { id: "own", environment: "production", plan: "free", limits, meta: {}, createdMs: 0 },
        { id: "two", environment: "production", plan: "free", limits: TWO, meta: {}, createdMs: 0 },
      ],
    });
    replay.add({ ...line(0, "own", "GET"), plan: "gone" });
    for (const account of ["own", "plain", "two"]) {
      for (let n = 0; n < 3; n++) replay.add(line(n, account, "GET"));
    }
    for (const env of ["production", "staging"]) {
      for (const cost of [1, 2]) replay.add({ ...line(9, "addr:::1", "GET"), env, cost });
    }
    for (const cost of [1, 2, 1]) replay.add({ ...line(10, "costly", "GET"), cost });
    assert.deepEqual(
      [...replay.tried()].map(({ account, limited }) => [account, limited]),
      [
        ["own", 2],
        ["two", 1],
        ["costly", 1],
      ],
    );
    assert.equal(replay.accounts, 6);
  });

  it("needs no line of a window that is only observed", async () => {
    const config = await configOf("{ minute: 1, observe: { month: 1 } }", "bans: off");
    const replay = new TrafficReplay({
      ...{ plans: config, environments: config.environments, accounts: [] },
    });
    replay.add(line(0, "acme", "GET"));
    assert.equal(replay.longest, "minute");
  });

  it("takes a line of an older version for decided when its request began", async () => {
    const config = await configOf("{ minute: 1, day: 1000 }", "bans: off");
    const ended = (atMs: number, durationMs: number) => {
      return { ...line(0, "acme", "GET"), time: START_MS + atMs, durationMs, decidedAt: undefined };
    };
    const limited = (second: LoggedRequest) => replayed(config, [ended(500, 0), second]).length;
    assert.deepEqual([limited(ended(60_500, 1_000)), limited(ended(60_500, 400))], [1, 0]);
  });

  it("names the plan that an account was on last", async () => {
    const config = await configOf("{ minute: 1, day: 1000 }", "bans: off");
    const lines = ["free", "free", "pro"].map((plan, n) => ({ ...line(n, "acme", "GET"), plan }));
    const [found] = replayed(config, lines);
    assert.deepEqual([found?.plan, found?.limited], ["pro", 1]);
  });

  it("counts the months of an account from its own anchor, and those of the others from the first", async () => {
    const config = await configOf("{ month: 1 }", "bans: off");
    const anchored = { calendar: [{ day: 15, fromMs: 0 }] };
    const accounts = ["plain", "anchored"].map((id) => ({
      ...{ id, environment: "production", plan: "free", limits: [], meta: {}, createdMs: 0 },
      ...(id === "anchored" && anchored),
    }));
    const replay = new TrafficReplay({
      ...{ plans: config, environments: config.environments, accounts },
    });
    for (const id of ["plain", "anchored"]) {
      for (const day of [0, 19]) replay.add(line(day * 86_400, id, "GET"));
    }
    assert.deepEqual(
      [...replay.tried()].map(({ account, limited }) => [account, limited]),
      [["plain", 1]],
    );
    assert.deepEqual(replay.calendars, [anchored.calendar]);
  });

  it("names five accounts that are on another plan now, and how many more there are", async () => {
    const config = await configOf("{ minute: 9, day: 1000 }", "bans: off");
    const left = (count: number) => {
      const ids = Array.from({ length: count }, (_, i) => `a${i}`);
      const replay = new TrafficReplay({
        plans: config,
        environments: config.environments,
        accounts: ids.map((id) => ({
          ...{ id, environment: "production", plan: "pro", limits: [], meta: {}, createdMs: 0 },
        })),
      });
      for (const [i, id] of ids.entries()) replay.add(line(i, id, "GET"));
      return replay.left();
    };
    const told = "these accounts are on another plan now: a0, a1, a2, a3, a4";
    assert.deepEqual(
      [left(5), left(6), left(8)],
      [[told], [`${told} and 1 more`], [`${told} and 3 more`]],
    );
  });
});
