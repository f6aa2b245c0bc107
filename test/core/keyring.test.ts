import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { digestKey, judgeRecord, judgeShape, type KeyRecord } from "../../src/core/key.ts";
import {
  findKeys,
  issueKeys,
  type KeyringRefusal,
  revokeKey,
  rotateKey,
} from "../../src/core/keyring.ts";
import { type Keyring, PERIOD_MS_MAX, type WantedKeys } from "../../src/core/keyring-rules.ts";
import type { Limit } from "../../src/core/windows.ts";

const NOON = Date.UTC(2026, 6, 15, 12);
const DAY = 86_400_000;
const LIMITS: readonly Limit[] = [{ window: "minute", limit: 500 }];

/** Dice that never fall alike twice, the same in each test. */
function ring(nowMs = NOON): Keyring {
  let state = 7;
  return {
    keyPrefix: "pets",
    environments: [
      { name: "production", keyTag: "live" },
      { name: "staging", keyTag: "test" },
    ],
    plans: new Map<string, readonly Limit[] | "custom">([
      ["free", [{ window: "minute", limit: 60 }]],
      ["pro", [{ window: "minute", limit: 300 }]],
      ["enterprise", "custom"],
    ]),
    random: (max) => {
      state = (state * 48_271) % 2_147_483_647;
      return state % max;
    },
    nowMs,
  };
}

const FREE: WantedKeys = { environment: "production", plan: "free" };

function issue(
  wanted: Partial<WantedKeys> = {},
  records: readonly KeyRecord[] = [],
  dice = ring(),
) {
  const edited = issueKeys(records, { ...FREE, ...wanted }, dice);
  assert.ok(edited.ok, edited.ok ? "" : edited.message);
  return edited;
}

function refusal(edited: { readonly ok: true } | KeyringRefusal): string {
  assert.ok(!edited.ok, "it was done");
  return `${edited.because}: ${edited.message}`;
}

function first<T>(list: readonly T[]): T {
  const [item] = list;
  assert.ok(item);
  return item;
}

describe("Issuing keys (contract 3)", () => {
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

  it("gives no expiry unless told to, and then that", () => {
    const record = first(issue({ expiresInMs: 90 * DAY }).records);
    assert.equal(record.expiresMs, NOON + 90 * DAY);
    assert.equal("expiresMs" in first(issue().records), false);
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
      /"week" as it is unknown/,
    ],
    ["a window twice", { limits: [...LIMITS, ...LIMITS] }, /two limits for one window/],
    ["an account with a space", { account: "a b" }, /the account "a b"/],
    ["an account without a name", { account: "" }, /the account ""/],
    ["an account of 65", { account: "x".repeat(65) }, /1 to 64/],
    ["a name of 201", { name: "x".repeat(201) }, /at most 200/],
    ["a name of two lines", { name: "a\nb" }, /without control characters/],
    ["a scope in capitals", { scopes: ["beta", "Beta"] }, /the scopes "beta Beta"/],
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

  const others: readonly (readonly [string, Partial<WantedKeys>, RegExp])[] = [
    ["another environment", { environment: "staging" }, /lives in production/],
    [
      "another plan",
      { plan: "pro" },
      /on plan pro with minute=500 .* is on plan free with minute=500/,
    ],
    ["other limits", { limits: [{ window: "minute", limit: 501 }] }, /minute=501/],
    ["no limits", { limits: [] }, /on plan free to account acme/],
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

describe("Rotating a key", () => {
  const graceMs = DAY;
  const { records } = issue({ account: "acme", limits: LIMITS, scopes: ["beta"], name: "ci" });
  const old = first(records);
  const rotate = (from: readonly KeyRecord[], id: string, nowMs = NOON + 1_000, more = {}) =>
    rotateKey(from, id, { ...ring(nowMs), graceMs, ...more });

  it("makes a new id and secret for the same account on the same terms", () => {
    const edited = rotate(records, old.id);
    assert.ok(edited.ok);
    const { key, record } = edited.issued;
    assert.equal(judgeShape(key, "pets", "live").ok, true);
    const { id, digest, createdMs, ...same } = record;
    const { id: oldId, digest: oldDigest, createdMs: _, ...before } = old;
    assert.deepEqual(same, before);
    assert.ok(id !== oldId && digest !== oldDigest && digest === digestKey(key));
    assert.equal(createdMs, NOON + 1_000);
    assert.deepEqual(edited.records, [edited.previous, record]);
  });

  it("lets the old one work for the grace, and not at its end", () => {
    const edited = rotate(records, old.id);
    assert.ok(edited.ok);
    const endMs = NOON + 1_000 + graceMs;
    assert.equal(judgeRecord(edited.previous, "production", endMs - 1).ok, true);
    assert.equal(judgeRecord(edited.previous, "production", endMs).ok, false);
    const atOnce = rotate(records, old.id, NOON, { graceMs: 0 });
    assert.ok(atOnce.ok);
    assert.equal(judgeRecord(atOnce.previous, "production", NOON).ok, false);
  });

  it("carries the expiry over, and does not put off that of the old one", () => {
    const { records: expiring } = issue({ expiresInMs: graceMs / 2 });
    const edited = rotate(expiring, first(expiring).id);
    assert.ok(edited.ok);
    assert.equal(edited.issued.record.expiresMs, NOON + graceMs / 2);
    assert.equal(edited.previous.expiresMs, NOON + graceMs / 2);
  });

  it("is refused for a key that was rotated: its successor is named, and can be", () => {
    const edited = rotate(records, old.id);
    assert.ok(edited.ok);
    const successor = edited.issued.record.id;
    assert.match(refusal(rotate(edited.records, old.id)), new RegExp(`rotate ${successor}$`));
    const again = rotate(edited.records, successor, NOON + 2_000);
    assert.ok(again.ok);
    assert.equal("expiresMs" in again.issued.record, false);
    assert.equal("replacedBy" in again.issued.record, false);
  });

  it("is refused for one that is revoked or expired, and for an environment that is gone", () => {
    const revoked = revokeKey(records, old.id, NOON);
    assert.ok(revoked.ok);
    assert.match(refusal(rotate(revoked.records, old.id)), /^refused: .* as it is revoked/);
    const { records: expiring } = issue({ expiresInMs: 1_000 });
    assert.match(refusal(rotate(expiring, first(expiring).id)), /as it is expired/);
    const gone = rotate(records, old.id, NOON, { environments: [] });
    assert.match(refusal(gone), /"production" is no longer configured/);
  });

  it("is unknown for an unknown ID, and wrong usage with a wrong grace", () => {
    assert.match(refusal(rotate(records, "nobody")), /^unknown: Cannot find "nobody"/);
    for (const wrong of [-1, Number.NaN, PERIOD_MS_MAX + 1]) {
      assert.match(refusal(rotate(records, old.id, NOON, { graceMs: wrong })), /^usage: .*grace/);
    }
    assert.ok(rotate(records, old.id, NOON, { graceMs: PERIOD_MS_MAX }).ok);
  });

  it("takes an account for its only working key, and asks which when there are several", () => {
    const edited = rotate(records, "acme");
    assert.ok(edited.ok);
    assert.equal(edited.previous.id, old.id);
    const told = refusal(rotate(edited.records, "acme"));
    assert.match(told, /^refused: .* as 2 work: name one of k_\w+, k_\w+$/);
  });
});

describe("Revoking a key", () => {
  const { records } = issue({ account: "acme", count: 2 });
  const [one, two] = records;

  it("holds from then on, whatever a clock says, and leaves the others alone", () => {
    const edited = revokeKey(records, one?.id ?? "", NOON + 5);
    assert.ok(edited.ok);
    assert.deepEqual(edited.records, [{ ...one, revokedMs: NOON + 5 }, two]);
    assert.deepEqual(edited.revoked, edited.records[0]);
    assert.equal(judgeRecord(edited.revoked, "production", NOON).ok, false);
  });

  it("twice is fine, and keeps the first instant and the very records", () => {
    const once = revokeKey(records, one?.id ?? "", NOON);
    assert.ok(once.ok);
    const twice = revokeKey(once.records, one?.id ?? "", NOON + 9);
    assert.ok(twice.ok);
    assert.equal(twice.records, once.records);
    assert.equal(twice.revoked.revokedMs, NOON);
  });

  it("by account takes the only one that works, or the last when none does", () => {
    assert.match(refusal(revokeKey(records, "acme", NOON)), /as 2 work: name one/);
    const once = revokeKey(records, two?.id ?? "", NOON);
    assert.ok(once.ok);
    const rest = revokeKey(once.records, "acme", NOON + 1);
    assert.ok(rest.ok);
    assert.equal(rest.revoked.id, one?.id);
    assert.ok(revokeKey(rest.records, "acme", NOON + 2).ok);
  });

  it("is unknown for an unknown ID", () => {
    assert.match(refusal(revokeKey(records, "nobody", NOON)), /^unknown: /);
  });
});

describe("Finding by ID", () => {
  const { records: own } = issue();
  const { records } = issue({ account: "acme", count: 2 }, own, ring(NOON + 1));

  it("finds a key with all keys of its account", () => {
    const key = records[1];
    const found = findKeys(records, key?.id ?? "");
    assert.ok(found.ok);
    assert.deepEqual(found, {
      ok: true,
      account: "acme",
      environment: "production",
      key,
      keys: records.slice(1),
    });
  });

  it("finds an account with its keys and no key", () => {
    const found = findKeys(records, "acme");
    assert.ok(found.ok);
    assert.deepEqual([found.key, found.keys], [undefined, records.slice(1)]);
  });

  it("takes an ID that is both for the key", () => {
    const { id } = first(own);
    const found = findKeys(records, id);
    assert.ok(found.ok);
    assert.deepEqual([found.key?.id, found.account], [id, id]);
  });

  it("is unknown for anything else", () => {
    assert.equal(
      refusal(findKeys(records, "ACME")),
      'unknown: Cannot find "ACME": no key or account has this ID',
    );
  });
});
