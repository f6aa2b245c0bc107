import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { describe, it } from "vitest";
import { GENERATED } from "../scripts/pages/generated.ts";
import { createPrometheusMetrics } from "../src/admin/prometheus.ts";
import { ACCESS_LOG_FIELDS, type AccessLogEntry } from "../src/telemetry/log/access-log-entry.ts";
import { EVENTS } from "../src/telemetry/log/events.ts";
import { createLog } from "../src/telemetry/log/log.ts";
import { LOG_EVENTS } from "../src/telemetry/log/log-events.ts";
import { METRICS, type MetricRow } from "../src/telemetry/metrics/metrics.ts";
import { UNWATCHED } from "./admin/admin-house.ts";
import { each } from "./support/each.ts";

describe("a file that is made from the code is committed as the code makes it", () => {
  for (const { path, text } of GENERATED) {
    it(path, () => {
      const committed = readFileSync(new URL(`../${path}`, import.meta.url), "utf8");
      assert.equal(committed, text(), "run npm run generate");
    });
  }
});

describe("the rows", () => {
  const LINE: AccessLogEntry = {
    id: "r1",
    env: "production",
    account: "acme",
    key: "k_1",
    plan: "free",
    meta: { tenant: "42" },
    method: "GET",
    route: "/v1/pets",
    path: "/v1/pets",
    status: 429,
    code: "rate_limited",
    source: "gateway",
    decision: "refused",
    charged: 0,
    forwards: 0,
    durationMs: 5,
    client: "192.0.2.1",
    upstream: "http://127.0.0.1:9001",
    backend: "/v1/orders",
    traceId: "0af7651916cd43dd8448eb211c80319c",
    decidedAt: 1,
    cost: 1,
    strikes: 0,
    config: "01234567",
    meters: { tokens: { hold: 2000, used: 137 } },
    observed: ["hour"],
    over: "key.minute",
    windows: [["minute", 60, 60, 2]],
    by: "memory",
    holds: { tokens: 1 },
    monthFrom: 1,
    ban: 3,
    until: 4,
    why: "used up",
  };
  const written = (entry: AccessLogEntry): Record<string, unknown> => {
    let text = "";
    createLog({ write: (more: string) => (text += more) }, "info").request(entry);
    return JSON.parse(text) as Record<string, unknown>;
  };

  it("of the log name every member of a line, in its order", () => {
    assert.deepEqual(Object.keys(written(LINE)), Object.keys(ACCESS_LOG_FIELDS));
  });

  it("of the log say which members a line may lack, and no others", () => {
    const bare = Object.fromEntries(
      Object.entries(LINE).map(([name, value]) => {
        const { absent } = ACCESS_LOG_FIELDS[name as keyof AccessLogEntry];
        return [name, absent === undefined ? value : undefined];
      }),
    ) as AccessLogEntry;
    const lacking = Object.keys(ACCESS_LOG_FIELDS).filter((name) => !(name in written(bare)));
    const mayLack = Object.entries(ACCESS_LOG_FIELDS).filter(
      ([, { absent }]) => absent !== undefined,
    );
    assert.deepEqual(
      lacking,
      mayLack.map(([name]) => name),
    );
  });

  it("of the events are those that the code writes, each at its level", () => {
    const levels = new Map<string, Set<string>>();
    const calls =
      /(?:\b(debug|info|warn|error)|report\(\s*"(debug|info|warn|error)",)[(\s]*"([a-z_]+)"/g;
    for (const path of globSync("src/**/*.ts", { cwd: new URL("..", import.meta.url) })) {
      const text = readFileSync(new URL(`../${path}`, import.meta.url), "utf8");
      for (const [, called, reported, event = ""] of text.matchAll(calls)) {
        levels.set(event, (levels.get(event) ?? new Set()).add(called ?? reported ?? ""));
      }
    }
    // The names and levels of the three states of memory are put together in listen/periodic-tasks.ts,
    // the line of dropped ones is written by server/process/log-pipe.ts itself, and that of caps has
    // its name from core/keys/record-events.ts.
    const elsewhere = ["log_lines_dropped", "caps_added"];
    const rows = Object.entries(LOG_EVENTS).filter(([event]) => {
      return !event.startsWith("memory_") && !elsewhere.includes(event);
    });
    for (const [event, { level }] of rows) {
      assert.deepEqual([...(levels.get(event) ?? [])], [level], event);
    }
    assert.ok(levels.size >= rows.length);
    // Some events have their names from elsewhere, such as those of changed records.
    for (const [event, { level }] of Object.entries(EVENTS)) {
      assert.deepEqual([...(levels.get(event) ?? [level])], [level], event);
    }
  });

  it("of the metrics are what a scrape has, by name, type and help", async () => {
    const metrics = createPrometheusMetrics({
      ...UNWATCHED,
      workers: () => ({ serving: 2, restarts: 0 }),
    });
    const text = await metrics.render();
    const types = [...text.matchAll(/^# TYPE tollgate_(\S+) (\w+)$/gm)];
    assert.deepEqual(types.map(([, name]) => name).sort(), Object.keys(METRICS).sort());
    for (const [, name = "", type] of each(types)) {
      const row: MetricRow = METRICS[name as keyof typeof METRICS];
      assert.equal(type, row.type, name);
      assert.ok(text.includes(`# HELP tollgate_${name} ${row.help}\n`), name);
    }
  });
});
