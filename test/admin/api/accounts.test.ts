import assert from "node:assert/strict";
import { describe, it } from "vitest";
import type { KeyReport } from "../../../src/core/keys/record-reports.ts";
import { effectiveLimits, NO_RECORDS } from "../../../src/core/keys/records.ts";
import type { BanReport, UsageReport } from "../../../src/core/keys/usage-reports.ts";
import { each } from "../../support/each.ts";
import { startTestUpstream } from "../../support/gateway/backend.ts";
import { startRedis } from "../../support/redis/redis.ts";
import { type AdminHouse, NOON_MS, openAdminHouse } from "../admin-house.ts";

type Issued = KeyReport & { readonly key: string };
type Description = { readonly paths: Record<string, Record<string, { responses: object }>> };
type Problem = { readonly code: string; readonly message: string; readonly status: number };

const FREE = { environment: "production", plan: "free" };

describe("usage and bans", () => {
  it("tell what an account has used, by account or key, and charge nothing for it", async () => {
    await using house = await openAdminHouse();
    const { id, account } = await issueOn(house, "acme");
    await spend(house, account, 2);
    const minute = {
      window: "minute",
      limit: 3,
      used: 2,
      remaining: 1,
      reset: NOON_MS / 1000 + 50,
    };
    const day = {
      window: "day",
      limit: 100,
      used: 2,
      remaining: 98,
      reset: NOON_MS / 1000 + 43_190,
    };
    for (const name of [id, account, id]) {
      const got = await house.ask("GET", `/api/usage/${name}`);
      assert.deepEqual(got.json<UsageReport>(), {
        account,
        environment: "production",
        plan: "free",
        windows: [minute, day],
        strikes: 0,
        ban: null,
      });
    }
    assert.equal((await house.ask("GET", "/api/usage/nobody")).status, 404);
  });

  it("tell in the log of a ban when the store imposed it, however late the store's answer comes", async () => {
    await using house = await openAdminHouse();
    const { account } = await issueOn(house, "acme");
    const ban = house.quotas.ban.bind(house.quotas);
    const banLate: typeof ban = async (...args) => {
      const imposed = await ban(...args);
      house.clock.nowMs += 2_000;
      return imposed;
    };
    Object.assign(house.quotas, { ban: banLate });
    const banned = await house.ask("POST", "/api/bans", { body: { id: account, for: "1h" } });
    assert.equal(banned.status, 201);
    const [, told] = house.logged.map((line) => JSON.parse(line)).find(([name]) => name === "ban");
    assert.equal(told.decidedAt, NOON_MS);
  });

  it("list a ban, and lift it once, by account or key", async () => {
    await using house = await openAdminHouse();
    const { id, account } = await issueOn(house, "acme");
    assert.deepEqual((await house.ask("GET", "/api/bans")).json(), []);
    const none = await house.ask("DELETE", `/api/bans/${account}`);
    assert.deepEqual([none.status, none.json<Problem>().code], [404, "not_banned"]);
    for (const name of [account, id]) {
      await banned(house, account);
      const [ban] = (await house.ask("GET", "/api/bans")).json<BanReport[]>();
      assert.deepEqual([ban?.account, ban?.environment, ban?.offences], [account, "production", 1]);
      assert.equal(ban?.until, Math.ceil((house.clock.nowMs + 60_000) / 1000));
      const usage = (await house.ask("GET", `/api/usage/${name}`)).json<UsageReport>();
      assert.equal(usage.ban?.until, ban?.until);
      const longer = await house.ask("POST", "/api/bans", { body: { id: name, for: "1h" } });
      const until = Math.ceil((house.clock.nowMs + 3_600_000) / 1_000);
      assert.deepEqual(longer.json(), { account, environment: "production", until, offences: 1 });
      const lifted = await house.ask("DELETE", `/api/bans/${name}`);
      assert.deepEqual(lifted.json(), { account, environment: "production", lifted: true });
      assert.deepEqual((await house.ask("GET", "/api/bans")).json(), []);
    }
    assert.equal((await house.ask("DELETE", `/api/bans/${account}`)).status, 404);
    const unknown = await house.ask("DELETE", "/api/bans/nobody");
    assert.deepEqual([unknown.status, unknown.json<Problem>().code], [404, "unknown_id"]);
  });

  it("lift the ban of an account whose keys are gone", async () => {
    await using house = await openAdminHouse();
    const { account } = await issueOn(house, "acme");
    await banned(house, account);
    await house.keys.change(() => ({ records: NO_RECORDS, result: undefined }));
    assert.equal((await house.ask("DELETE", `/api/bans/${account}`)).status, 200);
  });
});

describe("an account", () => {
  it("whose plan is gone has neither usage nor counts, and says so by its name", async () => {
    await using house = await openAdminHouse();
    const { account } = await issueOn(house, "acme");
    (house.config.plans as Map<string, unknown>).delete("free");
    for (const path of ["usage", "counts", "bans"]) {
      const got = await house.ask("GET", `/api/${path}/${account}`);
      const { code, message } = got.json<Problem>();
      assert.deepEqual([got.status, code], [503, "plan_missing"], path);
      assert.equal(message, "The plan of account acme is not configured");
    }
  });

  it("without limits is named by a list of usage that is without it, unless the list is of others", async () => {
    await using house = await openAdminHouse();
    await issueOn(house, "acme");
    const missing = async (query: string) => {
      const { status, fields, json } = await house.ask("GET", `/api/usage${query}`);
      return [status, json<UsageReport[]>().length, fields["x-tollgate-missing"]];
    };
    assert.deepEqual(await missing(""), [200, 1, undefined]);
    (house.config.plans as Map<string, unknown>).delete("free");
    const named =
      "account acme: no limits are configured for the plan; add it or give another with `accounts set ID --plan OTHER`";
    for (const query of ["", "?top=5", "?plan=free", "?env=production", "?over=0"]) {
      assert.deepEqual(await missing(query), [200, 0, named], query);
    }
    for (const query of ["?over=1", "?plan=other", "?env=staging"]) {
      assert.deepEqual(await missing(query), [200, 0, undefined], query);
    }
    // Another gateway with the same records may serve the environment, and has the plan.
    const environments = house.config.environments as unknown[];
    const served = environments.splice(0);
    assert.deepEqual(await missing(""), [200, 0, undefined]);
    environments.push(...served);
    assert.deepEqual(await missing(""), [200, 0, named]);
    await house.ask("POST", "/api/keys/acme/revoke", { body: {} });
    assert.deepEqual(await missing(""), [200, 0, undefined], "a reload may drop the plan");
  });

  it("is shown with its keys by its ID or one of them, and by no part of an ID", async () => {
    await using house = await openAdminHouse();
    const { id, account } = await issueOn(house, "acme");
    for (const name of [account, id]) {
      const got = (await house.ask("GET", `/api/accounts/${name}`)).json();
      assert.deepEqual([got.account, got.keys], [account, [id]], name);
    }
    for (const part of [account.slice(0, -1), id.slice(0, -1)]) {
      const got = await house.ask("GET", `/api/accounts/${part}`);
      assert.deepEqual([got.status, got.json<Problem>().code], [404, "unknown_id"], part);
    }
  });

  it("that runs a month has a new anchor from the end of it", async () => {
    await using house = await openAdminHouse();
    const { account } = await issueOn(house, "acme");
    const got = await house.ask("PATCH", `/api/accounts/${account}`, { body: { anchor: 15 } });
    const { anchor, anchorFrom } = got.json();
    assert.deepEqual([anchor, anchorFrom], [15, Date.UTC(2026, 5, 1) / 1_000]);
  });

  it("has its month reset from its own first day on", async () => {
    await using house = await openAdminHouse();
    const terms = { ...FREE, account: "acme", limits: { month: 50 }, anchor: 15 };
    assert.equal((await house.ask("POST", "/api/keys", { body: terms })).status, 201);
    const [{ calendar = assert.fail() } = assert.fail()] = house.keys.records().accounts;
    const limits = [{ window: "month", limit: 50, calendar }] as const;
    const accountRef = { environment: "production", account: "acme" };
    await house.quotas.charge(accountRef, { limits, bans: undefined, requests: 3 });
    const got = await house.ask("POST", "/api/accounts/acme/reset");
    assert.deepEqual(got.json().windows, [{ window: "month", units: 3 }]);
  });

  it("has windows of known names alone to reset", async () => {
    await using house = await openAdminHouse();
    const { account } = await issueOn(house, "acme");
    const body = { windows: ["fortnight"] };
    const got = await house.ask("POST", `/api/accounts/${account}/reset`, { body });
    assert.deepEqual([got.status, got.json<Problem>().code], [400, "bad_request"]);
    assert.match(got.json<Problem>().message, /fortnight/);
  });
});

describe("a ban in a shared store", () => {
  it("is answered with the members that the pages name, and none of the store's", async () => {
    const redis = await startRedis();
    try {
      await using house = await openAdminHouse({ store: redis.url });
      const { account } = await issueOn(house, "acme");
      const banned = await house.ask("POST", "/api/bans", { body: { id: account, for: "1h" } });
      assert.equal(banned.status, 201);
      assert.deepEqual([banned.json()], (await house.ask("GET", "/api/bans")).json());
    } finally {
      await redis.close();
    }
  });
});

describe("a store that is away", () => {
  it("is 503 with Retry-After for what only it knows, and its password is not told", async () => {
    const closed = await startTestUpstream();
    await closed.close();
    const store = `redis://:canary-password@127.0.0.1:${closed.port}`;
    await using house = await openAdminHouse({ store });
    const { account } = await issueOn(house, "acme");
    const described = (await house.ask("GET", "/api/openapi.json")).json<Description>().paths;
    for (const [method, path] of each([
      ["GET", "/api/bans"],
      ["GET", "/api/bans/{id}"],
      ["POST", "/api/bans"],
      ["DELETE", "/api/bans/{id}"],
      ["GET", "/api/usage/{id}"],
      ["GET", "/api/counts/{id}"],
    ] as const)) {
      const body = method === "POST" ? { id: account, for: "1h" } : undefined;
      const got = await house.ask(method, path.replace("{id}", account), { body });
      assert.deepEqual([got.status, got.json<Problem>().code], [503, "store_unavailable"], path);
      assert.ok("503" in (described[path]?.[method.toLowerCase()]?.responses ?? {}), path);
      assert.equal(got.fields["retry-after"], "1");
    }
    const [key] = (await house.ask("GET", "/api/keys")).json<KeyReport[]>();
    assert.ok(key !== undefined && !("lastUsed" in key), "not known is not never");
    assert.equal((await house.ask("GET", "/livez")).status, 200);
    const config = await house.ask("GET", "/api/config");
    for (const text of [config.text, (await house.ask("GET", "/metrics")).text, ...house.logged]) {
      assert.equal(text.includes("canary-password"), false, text);
    }
  });
});

describe("the configuration", () => {
  it("is told with the active hash and without secrets", async () => {
    await using house = await openAdminHouse();
    const got = await house.ask("GET", "/api/config");
    assert.equal(got.status, 200);
    const told = got.json<{ hash: string; admin: { token: string }; plans: unknown }>();
    assert.equal(told.hash, house.config.hash);
    assert.equal(told.admin.token, "***");
    assert.deepEqual(told.plans, {
      free: { minute: 3, day: 100 },
      pro: { minute: 300, day: 10_000 },
      enterprise: "custom",
    });
  });

  it("is reloaded: 200 with the hash, 422 with every mistake, 409 for what needs a restart", async () => {
    await using house = await openAdminHouse();
    const { hash } = house.config;
    const done = await house.ask("POST", "/api/reload");
    assert.deepEqual([done.status, done.json()], [200, { hash }]);

    const mistakes = [{ file: "f.yaml", line: 3, column: 7, message: "unknown key" }];
    house.reloaded = async () => ({ ok: false, mistakes });
    const wrong = await house.ask("POST", "/api/reload", { body: {} });
    assert.equal(wrong.status, 422);
    assert.deepEqual(
      [wrong.json<Problem>().code, wrong.json<Problem>().status, wrong.json().mistakes],
      ["config_invalid", 422, mistakes],
    );
    assert.match(String(wrong.json().message), /stays in force: the new one has 1 mistake$/);
    house.reloaded = async () => ({ ok: false, mistakes: [...mistakes, ...mistakes] });
    const twice = await house.ask("POST", "/api/reload");
    assert.match(String(twice.json().message), /stays in force: the new one has 2 mistakes$/);

    const reasons = ["Cannot change store", "Cannot change keys"];
    house.reloaded = async () => ({ ok: false, mistakes: [], reasons });
    const refused = await house.ask("POST", "/api/reload");
    assert.deepEqual([refused.status, refused.json().reasons], [409, reasons]);
    assert.match(String(refused.json().message), /force: Cannot change store; Cannot change keys$/);
    house.reloaded = async () => ({ ok: false, mistakes: [], reasons, partly: true });
    const partly = await house.ask("POST", "/api/reload");
    assert.deepEqual([partly.status, partly.json().code], [500, "reload_incomplete"]);
    assert.deepEqual(partly.json().reasons, reasons);
    assert.match(
      String(partly.json().message),
      /^The new .* yet: Cannot change store; Cannot change keys$/,
    );
    assert.equal((await house.ask("POST", "/api/reload", { body: { x: 1 } })).status, 400);
  });
});

async function issueOn(house: AdminHouse, account: string): Promise<Issued> {
  const got = await house.ask("POST", "/api/keys", { body: { ...FREE, account } });
  return got.json<Issued>();
}

/** Asks the store itself, as the gateway does. */
async function spend(house: AdminHouse, account: string, times: number): Promise<void> {
  const { plans, bans } = house.config;
  const limits = effectiveLimits(plans.get("free") ?? "custom", []);
  for (let i = 0; i < times; i++) {
    await house.quotas.charge(
      { environment: "production", account },
      { limits, bans, requests: 1 },
    );
  }
}

/** One strike makes a ban here: fills the minute, is refused, waits for the grace, is refused. */
async function banned(house: AdminHouse, account: string): Promise<void> {
  house.clock.nowMs = Math.ceil(house.clock.nowMs / 60_000) * 60_000 + 1_000;
  await spend(house, account, 4);
  house.clock.nowMs += 1_500;
  await spend(house, account, 1);
}
