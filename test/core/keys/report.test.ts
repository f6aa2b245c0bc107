import assert from "node:assert/strict";
import { test } from "vitest";
import type { KeyRecord } from "../../../src/core/keys/key.ts";
import { bansReport, findHolder, keyReport, usageReport } from "../../../src/core/keys/report.ts";
import type { Verdict } from "../../../src/core/quota/decide.ts";

const RECORD: KeyRecord = {
  id: "k1",
  digest: "d".repeat(64),
  name: "first",
  plan: "free",
  environment: "production",
  account: "shop",
  scopes: ["beta"],
  limits: [{ window: "minute", limit: 5 }],
  createdMs: 1_500,
};
const VERDICT: Verdict = {
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

test("an id is an account before it is a key, and a revoked key does not speak for its account", () => {
  const rotated = { ...RECORD, id: "k2", plan: "pro", createdMs: 2_000 };
  const revoked = { ...RECORD, id: "k3", plan: "business", createdMs: 3_000, revokedMs: 4_000 };
  const other = { ...RECORD, id: "shop", account: "other", plan: "enterprise", createdMs: 9_000 };
  const records = [RECORD, rotated, revoked, other];
  assert.equal(findHolder(records, "k1")?.plan, "pro");
  assert.deepEqual(findHolder(records, "shop"), {
    account: "shop",
    environment: "production",
    plan: "pro",
    limits: RECORD.limits,
  });
  assert.equal(findHolder([revoked], "k3")?.plan, "business");
  assert.equal(findHolder(records, "k9"), undefined);
});

test("a key is told without its digest, with null where it neither expires nor is revoked", () => {
  const told = keyReport({ ...RECORD, revokedMs: 2_000 });
  assert.deepEqual(told, {
    id: "k1",
    name: "first",
    plan: "free",
    environment: "production",
    account: "shop",
    scopes: ["beta"],
    limits: { minute: 5 },
    created: 1,
    expires: null,
    revoked: 2,
  });
  const expiring = keyReport({ ...RECORD, expiresMs: 9_999 });
  assert.deepEqual([expiring.expires, expiring.revoked], [10, null]);
});
