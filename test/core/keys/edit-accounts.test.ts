import assert from "node:assert/strict";
import { describe, it } from "vitest";
import {
  type AccountChange,
  accountsOnPlan,
  resumeAccount,
  suspendAccount,
  updateAccounts,
} from "../../../src/core/keys/edit-accounts.ts";
import { type KeyContext, META_MAX, PERIOD_MS_MAX } from "../../../src/core/keys/edit-rules.ts";
import type { AccountRecord, KeyRecord, Records } from "../../../src/core/keys/records.ts";

const NOW = Date.UTC(2026, 6, 10, 12);
const RING: KeyContext = {
  keyPrefix: "pets",
  environments: [{ name: "production", keyTag: "live" }],
  plans: new Map<string, [] | "custom">([
    ["free", []],
    ["gold", []],
    ["agreed", "custom"],
  ]),
  random: () => 0,
  nowMs: NOW,
};
const TERMS = { environment: "production", plan: "free", limits: [], meta: {}, createdMs: 0 };
const ACME: AccountRecord = {
  ...TERMS,
  id: "acme",
  limits: [
    { window: "minute", limit: 5 },
    { window: "day", limit: 50 },
  ],
  meta: { tenant: "42", tier: "a" },
};
const SHOP: AccountRecord = { ...TERMS, id: "shop" };
const OTHER: AccountRecord = { ...TERMS, id: "other", plan: "gold" };
const KEY: KeyRecord = {
  id: "k_1",
  digest: "d",
  name: "",
  environment: "production",
  account: "shop",
  scopes: [],
  from: [],
  createdMs: 0,
};
const RECORDS: Records = { keys: [KEY], accounts: [ACME, SHOP, OTHER] };

/** The accounts that a change of `ids` gives, which stand among all of them in their order. */
function changed(ids: readonly string[], change: AccountChange, records = RECORDS) {
  const result = updateAccounts(records, ids, change, RING);
  assert.ok(result.ok, "message" in result ? result.message : "");
  assert.equal(result.records.keys, records.keys);
  const byId = new Map(result.accounts.map((account) => [account.id, account]));
  const all = records.accounts.map((account) => byId.get(account.id) ?? account);
  assert.deepEqual(result.records.accounts, all);
  return result.accounts;
}

function refused(result: { readonly ok: boolean }, reason: string, message: string | RegExp): void {
  assert.ok(!result.ok && "reason" in result && "message" in result);
  assert.equal(result.reason, reason);
  if (typeof message === "string") assert.equal(result.message, message);
  else assert.match(String(result.message), message);
}

describe("A change of accounts", () => {
  const refusedChange = (change: AccountChange, message: string | RegExp, records = RECORDS) => {
    refused(updateAccounts(records, ["acme"], change, RING), "usage", message);
  };

  it("sets the plan and keeps the limits, the metadata and all else", () => {
    assert.deepEqual(changed(["acme"], { plan: "gold" }), [{ ...ACME, plan: "gold" }]);
  });

  it("replaces the limits of the same windows, in the order of the windows", () => {
    const limits = [
      { window: "month", limit: 9 },
      { window: "minute", limit: 7 },
    ] as const;
    assert.deepEqual(changed(["acme"], { limits })[0]?.limits, [
      { window: "minute", limit: 7 },
      { window: "day", limit: 50 },
      { window: "month", limit: 9 },
    ]);
  });

  it("drops all limits first where it is told to, and sets those that are given", () => {
    assert.deepEqual(changed(["acme"], { dropLimits: true })[0]?.limits, []);
    const limits = [{ window: "day", limit: 1 }] as const;
    assert.deepEqual(changed(["acme"], { dropLimits: true, limits })[0]?.limits, limits);
  });

  it("drops the limit of one window, also of a meter that is gone, and keeps the others", () => {
    const limits = [
      { window: "day", limit: null },
      { window: "hour", limit: null },
      { window: "month", limit: 9 },
    ] as const;
    assert.deepEqual(changed(["acme"], { limits })[0]?.limits, [
      { window: "minute", limit: 5 },
      { window: "month", limit: 9 },
    ]);
    const own = [{ window: "tokens.day", limit: 5 }] as const;
    const records = { ...RECORDS, accounts: [{ ...ACME, limits: own }] };
    const gone = [{ window: "tokens.day", limit: null }] as const;
    const ring = { ...RING, meters: [] };
    const dropped = updateAccounts(records, ["acme"], { limits: gone }, ring);
    assert.deepEqual(dropped.ok && dropped.accounts[0]?.limits, []);
    const set = updateAccounts(records, ["acme"], { limits: own }, ring);
    refused(set, "usage", "Cannot limit the meter tokens: the configuration has no meters");
    const agreed = { ...RECORDS, accounts: [{ ...ACME, plan: "agreed" }] };
    const all = ACME.limits.map(({ window }) => ({ window, limit: null }));
    refusedChange({ limits: all }, /without a limit.*\(account acme\)$/, agreed);
  });

  it("sets metadata by name, and removes what is set to nothing", () => {
    const meta = { tenant: "", region: "eu" };
    assert.deepEqual(changed(["acme"], { meta }), [{ ...ACME, meta: { tier: "a", region: "eu" } }]);
  });

  it("finds an account by its key, and changes it once where it is named twice", () => {
    const [shop, acme, ...more] = changed(["k_1", "acme", "shop"], { plan: "gold" });
    assert.deepEqual([shop?.id, acme?.id, more], ["shop", "acme", []]);
  });

  it("changes none where one is unknown, or cannot have it", () => {
    const unknown = updateAccounts(RECORDS, ["acme", "nobody"], { plan: "gold" }, RING);
    refused(unknown, "unknown", 'Cannot find "nobody": no key or account has this ID');
    const stuck = updateAccounts(RECORDS, ["acme", "shop"], { plan: "agreed" }, RING);
    refused(stuck, "usage", /^Cannot use plan agreed without a limit.*\(account shop\)$/);
  });

  it("is refused where it sets nothing, by itself", () => {
    const message = "Nothing to set: give a plan, limits, an anchor or metadata";
    for (const nothing of [{}, { limits: [], meta: {} }, { dropLimits: false }]) {
      refusedChange(nothing, message);
    }
  });

  it("is refused with a plan, a limit, an anchor or metadata that cannot be", () => {
    refusedChange({ plan: "platinum" }, /^Cannot use plan "platinum" as it is unknown/);
    refusedChange({ limits: [{ window: "day", limit: -1 }] }, /limit/);
    refusedChange({ anchor: 32 }, /^Cannot use the anchor 32/);
    refusedChange({ meta: { "A B": "x" } }, /^Cannot use the metadata name "A B"/);
  });

  it("is refused where the account would have too much metadata, and taken up to that", () => {
    const named = (count: number) => {
      return Object.fromEntries(Array.from({ length: count }, (_, at) => [`n${at}`, "x"]));
    };
    const [full] = changed(["acme"], { meta: named(META_MAX - 2) });
    assert.equal(Object.keys(full?.meta ?? {}).length, META_MAX);
    const message = `Cannot keep more than ${META_MAX} names of metadata for account acme`;
    refusedChange({ meta: named(META_MAX - 1) }, message);
  });

  it("is refused where the account would limit more than 4 meters, and taken where it limits no more", () => {
    const daily = (...meters: string[]) =>
      meters.map((meter) => ({ window: `${meter}.day`, limit: 5 }) as const);
    const [full] = changed(["shop"], { limits: daily("a", "b", "c", "d") });
    const message = "Cannot limit 5 meters of an account: at most 4 (account acme)";
    const records = (...meters: string[]) => {
      return { ...RECORDS, accounts: [{ ...ACME, limits: daily(...meters) }] };
    };
    assert.equal(full?.limits.length, 4);
    refusedChange({ limits: daily("e") }, message, records("a", "b", "c", "d"));
    changed(["acme"], { limits: daily("d", "e"), dropLimits: true }, records("a", "b", "c"));
    const more = records("a", "b", "c", "d", "e");
    assert.equal(
      changed(["acme"], { limits: daily("a"), plan: "gold" }, more)[0]?.limits.length,
      5,
    );
  });

  it("is refused a plan of agreed limits once the last of them is dropped", () => {
    assert.equal(changed(["acme"], { plan: "agreed" })[0]?.plan, "agreed");
    refusedChange({ plan: "agreed", dropLimits: true }, /without a limit.*\(account acme\)$/);
    const agreed = { ...RECORDS, accounts: [{ ...ACME, plan: "agreed" }] };
    refusedChange({ dropLimits: true }, /without a limit.*\(account acme\)$/, agreed);
  });

  it("moves the anchor at the end of the running month, and once a month", () => {
    const [acme] = changed(["acme"], { anchor: 15 });
    const fromMs = Date.UTC(2026, 7, 1);
    assert.deepEqual(acme, { ...ACME, calendar: [{ day: 15, fromMs }] });
    const records = { ...RECORDS, accounts: [acme as AccountRecord] };
    refused(
      updateAccounts(records, ["acme"], { anchor: 20 }, RING),
      "refused",
      "Cannot change the anchor of account acme again in this month: its months begin on day 15 " +
        "from 2026-08-01 on, and from then on it can be changed",
    );
    assert.deepEqual(changed(["acme"], { anchor: 1 }), [ACME], "the anchor that it has already");
  });
});

describe("The accounts on a plan", () => {
  const on = (plan: string, change: AccountChange, records = RECORDS) => {
    return accountsOnPlan(records, plan, change, RING);
  };

  it("are told by their IDs, none where no account is on it", () => {
    assert.deepEqual(on("free", { plan: "gold" }), { ok: true, ids: ["acme", "shop"] });
    assert.deepEqual(on("agreed", { plan: "gold" }), { ok: true, ids: [] });
  });

  it("are those that the change would make different", () => {
    assert.deepEqual(on("free", { plan: "free" }), { ok: true, ids: [] });
    const limits = [{ window: "minute", limit: 5 }] as const;
    assert.deepEqual(on("free", { limits }), { ok: true, ids: ["shop"] });
    const tagged = { meta: { tenant: "42" }, anchor: 15 };
    assert.deepEqual(on("free", tagged), { ok: true, ids: ["acme", "shop"] });
  });

  it("are told of a plan that is configured no more, and refused of one that never was", () => {
    const records = { ...RECORDS, accounts: [{ ...SHOP, plan: "old" }] };
    assert.deepEqual(on("old", { plan: "gold" }, records), { ok: true, ids: ["shop"] });
    refused(on("old", { plan: "gold" }), "usage", /^Cannot use plan "old" as it is unknown/);
  });

  it("are refused where one of them could not be changed, or nothing is to be", () => {
    refused(on("free", { plan: "agreed" }), "usage", /without a limit.*\(account shop\)$/);
    refused(on("free", {}), "usage", /^Nothing to set/);
  });
});

describe("A suspension", () => {
  const suspend = (how: Parameters<typeof suspendAccount>[2], id = "shop", records = RECORDS) => {
    return suspendAccount(records, id, how, NOW);
  };
  const suspended = (how: Parameters<typeof suspendAccount>[2], id = "shop") => {
    const result = suspend(how, id);
    assert.ok(result.ok);
    assert.deepEqual(result.records.accounts, [ACME, ...result.accounts, OTHER]);
    return result.accounts;
  };

  it("lasts until it is lifted, or for the time that is given, with its reason", () => {
    assert.deepEqual(suspended({}), [{ ...SHOP, suspended: { sinceMs: NOW, reason: "" } }]);
    const reason = "unpaid";
    const until = { sinceMs: NOW, untilMs: NOW + 5_000, reason };
    assert.deepEqual(suspended({ forMs: 5_000, reason }, "k_1"), [{ ...SHOP, suspended: until }]);
  });

  it("takes 1 ms to a hundred years, and a reason of one line", () => {
    assert.equal(suspend({ forMs: 1 }).ok, true);
    assert.equal(suspend({ forMs: PERIOD_MS_MAX }).ok, true);
    for (const forMs of [0, -1, PERIOD_MS_MAX + 1, Number.NaN]) {
      const message = `Cannot use the length ${forMs}ms: it must be from 1ms to 36525d`;
      refused(suspend({ forMs }), "usage", message);
    }
    const message =
      "Cannot use this reason: it must be at most 200 characters, without control characters and marks that turn the direction of text";
    assert.equal(suspend({ reason: "x".repeat(200) }).ok, true);
    for (const reason of ["x".repeat(201), "two\nlines"]) {
      refused(suspend({ reason }), "usage", message);
    }
  });

  it("is refused for an account that is unknown", () => {
    const message = 'Cannot find "nobody": no key or account has this ID';
    refused(suspend({}, "nobody"), "unknown", message);
    refused(resumeAccount(RECORDS, "nobody"), "unknown", message);
  });

  it("is gone without a trace when it is lifted, also after its end, and once", () => {
    const held = { ...SHOP, suspended: { sinceMs: 0, untilMs: 1, reason: "" } };
    const records = { ...RECORDS, accounts: [ACME, held, OTHER] };
    const result = resumeAccount(records, "k_1");
    assert.ok(result.ok);
    assert.deepEqual(result.accounts, [SHOP]);
    assert.deepEqual(result.records, RECORDS);
    const message = "Account shop is not suspended";
    refused(resumeAccount(RECORDS, "shop"), "refused", message);
  });
});
