import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { digestKey, judgeShape } from "../../../src/core/keys/key.ts";
import { issueKeys, revokeKey } from "../../../src/core/keys/keyring.ts";
import { PERIOD_MS_MAX, type WantedKeys } from "../../../src/core/keys/keyring-rules.ts";
import type { Limit } from "../../../src/core/quota/windows.ts";
import { DAY, FREE, first, issue, LIMITS, NOON, refusal, ring } from "./ring.ts";

describe("Issuing keys", () => {
  it("makes a well-formed key of its environment, and a record with its digest alone", () => {
    for (const [environment, tag] of [
      ["production", "live"],
      ["staging", "test"],
    ] as const) {
      const { issued, records } = issue({ environment, name: "ci", scopes: ["beta", "beta"] });
      const { key, record } = first(issued);
      assert.equal(judgeShape(key, "pets", tag).ok, true);
      assert.equal(record.digest, digestKey(key));
      assert.deepEqual(records, [record]);
      assert.doesNotMatch(JSON.stringify(records), new RegExp(key.slice(10)));
      const { id, digest: _, ...rest } = record;
      assert.match(id, /^k_[0-9A-Za-z]{12}$/);
      assert.deepEqual(rest, {
        name: "ci",
        plan: "free",
        environment,
        account: id,
        scopes: ["beta"],
        limits: [],
        createdMs: NOON,
      });
    }
  });

  it("gives no name, scope, limit or expiry unless told to, and then that", () => {
    const record = first(issue({ expiresInMs: 90 * DAY }).records);
    assert.equal(record.expiresMs, NOON + 90 * DAY);
    const { id, digest: _, ...rest } = first(issue().records);
    assert.deepEqual(rest, {
      name: "",
      plan: "free",
      environment: "production",
      account: id,
      scopes: [],
      limits: [],
      createdMs: NOON,
    });
  });

  it("makes as many as asked: each with an account of its own, or all in the one named", () => {
    const own = issue({ count: 1_000 });
    assert.equal(new Set(own.records.map(({ account }) => account)).size, 1_000);
    assert.equal(new Set(own.records.map(({ digest }) => digest)).size, 1_000);
    const shared = issue({ count: 3, account: "acme" }, own.records);
    assert.equal(shared.records.length, 1_003);
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
    assert.deepEqual(first(issue({ limits }).records).limits, [limits[1], limits[0]]);
  });

  it("never takes an id that a key or an account has", () => {
    const taken = first(issue().records).id;
    for (const other of [{ id: taken }, { id: "k_x", account: taken }]) {
      const record = { ...first(issue().records), ...other };
      assert.notEqual(first(issue({}, [record], ring()).issued).record.id, taken);
    }
    assert.notEqual(first(issue({ account: taken }, [], ring()).issued).record.id, taken);
  });

  it("never takes an id twice in one go, though the dice fall alike", () => {
    let falls = 0;
    const random = () => Math.floor(falls++ / (12 + 30 + 12));
    const { issued } = issue({ count: 2 }, [], { ...ring(), random });
    assert.notEqual(issued[0]?.record.id, issued[1]?.record.id);
  });

  const mistakes: readonly (readonly [string, Partial<WantedKeys>, RegExp])[] = [
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
    ["a custom plan without a limit", { plan: "enterprise" }, /enterprise without a limit/],
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
      { limits: [{ window: "week" as "day", limit: 1 }] },
      /"week" as it is unknown: expected second, minute, hour, day, month$/,
    ],
    ["a window twice", { limits: [...LIMITS, ...LIMITS] }, /two limits for one window/],
    ["an account with a space", { account: "a b" }, /the account "a b"/],
    ["an account without a name", { account: "" }, /the account ""/],
    ["an account of 65", { account: "x".repeat(65) }, /1 to 64/],
    ["a name of 201", { name: "x".repeat(201) }, /at most 200/],
    ["a name of two lines", { name: "a\nb" }, /without control characters/],
    ["a scope in capitals", { scopes: ["beta", "Beta"] }, /the scopes "beta Beta"/],
    ["a scope of 65", { scopes: ["x".repeat(65)] }, /the scopes/],
    ["a scope of nothing", { scopes: [""] }, /the scopes/],
    ["21 scopes", { scopes: Array.from({ length: 21 }, (_, i) => `s${i}`) }, /at most 20/],
    ["no key at all", { count: 0 }, /issue 0 keys/],
    ["1001 keys", { count: 1_001 }, /1 to 1000/],
    ["a key and a half", { count: 1.5 }, /1\.5 keys/],
    ["an expiry of nothing", { expiresInMs: 0 }, /this expiry/],
    ["an expiry that is no number", { expiresInMs: Number.NaN }, /this expiry/],
    ["an expiry beyond a hundred years", { expiresInMs: PERIOD_MS_MAX + 1 }, /36525d/],
  ];
  for (const [name, wanted, message] of mistakes) {
    it(`is wrong usage with ${name}`, () => {
      const told = refusal(issueKeys([], { ...FREE, ...wanted }, ring()));
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
    issue({ scopes: ["x".repeat(64), "orders:read", "2.0/a_b"] });
    issue({ plan: "enterprise", limits: LIMITS });
  });

  it("says little of what a stranger wrote at length", () => {
    assert.ok(refusal(issueKeys([], { ...FREE, plan: "x".repeat(9_999) }, ring())).length < 250);
  });
});

describe("A further key of an account", () => {
  const { records } = issue({ account: "acme", limits: LIMITS });

  it("is issued on the same terms", () => {
    assert.equal(issue({ account: "acme", limits: [...LIMITS] }, records).records.length, 2);
  });

  it("has nothing to do with the environment and plan of other accounts", () => {
    const other = issue({ account: "other", environment: "staging", plan: "pro" }, records);
    assert.ok(issue({ account: "acme", limits: LIMITS }, other.records));
  });

  const others: readonly (readonly [string, Partial<WantedKeys>, RegExp])[] = [
    ["another environment", { environment: "staging" }, /lives in production/],
    [
      "another plan",
      { plan: "pro" },
      /on plan pro with minute=500 .* is on plan free with minute=500/,
    ],
    ["other limits", { limits: [{ window: "minute", limit: 501 }] }, /minute=501/],
    ["no limits", { limits: [] }, /on plan free to account acme/],
    [
      "a further limit",
      { limits: [{ window: "day", limit: 9 }, ...LIMITS] },
      /with minute=500 day=9 to account acme, .* with minute=500: give/,
    ],
  ];
  for (const [name, wanted, message] of others) {
    it(`is refused with ${name}`, () => {
      const all = { ...FREE, account: "acme", limits: LIMITS, ...wanted };
      const told = refusal(issueKeys(records, all, ring()));
      assert.match(told, /^refused: /);
      assert.match(told, message);
    });
  }

  it("may take another plan once no key works any more, but never another environment", () => {
    const revoked = revokeKey(records, first(records).id, NOON);
    assert.ok(revoked.ok);
    issue({ account: "acme", plan: "pro" }, revoked.records);
    const moved = { ...FREE, account: "acme", environment: "staging" };
    assert.match(refusal(issueKeys(revoked.records, moved, ring())), /lives in production/);
  });

  it("may take another plan at the instant the last key expires, and not before", () => {
    const { records: expiring } = issue({ account: "acme", expiresInMs: DAY });
    const wanted = { ...FREE, account: "acme", plan: "pro" };
    assert.match(refusal(issueKeys(expiring, wanted, ring(NOON + DAY - 1))), /^refused: /);
    assert.ok(issueKeys(expiring, wanted, ring(NOON + DAY)).ok);
  });

  it("joins the account that is named by its first key's id", () => {
    const { records: own } = issue();
    const account = first(own).id;
    assert.equal(issue({ account }, own, ring(NOON + 1)).records[1]?.account, account);
  });

  it("cannot have the id of a key of another account as its account", () => {
    const id = first(records).id;
    const told = refusal(issueKeys(records, { ...FREE, account: id }, ring()));
    assert.match(told, /is a key of account acme/);
  });
});
