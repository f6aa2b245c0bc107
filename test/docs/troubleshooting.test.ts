import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "vitest";
import { EVENT_KINDS } from "../../src/config/schema/observability.ts";
import { REFUSALS } from "../../src/core/refusal-table.ts";
import { LOG_EVENTS } from "../../src/telemetry/log/log-events.ts";
import { readinessChecks } from "../../src/telemetry/readiness.ts";

const PAGE = readFileSync(join(import.meta.dirname, "../../docs/troubleshooting.md"), "utf8");

function missing(names: readonly string[]): readonly string[] {
  assert.ok(names.length > 0);
  return names.filter((name) => !PAGE.includes(`\`${name}\``));
}

describe("the page of troubles", () => {
  it("has every code of the table of refusals", () => {
    assert.deepEqual(missing(Object.keys(REFUSALS)), []);
  });

  it("has every check of /readyz", () => {
    const ok = { ok: true } as const;
    const checks = readinessChecks({
      ...{ reloadFailed: undefined, store: ok, keys: ok, upstreams: [], draining: false },
      ...{ workers: ok, logTrouble: "full" },
    });
    assert.deepEqual(missing(Object.keys(checks)), []);
  });

  it("has every kind of event, and every warning and error of the log", () => {
    const grave = Object.entries(LOG_EVENTS).filter(([, { level }]) => {
      return level === "warn" || level === "error";
    });
    assert.deepEqual(missing([...EVENT_KINDS, ...grave.map(([name]) => name)]), []);
  });
});
