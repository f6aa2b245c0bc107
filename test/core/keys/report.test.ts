import assert from "node:assert/strict";
import { test } from "vitest";
import { accountReports, keyReport, keyReports } from "../../../src/core/keys/record-reports.ts";
import type { AccountRecord, KeyRecord } from "../../../src/core/keys/records.ts";
import { bansReport, findUsageSubject, usageReport } from "../../../src/core/keys/usage-reports.ts";
import type { QuotaDecision } from "../../../src/core/quota/decide.ts";

const RECORD: KeyRecord = {
  id: "k1",
  digest: "d".repeat(64),
  name: "first",
  environment: "production",
  account: "shop",
  scopes: ["beta"],
  from: ["::1"],
  createdMs: 1_500,
};
const SHOP: AccountRecord = {
  id: "shop",
  environment: "production",
  plan: "free",
  limits: [{ window: "minute", limit: 5 }],
  meta: { tenant: "42" },
  createdMs: 1_000,
};
const VERDICT: QuotaDecision = {
  nowMs: 1_000,
  granted: 0,
  windows: [
    { window: "minute", limit: 5, used: 7, resetMs: 60_000 },
    { window: "day", limit: 10, used: 7, resetMs: 86_400_000 },
  ],
  ban: { untilMs: 61_001, lengthMs: 60_000, window: "minute", offences: 2 },
  strikes: 3,
  strikeDueMs: 0,
  repaired: false,
};

test("usage has exactly its documented members, and never a negative remainder", () => {
  const holder = { account: "shop", environment: "production", plan: "free" };
  assert.deepEqual(usageReport(holder, VERDICT), {
    account: "shop",
    environment: "production",
    plan: "free",
    windows: [
      { window: "minute", limit: 5, used: 7, remaining: 0, reset: 60 },
      { window: "day", limit: 10, used: 7, remaining: 3, reset: 86_400 },
    ],
    strikes: 3,
    ban: { until: 62, offences: 2 },
  });
  assert.equal(usageReport(holder, { ...VERDICT, ban: undefined }).ban, null);
});

test("a key within a text of a record, as an import could bring it, is told to nobody", () => {
  const key = "pets_live_Smuggle0Test0Key0For0Vectors004Lozas";
  const named = { ...RECORD, name: `shop ${key}` };
  assert.equal(keyReport(named, SHOP).name, "shop pets_live_…");
  const suspended = { sinceMs: 1_000, reason: `leaked: ${key}` };
  const [told] = accountReports([{ ...SHOP, suspended }], { keys: [named] }, 2_000);
  assert.deepEqual(told?.names, ["shop pets_live_…"]);
  assert.equal(told?.suspended?.reason, "leaked: pets_live_…");
});

test("expires is rounded up and created down, so they differ by what was asked or a second more", () => {
  for (const [createdMs, more] of [
    [1_000, 0],
    [1_001, 1],
    [1_999, 1],
  ] as const) {
    const { created, expires } = keyReport(
      { ...RECORD, createdMs, expiresMs: createdMs + 90_000 },
      SHOP,
    );
    assert.equal((expires ?? 0) - created, 90 + more);
  }
});

test("bans are told the one that ends last first, in Unix seconds rounded up", () => {
  const ban = (untilMs: number) => {
    return { untilMs, lengthMs: 60_000, window: "minute" as const, offences: 1 };
  };
  const bans = [
    { account: "b", environment: "staging", ban: ban(1_000) },
    { account: "c", environment: "staging", ban: ban(2_001) },
    { account: "a", environment: "staging", ban: ban(1_000) },
  ];
  for (const inAnyOrder of [bans, [...bans].reverse()]) {
    assert.deepEqual(bansReport(inAnyOrder), [
      { account: "c", environment: "staging", until: 3, offences: 1 },
      { account: "a", environment: "staging", until: 1, offences: 1 },
      { account: "b", environment: "staging", until: 1, offences: 1 },
    ]);
  }
});

test("an id is an account before it is a key", () => {
  const other = { ...SHOP, id: "other", plan: "enterprise" };
  const records = {
    keys: [RECORD, { ...RECORD, id: "shop", account: "other" }],
    accounts: [SHOP, other],
  };
  const { environment, plan, limits } = SHOP;
  const holder = { account: "shop", environment, plan, limits };
  assert.deepEqual(findUsageSubject(records, "shop"), holder);
  assert.deepEqual(findUsageSubject(records, "k1"), holder);
  assert.equal(findUsageSubject(records, "k9"), undefined);
});

test("an account is told with its state and the keys of it that work", () => {
  const keys = [
    RECORD,
    { ...RECORD, id: "k2", name: "the old one", revokedMs: 5 },
    { ...RECORD, id: "k3", account: "x" },
  ];
  const told = (account: AccountRecord) => accountReports([account], { keys }, 2_000)[0];
  const active = {
    account: "shop",
    environment: "production",
    plan: "free",
    limits: { minute: 5 },
    meta: { tenant: "42" },
    anchor: 1,
    anchorFrom: null,
    state: "active",
    suspended: null,
    created: 1,
    keys: ["k1"],
    names: ["first", "the old one"],
  };
  assert.deepEqual(told(SHOP), active);
  const held = { sinceMs: 1_500, untilMs: 2_001, reason: "unpaid" };
  assert.deepEqual(told({ ...SHOP, suspended: held }), {
    ...active,
    state: "suspended",
    suspended: { since: 1, until: 3, reason: "unpaid" },
  });
  assert.deepEqual(told({ ...SHOP, suspended: { ...held, untilMs: 2_000 } }), active);
});

test("a key is told without its digest, with null where it neither expires nor is revoked", () => {
  const report = keyReport({ ...RECORD, revokedMs: 2_000 }, SHOP);
  assert.deepEqual(report, {
    id: "k1",
    name: "first",
    plan: "free",
    environment: "production",
    account: "shop",
    scopes: ["beta"],
    from: ["::1"],
    limits: { minute: 5 },
    caps: {},
    created: 1,
    expires: null,
    revoked: 2,
  });
  const expiring = keyReport({ ...RECORD, expiresMs: 9_999 }, SHOP);
  assert.deepEqual([expiring.expires, expiring.revoked], [10, null]);
});

test("keys are shown with the plan of their own account, of records with many", () => {
  const other: AccountRecord = { ...SHOP, id: "other", plan: "pro", limits: [] };
  const keys = [{ ...RECORD, id: "k2", account: "other" }, RECORD];
  const shown = keyReports(keys, { accounts: [SHOP, other, { ...SHOP, id: "none" }] });
  assert.deepEqual(
    shown.map(({ id, account, plan, limits }) => [id, account, plan, limits]),
    [
      ["k2", "other", "pro", {}],
      ["k1", "shop", "free", { minute: 5 }],
    ],
  );
});
