import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { describe, it } from "vitest";
import { checkKeyFormat, digestKey, makeKey } from "../../../src/core/keys/key.ts";
import type { KeyReport } from "../../../src/core/keys/record-reports.ts";
import { runVerb } from "../../cli/kit.ts";
import { type AdminHouse, NOON_MS, openAdminHouse, TOKEN } from "../admin-house.ts";

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
      ["free", "production", issued.account, null],
    );
    assert.equal(checkKeyFormat(issued.key, "pets", "live").ok, true);
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
    const more = { expires: "90d", limits: { day: 9, minute: 5 }, caps: { week: 4, day: 2 } };
    const got = await house.ask("POST", "/api/keys", {
      body: { ...wanted, ...more, scopes: ["beta"] },
    });
    assert.equal(got.status, 201, got.text);
    const { id, key, ...rest } = got.json<Issued>();
    assert.ok(id.length > 0 && key.startsWith("pets_test_"));
    assert.deepEqual(rest, {
      ...wanted,
      from: [],
      scopes: ["beta"],
      limits: { minute: 5, day: 9 },
      caps: { day: 2, week: 4 },
      created: NOON_MS / 1000,
      expires: NOON_MS / 1000 + 90 * 86_400,
      revoked: null,
    });
  });

  it("takes environment and plan of an account that exists from it", async () => {
    await using house = await openAdminHouse();
    await house.ask("POST", "/api/keys", { body: { ...FREE, account: "acme" } });
    const got = await house.ask("POST", "/api/keys", { body: { account: "acme" } });
    assert.equal(got.status, 201, got.text);
    const { account, environment, plan } = got.json<Issued>();
    assert.deepEqual({ account, environment, plan }, { account: "acme", ...FREE });
  });

  it("issues no key of an account without limits, which could only be answered 503, while other changes are made", async () => {
    await using house = await openAdminHouse();
    const made = await house.ask("POST", "/api/keys", { body: { ...FREE, account: "acme" } });
    const { id } = made.json<Issued>();
    const plans = house.config.plans as Map<string, unknown>;
    const free = plans.get("free");
    const issue = () => house.ask("POST", "/api/keys", { body: { account: "acme", count: 2 } });
    for (const lacking of [undefined, "custom"]) {
      if (lacking === undefined) plans.delete("free");
      else plans.set("free", lacking);
      const got = await issue();
      const { code, message } = got.json<Problem>();
      assert.deepEqual([got.status, code], [400, "bad_request"], got.text);
      assert.equal(
        message,
        "Cannot issue a key of the account acme: no limits are configured for its plan free; add it, or move the account first with `accounts set acme --plan OTHER`",
      );
    }
    assert.equal(house.keys.records().keys.length, 1);
    const named = await house.ask("PATCH", `/api/keys/${id}`, { body: { name: "Ada" } });
    const rotated = await house.ask("POST", `/api/keys/${id}/rotate`, { body: { grace: "0s" } });
    assert.deepEqual([named.status, rotated.status], [200, 200], "a known key can be replaced");
    plans.set("free", free);
    assert.equal((await issue()).status, 201);
  });

  it("answers an array when a count was given, of one too", async () => {
    await using house = await openAdminHouse();
    for (const count of [1, 3]) {
      const got = await house.ask("POST", "/api/keys", { body: { ...FREE, count } });
      const issued = got.json<Issued[]>();
      assert.equal(new Set(issued.map(({ key }) => key)).size, count);
    }
    assert.equal(house.keys.records().keys.length, 4);
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
    assert.equal(house.keys.records().keys.length, 0);
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
    assert.equal(house.keys.records().keys.length, 1);
  });

  it("is 503 when the key file is damaged, and leaves the file as it was", async () => {
    await using house = await openAdminHouse();
    const { keys } = house.config;
    assert.ok(keys.in === "file");
    await house.ask("POST", "/api/keys", { body: FREE });
    await writeFile(keys.path, "{ damaged");
    const got = await house.ask("POST", "/api/keys", { body: FREE });
    assert.deepEqual([got.status, got.json<Problem>().code], [503, "store_unavailable"]);
    assert.equal(got.fields["retry-after"], "1");
    assert.equal(await readFile(keys.path, "utf8"), "{ damaged");
    assert.equal(house.keys.records().keys.length, 1);
    assert.ok(house.logged.some((line) => /"keys_unchanged",\{"why":"[^"]/.test(line)));
  });

  it("is 409 in words where a damaged record has the ID, and issues others", async () => {
    await using house = await openAdminHouse();
    const { keys } = house.config;
    assert.ok(keys.in === "file");
    await house.ask("POST", "/api/keys", { body: FREE });
    const file = JSON.parse(await readFile(keys.path, "utf8"));
    const account = { ...file.accounts[0], id: "dmg" };
    file.accounts.push({ ...account, plan: 7 });
    await writeFile(keys.path, JSON.stringify(file));
    await house.keys.refresh();
    const records = [{ record: "account", ...account }];
    const message = "Cannot use the ID dmg: the record that has it is damaged, repair it";
    for (const [path, body] of [
      ["/api/keys", { ...FREE, account: "dmg" }],
      ["/api/keys/import", { records, dryRun: true }],
      ["/api/keys/import", { records }],
    ] as const) {
      const got = await house.ask("POST", path, { body });
      const problem = got.json<Problem>();
      assert.deepEqual(
        [got.status, problem.code, problem.message],
        [409, "conflict", message],
        path,
      );
    }
    const args = [
      "--account",
      "dmg",
      "--env",
      "production",
      "--plan",
      "free",
      "--admin",
      house.url,
    ];
    const said = await runVerb(["keys", "create", ...args], {
      env: { TOLLGATE_ADMIN_TOKEN: TOKEN },
    });
    assert.deepEqual([said.status, said.err.endsWith(`${message}\n`)], [1, true], said.err);
    assert.equal((await house.ask("POST", "/api/keys", { body: FREE })).status, 201);
  });

  it("is 409 in words where a damaged key of the account has the number of its caps", async () => {
    await using house = await openAdminHouse();
    const { keys } = house.config;
    assert.ok(keys.in === "file");
    const first = (await house.ask("POST", "/api/keys", { body: FREE })).json<Issued>();
    const file = JSON.parse(await readFile(keys.path, "utf8"));
    const caps = { number: 0, limits: { day: 5 } };
    file.keys.push({ ...file.keys[0], id: "k_dmg", digest: "0".repeat(64), name: 7, caps });
    await writeFile(keys.path, JSON.stringify(file));
    await house.keys.refresh();
    const body = { ...FREE, account: first.account, caps: { day: 5 } };
    const got = await house.ask("POST", "/api/keys", { body });
    const { code, message } = got.json<Problem>();
    assert.deepEqual([got.status, code], [409, "conflict"]);
    assert.match(
      message,
      /^Cannot use the cap number of key k_\w+: the record that has it is damaged, repair it$/,
    );
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
        .records()
        .keys.map(({ id }) => id)
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
    for (const [id, code, message] of [
      ["nobody", "unknown_id", "No key or account has this ID"],
      ["..", "unknown_id", "No key or account has this ID"],
      ["a%20b", "not_found", "There is nothing here: see / for what is"],
      ["%zz", "not_found", "There is nothing here: see / for what is"],
      ["x".repeat(65), "not_found", "There is nothing here: see / for what is"],
    ] as const) {
      const got = await house.ask("GET", `/api/keys/${id}`);
      const told = got.json<Problem>();
      assert.deepEqual([got.status, told.code, told.message], [404, code, message], id);
    }
  });

  it("end so long after a change as it says, and those of an import begin with it", async () => {
    await using house = await openAdminHouse();
    const { id } = (await house.ask("POST", "/api/keys", { body: FREE })).json<Issued>();
    house.clock.nowMs += 1_000;
    const nowS = NOON_MS / 1_000 + 1;
    const got = await house.ask("PATCH", `/api/keys/${id}`, { body: { expires: "90d" } });
    assert.equal(got.json<KeyReport>().expires, nowS + 90 * 86_400);
    const key = makeKey("pets", "live", () => 1);
    const records = [{ key, account: "moved", ...FREE }];
    const moved = await house.ask("POST", "/api/keys/import", { body: { records, plain: true } });
    assert.equal(moved.status, 200, moved.text);
    const [one] = (await house.ask("GET", "/api/keys/moved")).json<KeyReport[]>();
    assert.equal(one?.created, nowS);
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
    assert.equal(house.keys.records().keys[0]?.revokedMs, undefined);
    for (const body of [undefined, {}]) {
      const got = await house.ask("POST", `/api/keys/${id}/revoke`, { body });
      assert.equal(got.status, 200);
      assert.equal(got.json<KeyReport>().revoked, NOON_MS / 1000);
    }
    assert.equal(house.keys.records().keys[0]?.revokedMs, NOON_MS);
    const unknown = await house.ask("POST", "/api/keys/nobody/revoke");
    assert.deepEqual([unknown.status, unknown.json<Problem>().code], [404, "unknown_id"]);
    await house.ask("POST", "/api/keys", { body: { ...FREE, account: "shop", count: 2 } });
    const all = (await house.ask("POST", "/api/keys/shop/revoke")).json<KeyReport[]>();
    assert.deepEqual(
      all.map(({ account, revoked }) => [account, revoked]),
      [1, 2].map(() => ["shop", NOON_MS / 1_000]),
    );
    await house.ask("POST", "/api/keys", { body: { ...FREE, account: "solo" } });
    const list = (await house.ask("POST", "/api/keys/solo/revoke")).json<KeyReport[]>();
    assert.deepEqual([list.length, list[0]?.account], [1, "solo"], "a list of one");
  });
});

function postBytes(house: AdminHouse, body: Buffer): Promise<Response> {
  return fetch(`${house.url}/api/keys`, {
    method: "POST",
    body: new Uint8Array(body),
    headers: { "Content-Type": "application/json", Authorization: `Bearer ${TOKEN}` },
  });
}
