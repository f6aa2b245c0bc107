import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { issueKeys } from "../../../src/core/keys/edit-keys.ts";
import { PERIOD_MS_MAX } from "../../../src/core/keys/edit-rules.ts";
import { checkKeyFormat, digestKey } from "../../../src/core/keys/key.ts";
import type { NewKeys } from "../../../src/core/keys/new-keys.ts";
import { NO_RECORDS } from "../../../src/core/keys/records.ts";
import type { Limit } from "../../../src/core/quota/windows.ts";
import { DAY, FREE, first, issue, LIMITS, NOON, refusal, ring } from "./ring.ts";

describe("Issuing keys", () => {
  it("makes a well-formed key of its environment, and a record with its digest alone", () => {
    for (const [environment, tag] of [
      ["production", "live"],
      ["staging", "test"],
    ] as const) {
      const { issued, records } = issue({ environment, name: "ci", scopes: ["beta", "beta"] });
      const { key, record, account } = first(issued);
      assert.equal(checkKeyFormat(key, "pets", tag).ok, true);
      assert.equal(record.digest, digestKey(key));
      assert.deepEqual(records, { keys: [record], accounts: [account] });
      assert.doesNotMatch(JSON.stringify(records), new RegExp(key.slice(10)));
      const { id, digest: _, ...rest } = record;
      assert.match(id, /^k_[0-9A-Za-z]{12}$/);
      assert.deepEqual(rest, {
        name: "ci",
        environment,
        account: account.id,
        scopes: ["beta"],
        from: [],
        createdMs: NOON,
      });
    }
  });

  it("starts an account with an id of its own, on the terms that were asked for", () => {
    const meta = { tenant: "42" };
    const { id, ...rest } = first(issue({ limits: LIMITS, meta }).records.accounts);
    assert.match(id, /^a_[0-9A-Za-z]{12}$/);
    assert.deepEqual(rest, {
      environment: "production",
      plan: "free",
      limits: LIMITS,
      meta,
      createdMs: NOON,
    });
  });

  it("keeps no metadata without a value, which no store could read again", () => {
    const { records } = issue({ account: "acme", meta: { tenant: "", team: "cats" } });
    assert.deepEqual(first(records.accounts).meta, { team: "cats" });
    const again = issue({ account: "acme", meta: { tenant: "", team: "cats" } }, records);
    assert.equal(again.records.keys.length, 2);
    const other = issueKeys(records, { account: "acme", meta: { team: "" } }, ring());
    assert.match(refusal(other), /^refused: Cannot add a key with other metadata/);
  });

  it("gives no name, scope, network or expiry unless told to, and then that", () => {
    const from = ["192.0.2.0/24", "::1"];
    const record = first(issue({ expiresInMs: 90 * DAY, from }).records.keys);
    assert.deepEqual([record.expiresMs, record.from], [NOON + 90 * DAY, from]);
    const { id: _, digest: __, account: ___, ...rest } = first(issue().records.keys);
    const plain = { name: "", environment: "production", scopes: [], from: [], createdMs: NOON };
    assert.deepEqual(rest, plain);
  });

  it("makes as many as asked: each with an account of its own, or all in the one named", () => {
    const own = issue({ count: 1_000 });
    assert.equal(new Set(own.records.keys.map(({ account }) => account)).size, 1_000);
    assert.equal(new Set(own.records.keys.map(({ digest }) => digest)).size, 1_000);
    assert.equal(own.records.accounts.length, 1_000);
    const shared = issue({ count: 3, account: "acme" }, own.records);
    assert.deepEqual([shared.records.keys.length, shared.records.accounts.length], [1_003, 1_001]);
    assert.deepEqual(
      shared.issued.map(({ record }) => record.account),
      ["acme", "acme", "acme"],
    );
  });

  it("keeps limits of any plan, also of windows that the plan lacks, in the order of windows", () => {
    const limits: Limit[] = [
      { window: "day", limit: 1e12 },
      { window: "second", limit: 1 },
    ];
    assert.deepEqual(first(issue({ limits }).records.accounts).limits, [limits[1], limits[0]]);
  });

  it("never takes an id that a key or an account has", () => {
    const { keys, accounts } = issue().records;
    const [key, account] = [first(keys), first(accounts)];
    const again = issue({}, { keys, accounts: [] }, ring()).issued;
    assert.notEqual(first(again).record.id, key.id);
    const other = issue({}, { keys: [], accounts }, ring()).issued;
    assert.notEqual(first(other).account.id, account.id);
  });

  it("never takes an id twice in one go, though the dice fall alike", () => {
    let falls = 0;
    const random = () => Math.floor(falls++ / (12 + 30 + 12));
    const { issued } = issue({ count: 2 }, NO_RECORDS, { ...ring(), random });
    assert.notEqual(issued[0]?.record.id, issued[1]?.record.id);
  });

  const mistakes: readonly (readonly [string, Partial<NewKeys>, RegExp])[] = [
    [
      "an unknown environment",
      { environment: "prod" },
      /"prod" as it is unknown: expected production, staging/,
    ],
    [
      "an unknown plan",
      { plan: "gold" },
      /"gold" as it is unknown: expected free, pro, enterprise/,
    ],
    [
      "an unknown environment and an unknown plan, both told,",
      { environment: "prod", plan: "gold" },
      /environment "prod" as it is unknown: expected production, staging\. Cannot use plan "gold" as it is unknown/,
    ],
    ["a custom plan without a limit", { plan: "enterprise" }, /enterprise without a limit/],
    [
      "a custom plan without a window, whatever may be under way at once",
      { plan: "enterprise", limits: [{ window: "concurrent", limit: 5 }] },
      /enterprise without a limit/,
    ],
    ["a limit of nothing", { limits: [{ window: "minute", limit: 0 }] }, /the limit 0 per minute/],
    ["a limit over 10^12", { limits: [{ window: "minute", limit: 1e12 + 1 }] }, /1 to 10\^12/],
    ["a limit of a half", { limits: [{ window: "minute", limit: 1.5 }] }, /the limit 1\.5/],
    [
      "a limit that is no number",
      { limits: [{ window: "minute", limit: Number.NaN }] },
      /whole number/,
    ],
    [
      "an unknown window",
      { limits: [{ window: "fortnight" as "day", limit: 1 }] },
      /"fortnight" as it is unknown: expected second, minute, hour, day, week, month, year, concurrent$/,
    ],
    ["a window twice", { limits: [...LIMITS, ...LIMITS] }, /two limits for one window/],
    ["an account with a space", { account: "a b" }, /the account "a b"/],
    ["an account without a name", { account: "" }, /the account ""/],
    ["an account of 65", { account: "x".repeat(65) }, /1 to 64/],
    ["a name of 201", { name: "x".repeat(201) }, /at most 200/],
    ["a name of two lines", { name: "a\nb" }, /without control characters/],
    ["a name that turns its line around", { name: "a\u202eb" }, /without control characters/],
    ["a name that hides a line", { name: "a\u2028b" }, /without control characters/],
    ["an account that is a folder", { account: ".." }, /the account "\.\."/],
    ["an account that is this folder", { account: "." }, /the account "\."/],
    ["a network of 33 bits", { from: ["10.0.0.0/33"] }, /"10\.0\.0\.0\/33" as a network/],
    ["a network that is a name", { from: ["localhost"] }, /as a network/],
    ["metadata in capitals", { meta: { Tenant: "1" } }, /metadata name "Tenant"/],
    ["metadata with a space", { meta: { tenant: "a b" } }, /value of metadata tenant/],
    [
      "17 names of metadata",
      { meta: Object.fromEntries(Array.from({ length: 17 }, (_, i) => [`m${i}`, "x"])) },
      /more than 16/,
    ],
    ["a scope in capitals", { scopes: ["beta", "Beta"] }, /the scopes "beta Beta"/],
    ["a scope of 65", { scopes: ["x".repeat(65)] }, /the scopes/],
    ["a scope of nothing", { scopes: [""] }, /the scopes/],
    ["21 scopes", { scopes: Array.from({ length: 21 }, (_, i) => `s${i}`) }, /at most 20/],
    ["no key at all", { count: 0 }, /issue 0 keys/],
    ["1001 keys", { count: 1_001 }, /1 to 1000/],
    ["a key and a half", { count: 1.5 }, /1\.5 keys/],
    ["an expiry of nothing", { expiresInMs: 0 }, /the expiry \S+: it must be from/],
    ["an expiry that is no number", { expiresInMs: Number.NaN }, /the expiry \S+: it must be from/],
    ["an expiry beyond a hundred years", { expiresInMs: PERIOD_MS_MAX + 1 }, /36525d/],
  ];
  for (const [name, wanted, message] of mistakes) {
    it(`is wrong usage with ${name}`, () => {
      const told = refusal(issueKeys(NO_RECORDS, { ...FREE, ...wanted }, ring()));
      assert.match(told, /^usage: Cannot /);
      assert.match(told, message);
    });
  }

  it("accepts the last good value at each of those edges", () => {
    issue({
      limits: [
        { window: "minute", limit: 1 },
        { window: "day", limit: 1e12 },
      ],
    });
    issue({ account: "x".repeat(64), name: "x".repeat(200), expiresInMs: PERIOD_MS_MAX });
    issue({ scopes: Array.from({ length: 20 }, (_, i) => `s${i}`), expiresInMs: 1 });
    issue({ scopes: ["x".repeat(64), "orders:write", "a/b.c_d-1"] });
    issue({ name: "a \u200d emoji, \u5e97", account: "..." });
    issue({ plan: "enterprise", limits: LIMITS });
  });

  it("says little of what a stranger wrote at length", () => {
    assert.ok(
      refusal(issueKeys(NO_RECORDS, { ...FREE, plan: "x".repeat(9_999) }, ring())).length < 250,
    );
  });
});

describe("A further key of an account", () => {
  const { records } = issue({ account: "acme", limits: LIMITS, meta: { tenant: "42" } });
  const further = (wanted: Partial<NewKeys>) =>
    issueKeys(records, { account: "acme", ...wanted }, ring());

  it("takes environment, plan and limits from it", () => {
    const edited = further({});
    assert.ok(edited.ok);
    assert.equal(first(edited.issued).record.environment, "production");
    assert.equal(edited.records.accounts, records.accounts);
  });

  it("may name the same terms again", () => {
    const meta = { tenant: "42" };
    assert.ok(further({ ...FREE, limits: [...LIMITS], meta }).ok);
    assert.ok(further({ ...FREE, limits: [] }).ok);
  });

  const others: readonly (readonly [string, Partial<NewKeys>, RegExp])[] = [
    ["another environment", { environment: "staging" }, /lives in production/],
    [
      "another plan",
      { plan: "pro" },
      /on plan pro with minute=500 .* is on plan free with minute=500: .*accounts set acme/,
    ],
    ["other limits", { limits: [{ window: "minute", limit: 501 }] }, /minute=501/],
    [
      "a further limit",
      { limits: [{ window: "day", limit: 9 }, ...LIMITS] },
      /minute=500 day=9 to/,
    ],
    ["other metadata", { meta: { tenant: "43" } }, /other metadata to account acme/],
  ];
  for (const [name, wanted, message] of others) {
    it(`is refused with ${name}`, () => {
      const told = refusal(further(wanted));
      assert.match(told, /^refused: /);
      assert.match(told, message);
    });
  }

  it("needs an environment and a plan where the account is new: all that is missing is named", () => {
    const fresh = (wanted: NewKeys) =>
      refusal(issueKeys(records, { account: "new", ...wanted }, ring()));
    assert.match(fresh({}), /^usage: Missing --env and --plan:/);
    assert.match(fresh({ plan: "free" }), /^usage: Missing --env:/);
    assert.match(fresh({ environment: "staging" }), /^usage: Missing --plan:/);
  });

  it("cannot have the id of a key as its account", () => {
    const id = first(records.keys).id;
    const told = refusal(issueKeys(records, { ...FREE, account: id }, ring()));
    assert.match(told, /is a key of account acme/);
  });

  it("joins an account that is named as its first key, as older ones are", () => {
    const own = first(records.keys);
    const account = { ...first(records.accounts), id: own.id };
    const older = { keys: [{ ...own, account: own.id }], accounts: [account] };
    const edited = issueKeys(older, { account: own.id }, ring(NOON + 1));
    assert.ok(edited.ok);
    assert.equal(first(edited.issued).record.account, own.id);
  });
});
