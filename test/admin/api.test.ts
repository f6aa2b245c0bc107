import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { digestKey, judgeShape, limitsOf } from "../../src/core/key.ts";
import type { BanReport, KeyReport, UsageReport } from "../../src/core/report.ts";
import { type AdminHouse, NOON_MS, openAdminHouse, TOKEN } from "./admin-house.ts";

type Issued = KeyReport & { readonly key: string };
type Problem = { readonly code: string; readonly message: string; readonly status: number };

const FREE = { environment: "production", plan: "free" };

describe("POST /api/keys", () => {
  it("issues a key that works at once, and tells it this once", async () => {
    await using house = await openAdminHouse();
    const got = await house.ask("POST", "/api/keys", { body: FREE });
    assert.equal(got.status, 201);
    const issued = got.json<Issued>();
    assert.deepEqual(Object.keys(issued).slice(0, 2), ["id", "key"]);
    assert.deepEqual(
      [issued.plan, issued.environment, issued.account, issued.expires],
      ["free", "production", issued.id, null],
    );
    assert.equal(judgeShape(issued.key, "pets", "live").ok, true);
    assert.equal(house.keys.find(digestKey(issued.key))?.id, issued.id);
    const listed = await house.ask("GET", "/api/keys");
    assert.deepEqual(
      listed.json<KeyReport[]>().map(({ id }) => id),
      [issued.id],
    );
    assert.equal(listed.text.includes(issued.key), false);
    assert.equal(listed.text.includes(digestKey(issued.key)), false);
  });

  it("takes every member that the command line has an option for", async () => {
    await using house = await openAdminHouse();
    const wanted = { environment: "staging", plan: "enterprise", name: "Ada", account: "acme" };
    const more = { expires: "90d", limits: { day: 9, minute: 5 }, scopes: ["beta"] };
    const got = await house.ask("POST", "/api/keys", { body: { ...wanted, ...more } });
    assert.equal(got.status, 201, got.text);
    const { id, key, ...rest } = got.json<Issued>();
    assert.ok(id.length > 0 && key.startsWith("pets_test_"));
    assert.deepEqual(rest, {
      ...wanted,
      scopes: ["beta"],
      limits: { minute: 5, day: 9 },
      created: NOON_MS / 1000,
      expires: NOON_MS / 1000 + 90 * 86_400,
      revoked: null,
    });
  });

  it("answers an array when a count was given, of one too", async () => {
    await using house = await openAdminHouse();
    for (const count of [1, 3]) {
      const got = await house.ask("POST", "/api/keys", { body: { ...FREE, count } });
      const issued = got.json<Issued[]>();
      assert.equal(new Set(issued.map(({ key }) => key)).size, count);
    }
    assert.equal(house.keys.list().length, 4);
  });

  it("refuses what is not one strict JSON object, with all its mistakes, and issues nothing", async () => {
    await using house = await openAdminHouse();
    const bodies: readonly unknown[] = [
      ...["", "{", "[]", "null", "1", '"x"', "{}x", "\u0000", "{'a':1}"],
      ...[{}, { environment: "production" }, { ...FREE, plan: 1 }, { ...FREE, surprise: 1 }],
      ...[
        { ...FREE, name: null },
        { ...FREE, expires: 90 },
        { ...FREE, expires: "soon" },
      ],
      ...[
        { ...FREE, limits: [] },
        { ...FREE, limits: null },
        { ...FREE, limits: { minute: "5" } },
      ],
      ...[
        { ...FREE, scopes: "beta" },
        { ...FREE, scopes: [1] },
        { ...FREE, count: "2" },
      ],
      '{"environment":"production","plan":"free","__proto__":{"count":2}}',
    ];
    for (const body of bodies) {
      const got = await house.ask("POST", "/api/keys", { body });
      assert.equal(got.status, 400, JSON.stringify(body));
      assert.equal(got.json<Problem>().code, "bad_request");
    }
    const broken = Buffer.from(
      '{"environment":"production","plan":"free","name":"\xff"}',
      "latin1",
    );
    assert.equal((await postBytes(house, broken)).status, 400);
    const all = await house.ask("POST", "/api/keys", { body: { plan: 1, more: 1, name: 2 } });
    const { message } = all.json<Problem>();
    for (const name of ["environment", "plan", "more", "name"])
      assert.ok(message.includes(`"${name}"`));
    assert.equal(house.keys.list().length, 0);
  });

  it("refuses what the keyring refuses: 400 for what can never be, 409 for what cannot be now", async () => {
    await using house = await openAdminHouse();
    const wrong = [
      { ...FREE, environment: "nowhere" },
      { ...FREE, plan: "gold" },
      { ...FREE, plan: "enterprise" },
      { ...FREE, limits: { fortnight: 1 } },
      { ...FREE, limits: { minute: 0 } },
      { ...FREE, limits: { minute: 1.5 } },
      { ...FREE, account: "a b" },
      { ...FREE, name: "x\n" },
      { ...FREE, count: 0 },
      { ...FREE, count: 1_001 },
      { ...FREE, expires: "0s" },
    ];
    for (const body of wrong) {
      const got = await house.ask("POST", "/api/keys", { body });
      assert.equal(got.status, 400, JSON.stringify(body));
    }
    const first = await house.ask("POST", "/api/keys", { body: { ...FREE, account: "acme" } });
    assert.equal(first.status, 201);
    const other = await house.ask("POST", "/api/keys", {
      body: { ...FREE, plan: "pro", account: "acme" },
    });
    assert.deepEqual([other.status, other.json<Problem>().code], [409, "conflict"]);
    assert.equal(house.keys.list().length, 1);
  });

  it("loses none of 40 sent at once", async () => {
    await using house = await openAdminHouse();
    const answers = await Promise.all(
      Array.from({ length: 40 }, () => house.ask("POST", "/api/keys", { body: FREE })),
    );
    const ids = answers.map((got) => got.json<Issued>().id);
    assert.deepEqual(
      answers.map(({ status }) => status),
      Array(40).fill(201),
    );
    assert.deepEqual(
      house.keys
        .list()
        .map(({ id }) => id)
        .sort(),
      ids.sort(),
    );
  });
});

describe("the keys that there are", () => {
  it("are shown by their ID, or all of an account", async () => {
    await using house = await openAdminHouse();
    const body = { ...FREE, account: "acme", count: 2 };
    const [first, second] = (await house.ask("POST", "/api/keys", { body })).json<Issued[]>();
    const one = (await house.ask("GET", `/api/keys/${first?.id}`)).json<KeyReport>();
    assert.equal(one.id, first?.id);
    const both = (await house.ask("GET", "/api/keys/acme")).json<KeyReport[]>();
    assert.deepEqual(
      both.map(({ id }) => id),
      [first?.id, second?.id],
    );
    for (const id of ["nobody", "..", "a%20b", "x".repeat(65)]) {
      assert.equal((await house.ask("GET", `/api/keys/${id}`)).status, 404, id);
    }
  });

  it("rotate with a grace of 24 hours unless told, and only once", async () => {
    await using house = await openAdminHouse();
    const graces = [
      [{}, 86_400],
      [{ grace: "10m" }, 600],
      [{ grace: "0s" }, 0],
    ] as const;
    for (const [body, graceSeconds] of graces) {
      const old = (await house.ask("POST", "/api/keys", { body: FREE })).json<Issued>();
      const got = await house.ask("POST", `/api/keys/${old.id}/rotate`, { body });
      assert.equal(got.status, 200, got.text);
      const next = got.json<Issued & { previous: KeyReport }>();
      assert.equal(next.account, old.account);
      assert.notEqual(next.id, old.id);
      assert.equal(house.keys.find(digestKey(next.key))?.id, next.id);
      assert.equal(next.previous.expires, NOON_MS / 1000 + graceSeconds);
      assert.equal(got.text.includes(old.key), false);
      const again = await house.ask("POST", `/api/keys/${old.id}/rotate`);
      assert.equal(again.status, 409);
    }
    assert.equal((await house.ask("POST", "/api/keys/nobody/rotate")).status, 404);
    for (const body of [{ grace: 5 }, { grace: "soon" }, { graze: "1h" }, { grace: "999999d" }]) {
      const { id } = (await house.ask("POST", "/api/keys", { body: FREE })).json<Issued>();
      const got = await house.ask("POST", `/api/keys/${id}/rotate`, { body });
      assert.equal(got.status, 400, JSON.stringify(body));
    }
  });

  it("revoke at once, twice if asked, and refuse members that mean nothing", async () => {
    await using house = await openAdminHouse();
    const { id } = (await house.ask("POST", "/api/keys", { body: FREE })).json<Issued>();
    assert.equal(
      (await house.ask("POST", `/api/keys/${id}/revoke`, { body: { x: 1 } })).status,
      400,
    );
    assert.equal(house.keys.list()[0]?.revokedMs, undefined);
    for (const body of [undefined, {}]) {
      const got = await house.ask("POST", `/api/keys/${id}/revoke`, { body });
      assert.equal(got.status, 200);
      assert.equal(got.json<KeyReport>().revoked, NOON_MS / 1000);
    }
    assert.equal(house.keys.list()[0]?.revokedMs, NOON_MS);
    const unknown = await house.ask("POST", "/api/keys/nobody/revoke");
    assert.deepEqual([unknown.status, unknown.json<Problem>().code], [404, "unknown_id"]);
  });
});

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
    await house.keys.change(() => ({ records: [], result: undefined }));
    assert.equal((await house.ask("DELETE", `/api/bans/${account}`)).status, 200);
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

    const reasons = ["Cannot change store"];
    house.reloaded = async () => ({ ok: false, mistakes: [], reasons });
    const refused = await house.ask("POST", "/api/reload");
    assert.deepEqual([refused.status, refused.json().reasons], [409, reasons]);
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
  const limits = limitsOf(plans.get("free") ?? "custom", []);
  for (let i = 0; i < times; i++) {
    await house.quotas.spend({ environment: "production", account }, { limits, bans, units: 1 });
  }
}

/** One strike makes a ban here: fills the minute, is refused, waits for the grace, is refused. */
async function banned(house: AdminHouse, account: string): Promise<void> {
  house.clock.nowMs = Math.ceil(house.clock.nowMs / 60_000) * 60_000 + 1_000;
  await spend(house, account, 4);
  house.clock.nowMs += 1_500;
  await spend(house, account, 1);
}

function postBytes(house: AdminHouse, body: Buffer): Promise<Response> {
  return fetch(`${house.url}/api/keys`, {
    method: "POST",
    body: new Uint8Array(body),
    headers: { "Content-Type": "application/json", Authorization: `Bearer ${TOKEN}` },
  });
}
