import assert from "node:assert/strict";
import { it, onTestFinished, vi } from "vitest";
import type { Records } from "../../../src/core/keys/records.ts";
import {
  findChangedRecords,
  RecordChangeWatcher,
} from "../../../src/server/events/record-change-watcher.ts";
import type { QuotaAdmin } from "../../../src/stores/quotas/quota-store.ts";
import { createLog } from "../../../src/telemetry/log/log.ts";
import { expectDuration } from "../../support/in-time.ts";
import { eventually } from "../../support/poll.ts";
import { recordsFrom } from "../../support/records.ts";

type MarkFirst = QuotaAdmin["markFirst"];

/** A watcher of records that a test changes, and the lines that it logged. */
function watch(first: unknown, markFirst: MarkFirst, { ready } = { ready: true }) {
  let records = first;
  let heard = () => {};
  const told: Record<string, unknown>[] = [];
  const keys = {
    ready,
    records: () => records as Records,
    onChange: (listener: () => void) => {
      heard = listener;
    },
  };
  const log = createLog({ write: (line) => void told.push(JSON.parse(line)) }, "info");
  const watcher = new RecordChangeWatcher({ keys, quotas: { markFirst }, log });
  onTestFinished(() => watcher.stop());
  const change = (next: unknown) => {
    records = next;
    heard();
  };
  return { watcher, told, change };
}

it("records that moved or stayed are no change; those that are others are, with what they were", async () => {
  const [a, b, c] = ["a", "b", "c"].map((id) => ({ id }));
  assert.ok(a !== undefined && b !== undefined && c !== undefined);
  const newB = { id: "b" };
  assert.deepEqual(await findChangedRecords([a, b], [b, a]), []);
  assert.deepEqual(await findChangedRecords([a, b], [a, newB, c]), [
    [b, newB],
    [undefined, c],
  ]);
  assert.deepEqual(await findChangedRecords([a, b, c], [a, c]), []);
  const [pair] = await findChangedRecords([a, b, c], [newB, c]);
  assert.equal(pair?.[0], b);
});

it("100,000 records that somebody else wrote are compared while other work goes on", async () => {
  const records = () => Array.from({ length: 100_000 }, (_, i) => ({ id: `k${i}` }));
  const [before, after] = [records(), records()];
  let turns = 0;
  let over = false;
  const count = () => {
    turns += 1;
    if (!over) setImmediate(count);
  };
  setImmediate(count);
  const started = process.cpuUsage();
  const pairs = await findChangedRecords(before, after);
  over = true;
  const { user, system } = process.cpuUsage(started);
  assert.equal(pairs.length, 100_000);
  const sliceMs = (user + system) / 1_000 / turns;
  assert.ok(sliceMs < 5, `other work had a turn after each ${sliceMs.toFixed(1)} ms of CPU`);
});

it("an account that changes to and fro in minutes is told each time, and once for all gateways", async () => {
  let nowMs = 0;
  let records = recordsFrom([{ id: "a", plan: "free" }]);
  const listeners: (() => void)[] = [];
  const marks = new Map<string, number>();
  const told: unknown[] = [];
  let asked = 0;
  const gateway = () => {
    return new RecordChangeWatcher({
      keys: { ready: true, records: () => records, onChange: (heard) => listeners.push(heard) },
      quotas: {
        markFirst: async (marker, lifeMs, change) => {
          asked += 1;
          if ((marks.get(marker) ?? 0) > nowMs) return false;
          marks.set(marker, nowMs + (change?.sameMs ?? lifeMs));
          return true;
        },
      },
      log: createLog({ write: (line) => void told.push(JSON.parse(line).plan) }, "info"),
    });
  };
  const gateways = [gateway(), gateway()];
  const plans = ["pro", "free", "pro", "free"];
  for (const [i, plan] of plans.entries()) {
    nowMs += 60_000;
    records = recordsFrom([{ id: "a", plan }]);
    for (const changed of listeners) changed();
    // The minutes go on when both have asked: one that asks later would find another change.
    await eventually(() => assert.equal(asked, gateways.length * (i + 1)), { withinMs: 10_000 });
    await eventually(() => assert.deepEqual(told, plans.slice(0, i + 1)), { withinMs: 10_000 });
  }
  for (const one of gateways) one.stop();
});

it("a key that the store lost and has again is not told as issued, unlike a new one and one that an import brings", async () => {
  const key = { account: "a", environment: "production", digest: "d" };
  const [old, imported] = [
    { ...key, id: "k_old" },
    { ...key, id: "k_imported" },
  ];
  const withKeys = (...keys: unknown[]) => ({ ...recordsFrom([{ id: "a" }]), keys }) as never;
  const watched = watch(withKeys(old, imported), async () => true);
  const { told } = watched;
  const change = (...keys: unknown[]) => watched.change(withKeys(...keys));
  const isTold = (count: number) =>
    eventually(() => assert.equal(told.length, count), { withinMs: 10_000 });
  // The key that is issued at each step is told when the step has been compared.
  const [a, b, c] = ["k_a", "k_b", "k_c"].map((id) => ({ ...key, id }));
  change(a);
  await isTold(1);
  const restored = { ...old };
  change(a, restored, b);
  await isTold(2);
  change(a, restored, b, { ...imported, importId: "i" });
  await isTold(3);
  change(a, b, c);
  await isTold(4);
  change(a, b, c, { ...old, revokedMs: 1 });
  await isTold(5);
  const kinds = told.map(({ kind, key: id, keys }) => [kind, id ?? keys]);
  assert.deepEqual(kinds, [
    ["key_issued", "k_a"],
    ["key_issued", "k_b"],
    ["keys_imported", 1],
    ["key_issued", "k_c"],
    ["key_revoked", "k_old"],
  ]);
});

it("a key that the store has again is told as revoked once, whatever else of it changes later", async () => {
  const key = { account: "a", environment: "production", digest: "d" };
  const old = { ...key, id: "k_old" };
  const withKeys = (...keys: unknown[]) => ({ ...recordsFrom([{ id: "a" }]), keys }) as never;
  const { told, change } = watch(withKeys(old), async () => true);
  const issued: unknown[] = [];
  const changeOld = async (toldByThen: number, ...others: unknown[]) => {
    // The key that is issued at each step is told when the step has been compared.
    issued.push({ ...key, id: `k_${issued.length}` });
    change(withKeys(...issued, ...others));
    await eventually(() => assert.equal(told.length, toldByThen));
  };
  await changeOld(1);
  await changeOld(3, { ...old, revokedMs: 1 });
  await changeOld(4, { ...old, revokedMs: 1, name: "renamed" });
  const revoked = told.filter(({ kind }) => kind === "key_revoked");
  assert.deepEqual([revoked.length, told.at(-1)?.kind], [1, "key_issued"]);
});

it("a gateway that has stopped asks the store about no further change", async () => {
  const all = (plan: string) => {
    return recordsFrom(Array.from({ length: 1_000 }, (_, i) => ({ id: `a${i}`, plan })));
  };
  const marking: ((isFirst: boolean) => void)[] = [];
  const { watcher, change } = watch(
    all("free"),
    () => new Promise((resolve) => void marking.push(resolve)),
  );
  change(all("pro"));
  await eventually(() => assert.ok(marking.length > 0));
  const asked = marking.length;
  assert.ok(asked < 1_000);
  watcher.stop();
  for (const resolve of marking) resolve(true);
  for (let i = 0; i < 10; i++) await new Promise((resolve) => setImmediate(resolve));
  assert.equal(marking.length, asked);
});

it("every change of 20,000 accounts is told when a store that was away is back, in their order, with how long ago it was seen", async (t) => {
  let isAway = true;
  const ages: unknown[] = [];
  const markFirst: MarkFirst = async (_marker, _lifeMs, change) => {
    ages.push(change?.ageMs);
    if (isAway) throw new Error("away");
    return true;
  };
  const { told, change } = watch(recordsFrom([]), markFirst, { ready: false });
  const ids = Array.from({ length: 20_000 }, (_, i) => `a${i}`);
  const all = (plan: string) => recordsFrom(ids.map((id) => ({ id, plan })));
  change(all("free"));
  for (let i = 0; i < 50; i++) await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual(ages, [], "records that were read after the start are no change");
  change(all("pro"));
  await eventually(() => assert.ok(ages.length > 0));
  // They are asked about again after a second, which has begun a moment before this one sees it.
  const again = { wantedMs: 500, lateMs: 1_500 };
  await expectDuration(t, again, () => eventually(() => assert.ok(ages.length > 512)));
  assert.deepEqual(told, []);
  isAway = false;
  await eventually(() => assert.equal(told.length, ids.length), { withinMs: 20_000 });
  assert.deepEqual(
    told.map(({ account }) => account),
    ids,
  );
  assert.ok(Number(ages.at(-1)) > 900, `the last was seen ${ages.at(-1)} ms ago`);
});

it("changes beyond 100,000 that wait are told as one for each account, of its last state", async () => {
  const store = Promise.withResolvers<boolean>();
  let asked = 0;
  const { told, change } = watch(recordsFrom([{ id: "a", plan: "free" }]), () => {
    asked += 1;
    return store.promise;
  });
  const key = { account: "a", environment: "production", name: "", scopes: [], createdMs: 1 };
  const keys = Array.from({ length: 100_000 }, (_, i) => ({ ...key, id: `k${i}`, digest: `${i}` }));
  const hearAll = async (plan: string) => {
    change({ accounts: recordsFrom([{ id: "a", plan }]).accounts, keys });
    await new Promise((resolve) => setImmediate(resolve));
  };
  await hearAll("free");
  await eventually(() => assert.ok(asked > 0), { withinMs: 20_000 });
  for (const plan of ["pro", "max", "mid"]) await hearAll(plan);
  store.resolve(true);
  await eventually(() => assert.equal(told.length, keys.length + 1), { withinMs: 30_000 });
  const { kind, plan } = told.at(-1) ?? {};
  assert.deepEqual([kind, plan], ["account_changed", "mid"]);
});

it("an account keeps its marker for an hour and a key for a day, and a successor is told as a rotation", async () => {
  const key = { account: "acme", environment: "production", name: "", scopes: [], createdMs: 1 };
  const old = { ...key, id: "k_old", digest: "1" };
  const first = { accounts: recordsFrom([{ id: "acme" }]).accounts, keys: [old] };
  const lives: [string, number][] = [];
  const { told, change } = watch(first, async (marker, lifeMs) => {
    lives.push([marker.split(" ")[0] ?? "", lifeMs / 1_000]);
    return true;
  });
  const replaced = { ...old, replacedBy: "k_new", expiresMs: Date.now() + 60_000 };
  const accounts = recordsFrom([{ id: "acme", plan: "pro" }]).accounts;
  const issued = ["k_new", "k_more"].map((id) => ({ ...key, id, digest: id }));
  change({ accounts, keys: [replaced, ...issued] });
  await eventually(() => assert.equal(told.length, 3));
  const shown = told.map(({ kind, key: id, successor, plan }) => [kind, id, successor ?? plan]);
  assert.deepEqual(shown, [
    ["key_rotated", "k_old", "k_new"],
    ["key_issued", "k_more", "pro"],
    ["account_changed", undefined, "pro"],
  ]);
  assert.deepEqual(
    lives.map(([, seconds]) => seconds),
    [86_400, 86_400, 3_600],
  );
});

it("keys that are read only after the start are no change", async () => {
  const key = { account: "a", environment: "production", name: "", scopes: [], createdMs: 1 };
  const marked: string[] = [];
  const markFirst: MarkFirst = async (marker) => marked.push(marker) > 0;
  const { change } = watch(recordsFrom([]), markFirst, { ready: false });
  const read = (...ids: string[]) => {
    change({ accounts: [], keys: ids.map((id) => ({ ...key, id, digest: id })) });
  };
  read("early");
  for (let i = 0; i < 50; i++) await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual(marked, []);
  read("early", "late");
  await eventually(() => assert.equal(marked.length, 1));
});

it("a change that comes while others are asked about waits its turn, and is asked about once", async () => {
  const marked: string[] = [];
  const first = Promise.withResolvers<boolean>();
  const { change } = watch(recordsFrom([{ id: "a" }, { id: "b" }]), (marker) => {
    return marked.push(marker) === 1 ? first.promise : Promise.resolve(true);
  });
  change(recordsFrom([{ id: "a", plan: "pro" }, { id: "b" }]));
  await eventually(() => assert.equal(marked.length, 1));
  change(
    recordsFrom([
      { id: "a", plan: "pro" },
      { id: "b", plan: "pro" },
    ]),
  );
  for (let i = 0; i < 50; i++) await new Promise((resolve) => setImmediate(resolve));
  assert.equal(marked.length, 1);
  first.resolve(true);
  await eventually(() => assert.equal(new Set(marked).size, 2));
  assert.equal(marked.length, 2);
});

it("changes of many records are told keys first, however many turns their comparison takes", async () => {
  let nowMs = 0;
  const clock = vi.spyOn(performance, "now").mockImplementation(() => {
    nowMs += 2;
    return nowMs;
  });
  onTestFinished(() => clock.mockRestore());
  const given = (plan: string) => {
    const keys = Array.from({ length: 400 }, (_, i) => ({ id: `k${i}`, account: `a${i % 40}` }));
    return recordsFrom(keys.map((key) => ({ ...key, plan, createdMs: 1 })));
  };
  const { told, change } = watch({ ...given("free"), keys: [] }, async () => true);
  change(given("pro"));
  await eventually(() => assert.equal(told.length, 440));
  assert.deepEqual(
    told.map(({ kind }) => kind),
    [...Array(400).fill("key_issued"), ...Array(40).fill("account_changed")],
  );
});
