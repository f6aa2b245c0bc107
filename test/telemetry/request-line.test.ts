import assert from "node:assert/strict";
import fc from "fast-check";
import { it } from "vitest";
import type { AccessLogEntry } from "../../src/telemetry/log/access-log-entry.ts";
import { createLog } from "../../src/telemetry/log/log.ts";

const REFUSED: Omit<AccessLogEntry, "windows" | "by"> = {
  ...{ id: "r", env: "production", account: "a", key: "k", plan: "free", method: "GET" },
  ...{ route: "/v1/pets", path: "/v1/pets", status: 429, code: "rate_limited" },
  ...{ source: "gateway", decision: "refused", charged: 0, forwards: 0, durationMs: 1 },
  ...{ client: "127.0.0.1", why: undefined },
};

it("every line of a refusal that is known from memory has its windows, not the first alone", () => {
  const told: unknown[] = [];
  const log = createLog({ write: (line) => told.push(JSON.parse(line).windows) }, "info");
  const [day, month] = [
    [["day", 10, 10, 1_790_000_000]],
    [
      ["day", 3, 10, 1_790_000_000],
      ["month", 99, 99, 1_790_000_000],
    ],
  ] as const;
  const lines = [day, month, day, month];
  for (const windows of lines) log.request({ ...REFUSED, windows, by: "memory" });
  assert.deepEqual(told, lines);
});

it("reads back as the texts and the duration that were logged, whatever they are", () => {
  const text = fc.oneof(
    fc.string(),
    fc.string({ unit: "binary" }),
    fc.constantFrom('"', "\\", "\x7f"),
  );
  const duration = fc.oneof(fc.nat(2e6), fc.nat(2 ** 50)).map((us) => us / 1_000);
  fc.assert(
    fc.property(text, text, text, text, duration, (method, route, path, plan, durationMs) => {
      let entry: AccessLogEntry | undefined;
      const log = createLog({ write: (told) => (entry = JSON.parse(told)) }, "info");
      const given = { method, route, path, plan, durationMs };
      log.request({ ...REFUSED, ...given });
      assert.deepEqual({ ...entry, ...given }, entry);
    }),
  );
});

it("has each member that is known, as it is, and none that is not", () => {
  const lines: Record<string, unknown>[] = [];
  const log = createLog({ write: (line) => void lines.push(JSON.parse(line)) }, "info");
  const known = {
    ...{
      ...REFUSED,
      meta: { tenant: "42" },
      upstream: "http://10.0.0.1:80",
      backend: '/v1/"orders"',
    },
    ...{ traceId: "0af7651916cd43dd8448eb211c80319c", decidedAt: 1_790_000_000_001, cost: 3 },
    ...{ strikes: 2, config: "0123abcd", meters: { tokens: { hold: 5, used: 4 } } },
    ...{ observed: ["day"], windows: [["day", 9, 10, 1_790_000_000]], holds: { tokens: 7 } },
    ...{
      monthFrom: 1_789_000_000,
      by: "share",
      ban: 1_790_000_060,
      until: 1_790_000_061,
      why: "of a share",
    },
  } as const;
  log.request(known as unknown as AccessLogEntry);
  const { level, time, msg, ...told } = lines[0] ?? {};
  assert.deepEqual([level, msg, told], ["info", "request", known]);
  assert.ok(Math.abs(Number(time) - Date.now()) < 60_000);
  log.request({
    ...{ ...REFUSED, env: undefined, account: undefined, key: undefined, plan: undefined },
    ...{ route: undefined, code: undefined },
  });
  assert.deepEqual(Object.keys(lines[1] ?? {}), [
    ...["level", "time", "id", "method", "path", "status", "source", "decision", "charged"],
    ...["forwards", "durationMs", "client", "msg"],
  ]);
});

it("has its duration in milliseconds with three decimals at most", () => {
  const durations: unknown[] = [];
  const write = (text: string) => void durations.push(/"durationMs":([^,]*)/.exec(text)?.[1]);
  const log = createLog({ write }, "info");
  for (const durationMs of [7, 1.001, 1.009, 1.01, 1.099, 1.1, 1.9994, 0.0004]) {
    log.request({ ...REFUSED, durationMs } as AccessLogEntry);
  }
  const told = ["7", "1.001", "1.009", "1.010", "1.099", "1.100", "1.999", "0"];
  assert.deepEqual(durations, told);
});

it("is written at the level info and below, and an event with the name of its gateway at any level, told where all is silent too", () => {
  for (const [level, told] of [
    ["debug", ["event", "event", "request", "draining"]],
    ["info", ["event", "event", "request", "draining"]],
    ["warn", ["event", "event"]],
    ["error", ["event", "event"]],
    ["silent", []],
  ] as const) {
    const lines: Record<string, unknown>[] = [];
    const heard: unknown[] = [];
    const log = createLog({ write: (line) => void lines.push(JSON.parse(line)) }, "error", "here");
    log.onEvent((kind, details) => heard.push([kind, details]));
    log.setLevel(level);
    log.warn("ban", { account: "a" });
    log.info("ban_lifted", { account: "a" });
    log.request(REFUSED as AccessLogEntry);
    log.info("draining", { signal: "SIGTERM" });
    assert.deepEqual(
      lines.map(({ msg }) => msg),
      told,
      level,
    );
    const all = ["ban", "ban_lifted"].map((kind) => [kind, { account: "a" }]);
    assert.deepEqual(heard, all, "no other line is an event");
    const [event] = lines;
    if (event !== undefined) {
      assert.equal(Object.keys(event).join(), "level,time,kind,gateway,account,msg");
    }
    const shown = [event?.kind, event?.gateway, event?.level, event?.account];
    if (told.length > 0) assert.deepEqual(shown, ["ban", "here", "warn", "a"]);
  }
});
