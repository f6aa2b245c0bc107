import assert from "node:assert/strict";
import { describe, it } from "vitest";
import type { Config } from "../../src/config/config.ts";
import { maskedConfig } from "../../src/config/queries/masked-config.ts";
import { meterBounds } from "../../src/config/queries/meter-bounds.ts";
import { findRoute } from "../../src/core/http/route.ts";
import { loadFiles, told } from "./folder.ts";

const COSTS = `environments:
  production:
    listen: 127.0.0.1:0
    keyTag: live
    upstreams: [http://127.0.0.1:9001]
    costs:
`;

async function load(text: string, files: Readonly<Record<string, string>> = {}) {
  const loaded = await loadFiles({ "tollgate.yaml": text, ...files });
  assert.ok(loaded.ok, told(loaded).join("\n"));
  const warnings = loaded.warnings.map(({ line, message }) => `${line}: ${message}`);
  return { config: loaded.config, warnings };
}

function routeOf({ environments: [served] }: Config, method: string, path: string) {
  assert.ok(served !== undefined);
  const { cost, meters } = findRoute(served.routes, method, path);
  return { cost, meters };
}

const TOKENS = {
  name: "tokens",
  hold: 2_000,
  max: 16_000,
  untold: 2_000,
  used: [
    { from: "header", name: "x-tokens-used" },
    { from: "json", pointer: ["usage", "total_tokens"] },
    { from: "sse", pointer: ["usage", "total_tokens"] },
  ],
};
const TOKENS_TEXT =
  "{ tokens: { hold: 2000, max: 16000, used: [header X-Tokens-Used, json /usage/total_tokens, sse /usage/total_tokens] } }";

describe("meters of the configuration", () => {
  it("belong to a route of costs, which then costs 1 unless it says another cost", async () => {
    const { config, warnings } = await load(`${COSTS}
      - { match: POST /v1/chat/completions, meters: ${TOKENS_TEXT} }
      - { match: GET /v1/jobs, cost: 7, meters: { tokens: { hold: 0, max: 9, untold: max, used: [header a] } } }
      - { match: GET /v1/rows, cost: 0, meters: { tokens: { hold: 3, max: 9, untold: 5, used: [header a] } } }
plans:
  pro: { minute: 300, meters: { tokens: { day: 90000, month: 5000000 } } }
`);
    const chat = routeOf(config, "POST", "/v1/chat/completions");
    assert.deepEqual(chat, { cost: 1, meters: [TOKENS] });
    const jobs = routeOf(config, "HEAD", "/v1/jobs");
    assert.deepEqual([jobs.cost, jobs.meters[0]?.hold, jobs.meters[0]?.untold], [7, 0, 9]);
    const rows = routeOf(config, "GET", "/v1/rows");
    assert.deepEqual([rows.cost, rows.meters[0]?.untold], [0, 5]);
    assert.deepEqual(routeOf(config, "GET", "/v1/else"), { cost: 1, meters: [] });
    assert.equal(warnings.length, 1);
    assert.match(warnings[0] ?? "", /^9: With a hold of 0 .* by 9, and only concurrent bounds/);
  });

  it("belong to an operation of a description, by x-meters", async () => {
    const { config, warnings } = await load(
      `environments:
  production: { listen: 127.0.0.1:0, keyTag: live, api: api.yaml, upstreams: [http://127.0.0.1:9001] }
plans:
  pro: { minute: 300, meters: { tokens: { day: 90000 } } }
`,
      {
        "api.yaml": `openapi: 3.1.0
paths:
  /chat:
    get: { operationId: read }
    post: { operationId: ask, x-meters: ${TOKENS_TEXT} }
`,
      },
    );
    assert.deepEqual(routeOf(config, "POST", "/v1/chat").meters, [TOKENS]);
    assert.deepEqual(routeOf(config, "GET", "/v1/chat").meters, []);
    assert.deepEqual(warnings, []);
  });

  it("belong to a plan, each with windows of its own, the shortest first", async () => {
    const { config } = await load(`${COSTS}      []
plans:
  pro: { minute: 300, meters: { tokens: { month: 50, minute: 9 }, rows: unlimited } }
  own: { custom: true, meters: { rows: { day: 7 } } }
  agreed: custom
`);
    const meters = (plan: string) => config.planBounds.get(plan)?.meters;
    const part = { id: "#tokens", name: "tokens" };
    const rows = { id: "#rows", name: "rows" };
    assert.deepEqual(meters("pro"), [
      {
        name: "tokens",
        limits: [
          { window: "minute", limit: 9, part },
          { window: "month", limit: 50, part },
        ],
      },
      {
        name: "rows",
        limits: [{ window: "month", limit: Number.MAX_SAFE_INTEGER, part: rows, observed: true }],
      },
    ]);
    assert.deepEqual(meters("own"), [
      { name: "rows", limits: [{ window: "day", limit: 7, part: rows }] },
    ]);
    assert.deepEqual(meters("agreed"), []);
  });

  it("have a warning where a longer window allows less than a shorter one, and none for as much", async () => {
    for (const [minute, isLess] of [
      [5, false],
      [6, true],
    ] as const) {
      const plan = `{ minute: 9, meters: { tokens: { minute: ${minute}, day: 5 } } }`;
      const costs = `${COSTS}      - { match: POST /v1/a, meters: ${TOKENS_TEXT} }\n`;
      const { warnings } = await load(`${costs}plans: { pro: ${plan} }\n`);
      assert.equal(warnings.join().includes("is never reached"), isLess, `${minute}`);
    }
  });

  it("are shown by /api/config as the file has them", async () => {
    const plans = { pro: { minute: 300, meters: { tokens: { day: 9 }, rows: "unlimited" } } };
    const { config } = await load(`${COSTS}
      - { match: POST /v1/chat, meters: { tokens: { hold: 1, max: 2, used: [header a, "json /a~1b/~0"] } } }
plans: ${JSON.stringify(plans)}
`);
    const shown = maskedConfig(config) as {
      plans: unknown;
      environments: { production: { costs: unknown } };
    };
    assert.deepEqual(shown.plans, plans);
    const used = ["header a", "json /a~1b/~0"];
    const meters = { tokens: { hold: 1, max: 2, untold: 1, used } };
    const { costs } = shown.environments.production;
    assert.deepEqual(costs, [{ match: "POST /v1/chat", cost: 1, meters }]);
  });

  it("warn of plans that lack the meter of a route", async () => {
    const { warnings } = await load(`${COSTS}
      - { match: POST /v1/chat, meters: ${TOKENS_TEXT} }
plans:
  free: { minute: 60 }
  pro: { minute: 300, meters: { tokens: unlimited } }
  agreed: custom
`);
    assert.equal(warnings.length, 1);
    assert.match(warnings[0] ?? "", /^8: The meter tokens is not in plan free, agreed: /);
  });

  it("warn of windows up to an hour where a stream tells less than the hold may be", async () => {
    const warningsOf = async (meter: string, windows: string) => {
      const { warnings } = await load(`${COSTS}
      - { match: POST /v1/chat, meters: { tokens: ${meter} } }
plans: { pro: { day: 9, meters: { tokens: ${windows} } } }
`);
      return warnings;
    };
    const sse = "{ hold: 5, max: 10, used: [sse /a] }";
    const [warning, ...others] = await warningsOf(sse, "{ minute: 11, hour: 12, day: 13 }");
    assert.match(warning ?? "", /keeps the hold of 5, .*: minute \(plan pro\), hour \(plan pro\);/);
    assert.deepEqual(others, []);
    assert.deepEqual(await warningsOf(sse, "{ day: 13, week: 14 }"), []);
    assert.deepEqual(await warningsOf(sse, "unlimited"), []);
    const whole = "{ hold: 10, max: 10, used: [sse /a] }";
    assert.deepEqual(await warningsOf(whole, "{ minute: 11 }"), []);
    assert.deepEqual(await warningsOf("{ hold: 5, max: 10, used: [json /a] }", "{ hour: 11 }"), []);
  });

  it("warn of a hold above a limit of a plan, whose accounts are always refused", async () => {
    const { warnings } = await load(`${COSTS}
      - { match: POST /v1/chat, meters: { tokens: { hold: 6, max: 6, used: [header a] } } }
plans:
  free: { day: 9, meters: { tokens: { day: 5, month: 6 } } }
  tiny: { day: 9, meters: { tokens: { hour: 4, day: 5 } } }
  pro: { day: 9, meters: { tokens: { day: 6 } } }
  open: { day: 9, meters: { tokens: unlimited } }
`);
    assert.equal(warnings.length, 1, warnings.join("\n"));
    assert.match(
      warnings[0] ?? "",
      /^8: The hold of 6 of the meter tokens is above its limits: day 5 \(plan free\), hour 4 \(plan tiny\), day 5 \(plan tiny\); such accounts always get 403 cost_over_limit;/,
    );
  });
});

describe("the bound of a plan", () => {
  const bounds = async (costs: readonly string[], tokens: string) => {
    const lines = costs.map((meter, i) => `      - { match: GET /v1/${i}, meters: ${meter} }\n`);
    const { config } = await load(`${COSTS}${lines.join("")}
plans: { pro: { minute: 1, meters: { tokens: ${tokens} } } }
`);
    return meterBounds(config).map(({ window, over, overEach }) => [window, over, overEach]);
  };
  const meter = (hold: number, max: number) => `{ tokens: { hold: ${hold}, max: ${max} } }`;

  it("is the limit times the largest (max - hold) / hold, rounded down", async () => {
    assert.deepEqual(await bounds([meter(2_000, 16_000)], "{ minute: 90000, month: 5000000 }"), [
      ["minute", 630_000, null],
      ["month", 35_000_000, null],
    ]);
    assert.deepEqual(await bounds([meter(3, 10), meter(4, 5)], "{ day: 100 }"), [
      ["day", 233, null],
    ]);
    assert.deepEqual(await bounds([meter(4, 5), meter(3, 10)], "{ day: 100 }"), [
      ["day", 233, null],
    ]);
    assert.deepEqual(await bounds([meter(999_999_999, 1e9)], "{ day: 1000000000000 }"), [
      ["day", 1_000, null],
    ]);
  });

  it("is nothing if every hold is max", async () => {
    assert.deepEqual(await bounds([meter(5, 5), meter(7, 7)], "{ day: 100 }"), [["day", 0, null]]);
  });

  it("is the largest max - hold of each request under way if a hold is 0", async () => {
    const all = [meter(1, 5), meter(0, 7), meter(0, 6)];
    assert.deepEqual(await bounds(all, "{ day: 100 }"), [["day", null, 7]]);
    const more = [...all, meter(2, 12), meter(101, 900)];
    assert.deepEqual(await bounds(more, "{ day: 100 }"), [["day", null, 10]]);
  });

  it("leaves out operations whose hold is above the limit, because they are refused", async () => {
    assert.deepEqual(await bounds([meter(101, 900), meter(100, 150)], "{ day: 100, month: 200 }"), [
      ["day", 50, null],
      ["month", 1_582, null],
    ]);
    assert.deepEqual(await bounds([meter(101, 900)], "{ day: 100 }"), [["day", null, null]]);
  });

  it("is none without an operation, and without a limit", async () => {
    assert.deepEqual(await bounds(["{ rows: { hold: 1, max: 1 } }"], "{ day: 1 }"), [
      ["day", null, null],
    ]);
    assert.deepEqual(await bounds([meter(1, 5)], "unlimited"), []);
  });
});
