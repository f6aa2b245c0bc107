import assert from "node:assert/strict";
import { it } from "vitest";
import {
  findChangedRecords,
  RecordChangeWatcher,
} from "../../../src/server/events/record-change-watcher.ts";
import { createLog } from "../../../src/telemetry/log/log.ts";
import { eventually } from "../../support/poll.ts";
import { recordsFrom } from "../../support/records.ts";

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
  const gateway = () => {
    return new RecordChangeWatcher({
      keys: { ready: true, records: () => records, onChange: (heard) => listeners.push(heard) },
      quotas: {
        markFirst: async (marker, lifeMs) => {
          if ((marks.get(marker) ?? 0) > nowMs) return false;
          marks.set(marker, nowMs + lifeMs);
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
    await eventually(() => assert.deepEqual(told, plans.slice(0, i + 1)), { withinMs: 10_000 });
  }
  for (const one of gateways) one.stop();
});

it("a gateway that has stopped asks the store about no further change", async () => {
  const all = (plan: string) => {
    return recordsFrom(Array.from({ length: 1_000 }, (_, i) => ({ id: `a${i}`, plan })));
  };
  let records = all("free");
  let changed = () => {};
  const marking: ((isFirst: boolean) => void)[] = [];
  const watcher = new RecordChangeWatcher({
    keys: {
      ready: true,
      records: () => records,
      onChange: (heard) => {
        changed = heard;
      },
    },
    quotas: { markFirst: () => new Promise((resolve) => void marking.push(resolve)) },
    log: createLog({ write: () => {} }, "info"),
  });
  records = all("pro");
  changed();
  await eventually(() => assert.ok(marking.length > 0));
  const asked = marking.length;
  assert.ok(asked < 1_000);
  watcher.stop();
  for (const resolve of marking) resolve(true);
  for (let i = 0; i < 10; i++) await new Promise((resolve) => setImmediate(resolve));
  assert.equal(marking.length, asked);
});
