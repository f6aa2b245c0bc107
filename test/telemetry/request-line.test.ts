import assert from "node:assert/strict";
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
