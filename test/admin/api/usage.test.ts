import assert from "node:assert/strict";
import { describe, it } from "vitest";
import type { CountReport, UsageReport } from "../../../src/core/keys/usage-reports.ts";
import { jsonOf, runVerb } from "../../cli/kit.ts";
import { startTestUpstream } from "../../support/gateway/backend.ts";
import {
  startTestGateway,
  type TestGateway,
  type TestGatewayOptions,
} from "../../support/gateway/house.ts";
import { eventually } from "../../support/poll.ts";
import { startRedis } from "../../support/redis/redis.ts";
import { awayFromHourEdge, sendRequest } from "../../support/wire/client.ts";

/** A noon that does not move: no window ends in the middle of a test. */
const NOON = Date.UTC(2026, 5, 1, 12);
const END_OF_MINUTE = NOON / 1_000 + 60;
const MIDNIGHT = Date.UTC(2026, 5, 2) / 1_000;

const API = `openapi: 3.1.0
info: { title: t, version: 1.0.0 }
paths:
  /reports:
    post: { operationId: report, x-cost: 5, x-limits: { minute: 20, day: 50 }, responses: {} }
    get: { operationId: list, security: [], responses: {} }
  /status:
    get: { operationId: status, security: [], x-limits: { minute: 4 }, responses: {} }
`;

const WATCHED: TestGatewayOptions = {
  now: () => NOON,
  api: "./api.yaml",
  files: { "api.yaml": API },
  environment: { standing: "/v1/_limits" },
  config: { plans: { free: { minute: 60, day: 100, observe: { minute: 7, hour: 9 } } } },
};

const EXPECTED: readonly UsageReport["windows"][number][] = [
  { window: "minute", limit: 60, used: 11, remaining: 49, reset: END_OF_MINUTE },
  { window: "report.minute", limit: 20, used: 10, remaining: 10, reset: END_OF_MINUTE },
  { window: "day", limit: 100, used: 11, remaining: 89, reset: MIDNIGHT },
  { window: "report.day", limit: 50, used: 10, remaining: 40, reset: MIDNIGHT },
];
const OBSERVED: UsageReport["observed"] = [
  { window: "minute", limit: 7, used: 11, remaining: 0, reset: END_OF_MINUTE },
  { window: "hour", limit: 9, used: 11, remaining: 0, reset: NOON / 1_000 + 3_600 },
];

async function usageOf(house: TestGateway, id: string): Promise<UsageReport> {
  const response = await house.admin(`/api/usage/${encodeURIComponent(id)}`);
  assert.equal(response.status, 200, await response.clone().text());
  return (await response.json()) as UsageReport;
}

async function useUp(
  house: TestGateway,
): Promise<{ readonly key: string; readonly account: string }> {
  const issued = await house.issue();
  const { key } = issued;
  for (let i = 0; i < 2; i++) {
    const post = { key, method: "POST", path: "/v1/reports", body: "{}" };
    assert.equal((await sendRequest(house.port, post)).status, 200);
  }
  assert.equal((await sendRequest(house.port, { key, path: "/v1/reports" })).status, 200);
  return issued;
}

describe("usage of an account", () => {
  it("lists the windows of operations that count something, and apart from them what is observed", async () => {
    await using house = await startTestGateway(WATCHED);
    const { account, key } = await useUp(house);
    const usage = await usageOf(house, account);
    assert.deepEqual([usage.windows, usage.observed], [EXPECTED, OBSERVED]);
    const standing = await sendRequest(house.port, { key, path: "/v1/_limits" });
    assert.deepEqual(JSON.parse(standing.body.toString()), { ...usage, deprecated: [] });
    const all = (await (await house.admin("/api/usage")).json()) as UsageReport[];
    assert.deepEqual(all, [usage]);

    const reset = await house.admin(`/api/accounts/${account}/reset`, {
      method: "POST",
      body: JSON.stringify({ windows: ["report.minute"] }),
    });
    const { windows } = (await reset.json()) as { windows: unknown };
    assert.deepEqual(windows, [{ window: "report.minute", units: 10 }]);
    const names = (await usageOf(house, account)).windows.map(({ window }) => window);
    assert.deepEqual(names, ["minute", "day", "report.day"]);
  });

  it("has in the counts of the account alone what the list of counts has: when it was created, and the caps of every key", async () => {
    await using house = await startTestGateway(WATCHED);
    const one = await house.issue({ account: "shop", caps: { day: 3 } });
    const two = await house.issue({ account: "shop", caps: { hour: 5 } });
    await house.issue({ account: "other", caps: { minute: 5 } });
    assert.equal((await house.ask(one.key, "/v1/reports")).status, 200);
    const read = async (path: string) => {
      return (await (await house.admin(path)).json()) as readonly CountReport[] & CountReport;
    };
    const listed = (await read("/api/counts")).find(({ account }) => account === "shop");
    assert.ok(listed !== undefined);
    const capped = listed.windows.filter(({ keys }) => keys !== undefined);
    assert.deepEqual(
      [listed.created, capped.map(({ window, used }) => [window, used])],
      [
        NOON,
        [
          [`key.hour of ${two.id}`, 0],
          [`key.day of ${one.id}`, 1],
        ],
      ],
    );
    for (const id of ["shop", one.id, two.id]) {
      assert.deepEqual(await read(`/api/counts/${id}`), listed, id);
    }
  });

  it.each(["memory", "redis"])(
    "is reset by the name of a cap, of one key or of all keys of the account, with %s",
    async (store) => {
      const redis = store === "memory" ? undefined : await startRedis();
      try {
        // The clock of Redis moves: the windows of a year hardly end in the middle of a test.
        const config = { plans: { free: { year: 100 } }, ...(redis && { store: redis.url }) };
        const { now: _, ...moving } = WATCHED;
        await using house = await startTestGateway({ ...moving, config });
        const one = await house.issue({ account: "shop", caps: { year: 2 } });
        const two = await house.issue({ account: "shop", caps: { year: 5 } });
        const bare = await house.issue({ account: "bare" });
        const spend = async (key: string) => (await house.ask(key, "/v1/reports")).status;
        const spent = [await spend(one.key), await spend(one.key), await spend(one.key)];
        assert.deepEqual([spent, await spend(two.key)], [[200, 200, 429], 200]);
        const run = async (...args: string[]) => {
          const by = redis === undefined ? ["--admin", house.adminUrl] : [];
          return runVerb(["accounts", "reset", ...args, ...by, "--json", "--config", house.file]);
        };
        const name = ["--window", "key.year"];
        const ofOne = jsonOf<{ windows: unknown }>(await run(one.id, ...name));
        assert.deepEqual(ofOne.windows, [{ window: "key.year", units: 2 }]);
        await eventually(async () => (await spend(one.key)) === 200);
        const post = { method: "POST", body: JSON.stringify({ windows: ["key.year"] }) };
        const ofAll = await (await house.admin("/api/accounts/shop/reset", post)).json();
        assert.deepEqual(ofAll, {
          ...{ account: "shop", environment: "production" },
          windows: [1, 1].map((units) => ({ window: "key.year", units })),
        });
        const logged = house.said.findLast(({ msg, resetAt }) => {
          return msg === "account_reset" && resetAt === undefined;
        })?.windows;
        assert.deepEqual(
          new Set((logged as { keys: string[] }[]).flatMap(({ keys }) => keys)),
          new Set([one.id, two.id]),
        );
        const usage = (await usageOf(house, two.id)).windows.map(({ window, used }) => [
          window,
          used,
        ]);
        assert.deepEqual(Object.fromEntries(usage), { year: 4, "key.year": 0 });
        const none = await run(bare.id, ...name);
        assert.equal(none.status, 64);
        assert.match(none.err, /Unknown window "key\.year": expected second, minute/);
      } finally {
        await redis?.close();
      }
    },
  );

  it("is the same with Redis, asked by a command; a plan that observes nothing has no such member", async () => {
    const redis = await startRedis();
    try {
      // The clock of Redis moves: the windows of a month end at one time for all.
      const plans = { free: { month: 100, observe: { month: 7 } }, pro: { month: 10 } };
      const api = API.replace("minute: 20, day: 50", "month: 50");
      const config = { plans, store: redis.url };
      const { now: _, ...rest } = WATCHED;
      await using house = await startTestGateway({ ...rest, config, files: { "api.yaml": api } });
      const { account } = await useUp(house);
      const plain = await house.issue({ plan: "pro" });
      const run = async (...args: string[]) => {
        const said = await runVerb([...args, "--json", "--config", house.file]);
        assert.equal(said.status, 0, said.err);
        return jsonOf<UsageReport>(said);
      };
      const usage = await run("usage", account);
      assert.deepEqual(
        usage.windows.map(({ window, used, limit }) => [window, used, limit]),
        [
          ["month", 11, 100],
          ["report.month", 10, 50],
        ],
      );
      assert.deepEqual(
        usage.observed?.map(({ window, used, limit }) => [window, used, limit]),
        [["month", 11, 7]],
      );
      assert.deepEqual(usage, await usageOf(house, account));
      assert.ok(!("observed" in (await run("usage", plain.account))));
      const text = await runVerb(["usage", account, "--config", house.file]);
      assert.match(text.out, /^report\.month +10 +50 +40 /m);
      assert.match(text.out, /^month +11 +7 .*observed/m);
    } finally {
      await redis.close();
    }
  });
});

describe("an address without a key", () => {
  const ADDRESS = "addr:127.0.0.1";

  /** Production and staging, both with public operations. */
  async function openTwo(store: string, more: TestGatewayOptions = {}) {
    const backend = await startTestUpstream();
    const environment = (keyTag: string, access: object = { public: "open" }) => ({
      ...{ listen: "127.0.0.1:0", keyTag, api: "./api.yaml", upstreams: [backend.origin] },
      ...access,
      basePath: "/v1",
    });
    const environments = {
      production: environment("live"),
      staging: environment("test"),
      closed: environment("none", {}),
    };
    const plans = { free: { minute: 60 }, open: { hour: 100 } };
    const house = await startTestGateway({
      ...more,
      backend,
      files: { "api.yaml": API },
      config: {
        environments,
        plans,
        store,
        trustedProxies: ["127.0.0.1"],
        admin: { listen: "127.0.0.1:0" },
      },
    });
    const visit = async (name: "production" | "staging", client = "127.0.0.1") => {
      const headers = { "X-Forwarded-For": client };
      const response = await fetch(`${house.gateway.urls[name]}/v1/status`, { headers });
      assert.equal(response.status, 200);
      await response.arrayBuffer();
    };
    return { house, visit };
  }

  it("is found in the only environment that counts it; where two do, one has to be named", async () => {
    const { house, visit } = await openTwo("memory", { now: () => NOON });
    await using _ = house;
    const path = `/api/usage/${encodeURIComponent(ADDRESS)}`;
    const of = async (query: string) => {
      const response = await house.admin(`${path}${query}`);
      return { status: response.status, body: (await response.json()) as Record<string, unknown> };
    };
    assert.equal((await of("")).body.environment, "production", "nothing is counted anywhere");
    for (let i = 0; i < 2; i++) await visit("staging");
    assert.equal((await of("")).body.environment, "staging");
    await visit("production");
    const both = await of("");
    assert.equal(both.status, 400);
    assert.match(String(both.body.message), /in production and staging: name one with --env/);
    const asked = await runVerb(["usage", ADDRESS, "--admin", house.adminUrl]);
    assert.deepEqual([asked.status, asked.out], [64, ""]);
    assert.match(asked.err, /in production and staging: name one with --env/);
    const bans = `/api/bans/${encodeURIComponent(ADDRESS)}`;
    assert.equal((await house.admin(bans)).status, 400);
    const why = await (await house.admin(`${bans}?env=staging`)).json();
    assert.equal((why as UsageReport).environment, "staging");
    const staging = (await of("?env=staging")).body as unknown as UsageReport;
    assert.deepEqual(
      staging.windows.map(({ window, used }) => [window, used]),
      [
        ["status.minute", 2],
        ["hour", 2],
      ],
    );
    const counts = await house.admin(`${path.replace("usage", "counts")}?env=staging`);
    assert.equal(((await counts.json()) as CountReport).created, null, "it has no record");
    assert.equal((await of("?env=closed")).status, 404);
    const { account } = await house.issue();
    const at = (env: string) => house.admin(`/api/usage/${account}?env=${env}`);
    assert.deepEqual([(await at("production")).status, (await at("staging")).status], [200, 404]);
    const listed = async (env: string) => {
      const all = await (await house.admin(`/api/usage?env=${env}`)).json();
      return (all as UsageReport[]).map((one) => one.account);
    };
    assert.deepEqual([await listed("production"), await listed("staging")], [[account], []]);
    const reset = `/api/accounts/${encodeURIComponent(ADDRESS)}/reset`;
    const post = { method: "POST", body: "{}" };
    assert.equal((await house.admin(reset, post)).status, 400);
    const done = await house.admin(`${reset}?env=production`, post);
    assert.equal(((await done.json()) as UsageReport).environment, "production");
    assert.equal((await of("")).body.environment, "staging", "production counts nothing any more");
  });

  it("is found in any spelling, of IPv6 by each address of the /64, and no other text is an account", async () => {
    const { house, visit } = await openTwo("memory", { now: () => NOON });
    await using _ = house;
    const of = (id: string) => house.admin(`/api/usage/${encodeURIComponent(id)}?env=production`);
    const spellings: readonly [client: string, account: string, ids: readonly string[]][] = [
      ["::1", "addr:0:0:0:0::/64", ["addr:::1", "addr:::/64", "addr:0:0:0:0::/64"]],
      [
        "2001:db8:5:6:1::1",
        "addr:2001:db8:5:6::/64",
        ["addr:2001:DB8:5:6::", "addr:2001:0db8:0005:0006:7::/64", "addr:2001:db8:5:6:1::1"],
      ],
      ["192.0.2.9", "addr:192.0.2.9", ["addr:::ffff:192.0.2.9", "addr:::FFFF:c000:209"]],
      ["64:ff9b::c000:20a", "addr:192.0.2.10", ["addr:64:ff9b::192.0.2.10", "addr:192.0.2.10"]],
      ["64:ff9b::1:0:0", "addr:64:ff9b:0:0::/64", ["addr:64:FF9B::/64", "addr:64:ff9b::9:0:0"]],
    ];
    const told: unknown[] = [];
    for (const [client, account, ids] of spellings) {
      await visit("production", client);
      for (const id of ids) {
        const report = (await (await of(id)).json()) as UsageReport;
        told.push([id, report.account, report.windows?.map(({ used }) => used)]);
      }
      const post = { method: "POST", body: "{}" };
      const reset = `/api/accounts/${encodeURIComponent(ids[0] as string)}/reset?env=production`;
      assert.equal((await house.admin(reset, post)).status, 200);
      const after = (await (await of(account)).json()) as UsageReport;
      told.push([account, after.windows.map(({ used }) => used)]);
    }
    const expected = spellings.flatMap(([, account, ids]) => {
      return [...ids.map((id) => [id, account, [1, 1]]), [account, [0]]];
    });
    assert.deepEqual(told, expected);
    const nothing = ["foo", "", "192.0.2.9/8", "192.0.2.9/64", "2001:db8:5:6::/48", "OTHER"];
    const statuses = nothing.map(async (text) => (await of(`addr:${text}`)).status);
    assert.deepEqual(await Promise.all(statuses), Array(nothing.length).fill(404));
    assert.equal((await of("addr:other")).status, 200);
  });

  it("is told as one that has no history, and that is not banned but denied, and not as an unknown ID", async () => {
    await using house = await startTestGateway({ config: { history: "1d" } });
    const said = async (...args: string[]) => {
      const { status, out, err } = await runVerb([...args, "--admin", house.adminUrl]);
      assert.deepEqual([status, out], [1, ""]);
      return err.trimEnd();
    };
    const noHistory =
      "Addresses have no history: `usage ID` without --days and --month tells the running windows of one";
    const notBanned =
      "Addresses are not banned: `deny` of an environment refuses one, and the limits of its `public` plan hold for each";
    assert.equal(await said("usage", ADDRESS, "--days", "2"), noHistory);
    assert.equal(await said("bans", "add", ADDRESS, "--for", "1h"), notBanned);
    assert.equal(await said("bans", "lift", ADDRESS), notBanned);
    assert.equal(await said("bans", "why", ADDRESS), notBanned);
    const body = JSON.stringify({ id: ADDRESS, for: "1h" });
    for (const [path, how, told] of [
      [`/api/history?account=${ADDRESS}&days=2`, {}, noHistory],
      ["/api/bans", { method: "POST", body }, notBanned],
      [`/api/bans/${ADDRESS}`, { method: "DELETE" }, notBanned],
    ] as const) {
      const response = await house.admin(path, how);
      const { code, message } = (await response.json()) as Record<string, unknown>;
      assert.deepEqual([response.status, code, message], [404, "unknown_id", told]);
    }
  });

  it("is found so by commands too, and refused with 64 where it is not clear", async () => {
    const redis = await startRedis();
    try {
      const { house, visit } = await openTwo(redis.url);
      await using _ = house;
      const run = (...args: string[]) => runVerb([...args, "--json", "--config", house.file]);
      await awayFromHourEdge();
      await visit("staging");
      assert.equal(jsonOf(await run("usage", ADDRESS)).environment, "staging");
      await visit("production");
      for (const verb of [["usage"], ["accounts", "reset"]]) {
        const unclear = await run(...verb, ADDRESS);
        assert.deepEqual([unclear.status, unclear.out], [64, ""]);
        assert.match(unclear.err, /has counts in production and staging: name one with --env/);
        const strange = await run(...verb, ADDRESS, "--env", "moon");
        assert.deepEqual([strange.status, strange.out], [64, ""]);
        const none = await run(...verb, ADDRESS, "--env", "closed");
        assert.deepEqual([none.status, none.out], [1, ""]);
        assert.match(none.err, /Cannot find "addr:127\.0\.0\.1" in closed/);
        const named = await run(...verb, ADDRESS, "--env", "staging");
        assert.equal(jsonOf(named).environment, "staging");
      }
      assert.equal(jsonOf(await run("usage", ADDRESS)).environment, "production");
      await visit("production", "2001:db8::7");
      await visit("staging", "2001:db8::8");
      const unclear = await run("usage", "addr:2001:DB8::9");
      assert.match(unclear.err, /addr:2001:db8:0:0::\/64 has counts in production and staging/);
      await run("accounts", "reset", "addr:2001:db8::9", "--env", "staging");
      const left = await run("usage", "addr:2001:db8::9");
      assert.equal(jsonOf(left).environment, "production", "staging counts nothing any more");
      const strange = await run("usage", "addr:foo", "--env", "staging");
      assert.deepEqual([strange.status, strange.out], [1, ""]);
      assert.match(strange.err, /Cannot find "addr:foo" in staging/);
    } finally {
      await redis.close();
    }
  });
});
