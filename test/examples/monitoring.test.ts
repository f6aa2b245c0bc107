import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "vitest";
import { parse, stringify } from "yaml";
import { createPrometheusMetrics } from "../../src/admin/prometheus.ts";
import { REFUSALS } from "../../src/core/refusal-table.ts";
import { METRICS } from "../../src/telemetry/metrics/metrics.ts";
import { UNWATCHED } from "../admin/admin-house.ts";
import { each } from "../support/each.ts";
import { startProgram } from "../support/gateway/processes.ts";
import { needing } from "../support/needing.ts";
import { readExample } from "./example-file.ts";

const EXAMPLES = new URL("../../examples/", import.meta.url).pathname;

type Panel = {
  readonly id: number;
  readonly title: string;
  readonly type: string;
  readonly gridPos: { readonly x: number; readonly y: number; readonly w: number; h: number };
  readonly targets?: readonly { readonly expr: string }[];
};
type Dashboard = {
  readonly panels: readonly Panel[];
  readonly templating: { readonly list: readonly { readonly name: string; query: unknown }[] };
};
type Rule = {
  readonly alert: string;
  readonly expr: string;
  readonly annotations: Readonly<Record<string, string>>;
};

const dashboard = JSON.parse(readExample("grafana/tollgate.json")) as Dashboard;
const rules = (parse(readExample("prometheus/alerts.yaml")) as { groups: { rules: Rule[] }[] })
  .groups[0]?.rules as Rule[];
const { tests } = parse(readExample("prometheus/alerts.test.yaml")) as {
  tests: { name: string; input_series: { series: string }[] }[];
};

const queries = dashboard.panels.flatMap(({ title, targets = [] }) =>
  targets.map(({ expr }) => [title, expr] as const),
);
const variables = dashboard.templating.list.map(({ name, query }) => {
  return [`$${name}`, typeof query === "string" ? query : (query as { query: string }).query];
});

/** The labels of each metric that a gateway tells, and those that a scrape adds. */
async function told(): Promise<ReadonlyMap<string, ReadonlySet<string>>> {
  const scraped = ["job", "instance"];
  const all = new Map<string, ReadonlySet<string>>([["up", new Set(scraped)]]);
  for (const [name, { type, labels }] of Object.entries(METRICS)) {
    const suffixes = type === "histogram" ? ["_bucket", "_sum", "_count"] : [""];
    for (const suffix of suffixes) {
      const own = suffix === "_bucket" ? ["le", ...labels] : labels;
      all.set(`tollgate_${name}${suffix}`, new Set([...scraped, ...own]));
    }
  }
  const text = await createPrometheusMetrics(UNWATCHED).render();
  for (const [, name = ""] of text.matchAll(/^((?:process|nodejs)_\w+)/gm)) {
    all.set(name, new Set(scraped));
  }
  return all;
}

/** Metrics of a query with the labels that it asks them for; and labels by which it sums. */
function partsOf(query: string) {
  const metrics = [...query.matchAll(/\b((?:tollgate|process|nodejs)_\w+|up(?=\{))(\{[^}]*\})?/g)];
  const sums = [...query.matchAll(/\b(?:by|without) \(([^)]*)\)/g)];
  return {
    metrics: metrics.map(([, name = "", matchers = ""]) => ({
      name,
      labels: [...matchers.matchAll(/(\w+)\s*(?:=~|!~|!=|=)/g)].map(([, label = ""]) => label),
    })),
    by: sums.flatMap(([, labels = ""]) => labels.split(",").map((label) => label.trim())),
  };
}

describe("Every query of the examples", () => {
  const all = [
    ...queries,
    ...variables,
    ...rules.map(({ alert, expr }) => [alert, expr] as const),
    ...tests.flatMap(({ name, input_series }) =>
      input_series.map(({ series }) => [name, series] as const),
    ),
  ];
  it("names metrics that a gateway tells, and labels that they have", async () => {
    const known = await told();
    assert.ok(all.length > 60);
    const sides = all.flatMap(([where = "", query = ""]) => {
      return query.split(/\b(?:unless|and|or) on \(\)/).map((side) => [where, side] as const);
    });
    for (const [where, query] of each(sides)) {
      const { metrics, by } = partsOf(query);
      if (where.startsWith("$") && metrics.length === 0) continue;
      assert.ok(metrics.length > 0, `${where}: no metric in ${query}`);
      for (const { name, labels } of metrics) {
        const has = known.get(name);
        assert.ok(has !== undefined, `${where}: there is no ${name}`);
        const wrong = [...labels, ...by].filter((label) => !has.has(label));
        assert.deepEqual(wrong, [], `${where}: labels that ${name} does not have`);
      }
    }
  });

  it("leaves out no metric that can tell of trouble", () => {
    const text = JSON.stringify([queries, rules]);
    const missing = Object.keys(METRICS).filter((name) => !text.includes(`tollgate_${name}`));
    // The number of workers and the time of the last reload are for people who look them up.
    const wanted = ["config_last_reload_success_timestamp_seconds", "workers"];
    assert.deepEqual(missing.toSorted(), wanted);
  });
});

describe("The dashboard", () => {
  it("has panels that do not lie upon each other, each with a number of its own", () => {
    const ids = new Set(dashboard.panels.map(({ id }) => id));
    assert.equal(ids.size, dashboard.panels.length);
    const taken = new Set<string>();
    for (const { title, gridPos } of dashboard.panels) {
      const { x, y, w, h } = gridPos;
      assert.ok(x + w <= 24, title);
      for (let i = x; i < x + w; i++) {
        for (let j = y; j < y + h; j++) {
          assert.ok(!taken.has(`${i} ${j}`), `${title} lies upon another panel`);
          taken.add(`${i} ${j}`);
        }
      }
    }
  });

  it("knows every variable that it uses", () => {
    const known = new Set(["$__rate_interval", ...variables.map(([name]) => name)]);
    for (const [title, query] of each(queries)) {
      for (const [name] of each(query.matchAll(/\$\w+/g)))
        assert.ok(known.has(name), `${title}: ${name}`);
    }
  });
});

it("each alert is tested with figures that it is for, and with figures that it is not for", () => {
  const wanted = rules.flatMap(({ alert }) => [`${alert} fires`, `${alert} stays silent`]);
  assert.deepEqual(
    tests.map(({ name }) => name),
    wanted,
  );
});

it("each alert names its entry in the runbook, and each entry is of an alert", () => {
  const page = readFileSync(join(EXAMPLES, "../docs/operations.md"), "utf8");
  const [, runbook = ""] = /^## Alerts$(.*?)^## /ms.exec(page) ?? [];
  const entries = [...runbook.matchAll(/^### (\w+)\n\n(.+?)(?=\n\n|$)/gms)];
  assert.deepEqual(
    entries.map(([, name]) => name),
    rules.map(({ alert }) => alert),
  );
  for (const [, name, text = ""] of each(entries)) assert.ok(text.length > 80, `${name}: ${text}`);
  for (const { alert, annotations } of rules) {
    assert.equal(annotations.runbook, `docs/operations.md#${alert.toLowerCase()}`);
  }
});

it("TollgateGatewayErrors goes by each 5xx that neither a client nor the operator asks for", () => {
  const { expr = "" } = rules.find(({ alert }) => alert === "TollgateGatewayErrors") ?? {};
  const sides = [...expr.matchAll(/refusals_total\{code=~"([^"]+)"\}/g)];
  assert.equal(sides.length, 2, "those that count are also among all");
  const others = [
    "not_implemented",
    "maintenance",
    "too_many_tunnels",
    "http_version",
    "loop_detected",
  ];
  const failures = Object.entries(REFUSALS).filter(([code, { status }]) => {
    return status >= 500 && !others.includes(code);
  });
  for (const [, pattern = ""] of each(sides)) {
    const counted = Object.keys(REFUSALS).filter((code) =>
      new RegExp(`^(?:${pattern})$`).test(code),
    );
    assert.deepEqual(
      counted,
      failures.map(([code]) => code),
    );
  }
});

/** A query of the dashboard as Grafana sends it, with every choice taken. */
function replaceVariables(query: string): string {
  return query.replaceAll("$__rate_interval", "5m").replaceAll(/\$\w+/g, ".*");
}

describe("promtool", needing("promtool"), () => {
  const promtool = async (args: readonly string[], stdin = "") => {
    const { code, stdout, stderr } = await startProgram("promtool", args, { stdin }).exited;
    assert.equal(code, 0, stdout + stderr);
    return stdout + stderr;
  };

  it("takes the alerts and the configuration, and finds each alert as its test says", async () => {
    const folder = join(EXAMPLES, "prometheus");
    await promtool(["check", "config", join(folder, "prometheus.yaml")]);
    await promtool(["test", "rules", join(folder, "alerts.test.yaml")]);
  });

  it("has no share of refusals but 0 before the first one, and no commands for each request while there are none", async () => {
    const folder = await mkdtemp(join(tmpdir(), "tollgate-panels-"));
    const of = 'env="production",instance="gw:9090",job="tollgate"';
    // Busy for five minutes, then idle; the store has its heartbeats all the time.
    const input_series = [
      { series: `tollgate_decisions_total{decision="admitted",${of}}`, values: "0+30x20 600x60" },
      { series: `tollgate_http_requests_total{code="200",${of}}`, values: "0+30x20 600x60" },
      {
        series: 'tollgate_store_commands_total{instance="gw:9090",job="tollgate"}',
        values: "0+15x80",
      },
    ];
    const panel = (wanted: string, eval_time: string, values: readonly number[]) => {
      const [, query = ""] = each(queries).find(([title]) => title === wanted) ?? [];
      const expr = replaceVariables(query.replaceAll('"$job"', '"tollgate"'));
      return { expr, eval_time, exp_samples: values.map((value) => ({ labels: "{}", value })) };
    };
    const tests = [
      {
        interval: "15s",
        input_series,
        promql_expr_test: [
          panel("Refused", "5m", [0]),
          panel("Commands to the store for each request", "5m", [0.5]),
          panel("Commands to the store for each request", "15m", []),
        ],
      },
    ];
    try {
      const file = join(folder, "panels.yaml");
      await writeFile(file, stringify({ tests }));
      await promtool(["test", "rules", file]);
    } finally {
      await rm(folder, { recursive: true });
    }
  });

  it("takes every query of the dashboard", async () => {
    const folder = await mkdtemp(join(tmpdir(), "tollgate-rules-"));
    try {
      const recorded = queries.map(([, query], i) => ({
        record: `query:${i}`,
        expr: replaceVariables(query),
      }));
      const file = join(folder, "rules.yaml");
      await writeFile(file, stringify({ groups: [{ name: "queries", rules: recorded }] }));
      await promtool(["check", "rules", file]);
    } finally {
      await rm(folder, { recursive: true });
    }
  });

  it("finds nothing to say of the metrics of a gateway", async () => {
    const metrics = createPrometheusMetrics({
      ...UNWATCHED,
      workers: () => ({ serving: 2, restarts: 1 }),
    });
    metrics.configured({ hash: "aa", environments: [], metrics: { routes: 50 } }, 0);
    assert.equal(await promtool(["check", "metrics"], await metrics.render()), "");
  });
});
