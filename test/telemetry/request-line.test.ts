import assert from "node:assert/strict";
import fc from "fast-check";
import { it } from "vitest";
import { type AccessLogEntry, createLog } from "../../src/telemetry/log/log.ts";

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
    [["month", 99, 99, 1_790_000_000]],
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
      let line: AccessLogEntry | undefined;
      const log = createLog({ write: (told) => (line = JSON.parse(told)) }, "info");
      const given = { method, route, path, plan, durationMs };
      log.request({ ...REFUSED, ...given });
      assert.deepEqual({ ...line, ...given }, line);
    }),
  );
});
