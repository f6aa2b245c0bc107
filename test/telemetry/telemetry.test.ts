import assert from "node:assert/strict";
import { it } from "vitest";
import { createLog } from "../../src/telemetry/log/log.ts";
import { Telemetry } from "../../src/telemetry/tracing/telemetry.ts";
import { openBlackHole } from "../support/black-hole.ts";
import { eventually } from "../support/poll.ts";

it("spans that a collector never took stay counted when a reload turns telemetry off or names another", async () => {
  const telemetry = new Telemetry(createLog({ write: () => {} }, "info"));
  const source = { version: "1", instance: "one" };
  const settings = { otlp: "http://127.0.0.1:1", sample: 1, serviceName: "tollgate" };
  const facts = { scheme: "http", host: "a", version: "1.1" } as const;
  const line = { method: "GET", path: "/", status: 200, durationMs: 1 };
  for (const [i, next] of [{ ...settings, serviceName: "other" }, undefined].entries()) {
    await telemetry.configure(i === 0 ? settings : { ...settings, serviceName: "other" }, source);
    telemetry.tracing?.begin([]).end(line as never, facts);
    await telemetry.configure(next, source);
    await eventually(() => assert.equal(telemetry.dropped, i + 1));
  }
  assert.equal(telemetry.tracing, undefined);
  await telemetry.close(0);
});

it("the count of dropped spans never falls, not even while the exporter of earlier settings ends", async () => {
  await using hole = await openBlackHole();
  const telemetry = new Telemetry(createLog({ write: () => {} }, "info"));
  const source = { version: "1", instance: "one" };
  const settings = { otlp: hole.origin, sample: 1, serviceName: "tollgate" };
  await telemetry.configure(settings, source);
  const begin = () => telemetry.tracing?.begin([]);
  const line = { method: "GET", path: "/", status: 200, durationMs: 1 };
  const facts = { scheme: "http", host: "a", version: "1.1" } as const;
  for (let i = 0; i < 4_097; i++) begin()?.end(line as never, facts);
  assert.equal(telemetry.dropped, 1);
  await telemetry.configure(undefined, source);
  assert.equal(telemetry.dropped, 1);
});
