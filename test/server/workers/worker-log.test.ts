import assert from "node:assert/strict";
import { it } from "vitest";
import type { WorkerMessage } from "../../../src/server/workers/messages.ts";
import { workerLog } from "../../../src/server/workers/worker-log.ts";
import { createLog } from "../../../src/telemetry/log/log.ts";

function opened() {
  const lines: unknown[] = [];
  const sent: WorkerMessage[] = [];
  const write = (text: string) => {
    const { time: _, ...line } = JSON.parse(text) as Record<string, unknown>;
    lines.push(line);
  };
  const send = async (message: WorkerMessage) => void sent.push(message);
  return { log: workerLog(createLog({ write }, "debug"), { number: 7, send }), lines, sent };
}

it("a line of a worker has its number and its level", () => {
  const { log, lines, sent } = opened();
  for (const level of ["debug", "info", "warn", "error"] as const) log[level]("draining");
  log.warn("config_warning", { why: "words" });
  assert.deepEqual(lines, [
    ...["debug", "info", "warn", "error"].map((level) => ({ level, worker: 7, msg: "draining" })),
    { level: "warn", why: "words", worker: 7, msg: "config_warning" },
  ]);
  assert.deepEqual(sent, []);
});

it("what the supervisor tells of the records too, from their trouble to its end, is told by no worker", () => {
  const { log, lines, sent } = opened();
  for (const kind of ["keys_lost", "keys_unreadable", "keys_older"] as const) log.error(kind);
  for (const kind of ["keys_found", "keys_readable"] as const) log.info(kind);
  assert.deepEqual([lines, sent], [[], []]);
});

it("a worker leaves it to the supervisor to tell that the store, or a part of it, is away or back", () => {
  const { log, lines, sent } = opened();
  log.error("store_away", { why: "gone" });
  log.info("store_back", { accountsCharged: 2, buckets: "3,4" });
  assert.deepEqual(sent, [
    { store: { kind: "store_away", details: { why: "gone" } } },
    { store: { kind: "store_back", details: { accountsCharged: 2, buckets: "3,4" } } },
  ]);
  assert.deepEqual(lines, []);
});
