import assert from "node:assert/strict";
import { describe, it } from "vitest";
import type { EnvironmentConfig, LoadResult } from "../../src/config/config.ts";
import { countsId } from "../../src/config/description/cost.ts";
import { maskedConfig } from "../../src/config/queries/masked-config.ts";
import { loadFiles, told } from "./folder.ts";

type Shown = { readonly paths: string };
type Masked = {
  readonly environments: {
    readonly production: Shown & { readonly backends: readonly Shown[] };
  };
};

const START = "environments:\n  production:\n    listen: 127.0.0.1:0\n    keyTag: live\n";
const UPSTREAMS = "    upstreams: [http://127.0.0.1:9001]\n";
const PLANS = "plans: { free: { minute: 60, day: 1000 }, open: { minute: 5 }, agreed: custom }\n";

function describing(paths: string, head = ""): string {
  return `openapi: 3.1.0\n${head}paths:\n${paths}`;
}

function load(lines: string, files: Readonly<Record<string, string>> = {}): Promise<LoadResult> {
  return loadFiles({ "tollgate.yaml": `${START}${lines}${PLANS}`, ...files });
}

async function environment(lines: string, files = {}): Promise<EnvironmentConfig> {
  const loaded = await load(lines, files);
  assert.ok(loaded.ok, told(loaded).join("\n"));
  return loaded.config.environments[0] as EnvironmentConfig;
}

async function warnings(lines: string, files = {}): Promise<string[]> {
  const loaded = await load(lines, files);
  assert.ok(loaded.ok, told(loaded).join("\n"));
  return loaded.warnings.map(({ line, column, message }) => `${line}:${column}: ${message}`);
}

async function mistakes(lines: string, files = {}): Promise<string[]> {
  return told(await load(lines, files));
}

const ORDERS = describing("  /orders/{id}:\n    get: { operationId: order }\n");

describe("backends", () => {
  it("have routes at the paths of their clients, the longest path first, and their own limits", async () => {
    const lines = `${UPSTREAMS}    limits: { bodyBytes: 2KiB }
    backends:
      - { path: /v1/orders, stripPrefix: /v1, addPrefix: /in/side, api: orders.yaml, upstreams: [http://127.0.0.1:9002], limits: { responseTimeout: 1s } }
      - { path: /v1/orders/old, upstreams: [http://127.0.0.1:9003] }
`;
    const {
      services: backends,
      upstreams,
      limits,
    } = await environment(lines, { "orders.yaml": ORDERS });
    const [old, orders] = backends;
    assert.deepEqual([old?.path, old?.stripPrefix, old?.addPrefix], ["/v1/orders/old", "", ""]);
    assert.equal(old?.routes.operations, undefined);
    assert.equal(old?.limits.bodyBytes, 2048);
    assert.deepEqual([orders?.stripPrefix, orders?.addPrefix], ["/v1", "/in/side"]);
    assert.equal(orders?.routes.operations?.[0]?.template, "/v1/orders/{id}");
    assert.deepEqual([orders?.limits.responseTimeoutMs, orders?.limits.bodyBytes], [1_000, 2048]);
    assert.equal(limits.responseTimeoutMs, 60_000);
    assert.deepEqual(upstreams, ["http://127.0.0.1:9001"]);
  });

  it("may read paths in their own way, in their descriptions too", async () => {
    const orders = (path: string, more = "") =>
      `      - { path: ${path}, ${more}stripPrefix: /v1, api: orders.yaml, upstreams: [http://127.0.0.1:9002] }\n`;
    const files = {
      "orders.yaml": describing("  /orders/a: { get: {} }\n  /orders/A: { get: {} }\n"),
    };
    const head = `${UPSTREAMS}    backends:\n`;
    const { services: backends, routes } = await environment(
      `${head}${orders("/v1/orders")}`,
      files,
    );
    assert.deepEqual([routes.paths, backends[0]?.routes.paths], ["exact", "exact"]);
    const same = await mistakes(`${head}${orders("/v1/orders", "paths: loose, ")}`, files);
    assert.match(same.join("\n"), /the path "\/orders\/A": it matches the same requests as/);
    const loose = `    paths: loose\n${head}${orders("/v1/orders", "paths: exact, ")}`;
    const loaded = await load(loose, files);
    assert.ok(loaded.ok, told(loaded).join("\n"));
    assert.equal(loaded.config.environments[0]?.services[0]?.routes.paths, "exact");
    const { environments } = maskedConfig(loaded.config) as Masked;
    const { paths, backends: shown } = environments.production;
    assert.deepEqual(
      [paths, shown[0]?.paths],
      ["loose", "exact"],
      "as the admin listener shows it",
    );
  });

  it("are one path where one of the two is read loosely", async () => {
    const two = (first: string, second: string) => `${UPSTREAMS}    backends:
      - { path: /v1/orders, ${first}upstreams: [http://127.0.0.1:9002] }
      - { path: /v1/Orders, ${second}upstreams: [http://127.0.0.1:9003] }
`;
    assert.equal((await environment(two("", ""))).services.length, 2);
    const loose = "paths: loose, ";
    for (const lines of [two(loose, ""), two("", loose)]) {
      const [one] = await mistakes(lines);
      assert.match(one ?? "", /Cannot use the path \/v1\/Orders twice: backends\[0\] has it/);
    }
  });

  it("that have basePath itself leave nothing for upstreams of the environment", async () => {
    const lines = "    backends: [{ path: /v1, upstreams: [http://127.0.0.1:9002] }]\n";
    assert.deepEqual((await environment(lines)).upstreams, []);
  });

  it("describe no path outside of their own", async () => {
    const lines = `${UPSTREAMS}    backends: [{ path: /v1/carts, api: orders.yaml, upstreams: [http://127.0.0.1:9002] }]\n`;
    assert.deepEqual(await mistakes(lines, { "orders.yaml": ORDERS }), [
      '3:3: Cannot use the path "/orders/{id}": as /v1/orders/{id} it lies outside of its backend\'s path /v1/carts; check stripPrefix',
    ]);
    const files = { "orders.yaml": ORDERS };
    const upper = lines.replace("/v1/carts", "/V1/orders");
    assert.match((await mistakes(upper, files)).join(), /lies outside of its backend's path/);
    const loose = upper.replace("api:", "paths: loose, api:");
    assert.equal((await environment(loose, files)).services[0]?.routes.operations?.length, 1);
  });

  it("hide what the environment describes under their path, which is a warning", async () => {
    const lines = `${UPSTREAMS}    api: orders.yaml\n    backends: [{ path: /v1/orders, upstreams: [http://127.0.0.1:9002] }]\n`;
    assert.deepEqual(await warnings(lines, { "orders.yaml": ORDERS }), [
      "6:5: GET /v1/orders/{id} is described here and never served from here: a backend has its path",
    ]);
    const upper = lines.replace("/v1/orders", "/v1/Orders");
    assert.deepEqual(await warnings(upper, { "orders.yaml": ORDERS }), []);
    const loose = upper.replace("upstreams: [http://127.0.0.1:9002]", "paths: loose, $&");
    assert.equal((await warnings(loose, { "orders.yaml": ORDERS })).length, 1);
  });
});

describe("limits of an operation", () => {
  const limited = (name: string) =>
    describing(
      `  /${name}:\n    get: { operationId: ${name}, x-limits: { minute: 5 }, x-cost: 2 }\n`,
    );

  it("have a short number and stand beside its cost", async () => {
    const { routes } = await environment(`${UPSTREAMS}    api: a.yaml\n`, {
      "a.yaml": limited("a"),
    });
    const [operation] = routes.operations ?? [];
    assert.equal(operation?.cost, 2);
    assert.match(operation?.limits?.id ?? "", /^[0-9a-z]{1,5}$/);
    assert.equal(operation?.limits?.id, countsId("production", "a"));
    assert.equal(countsId("production", "listPets"), "5lira", "as the counts are kept under it");
    assert.notEqual(countsId("staging", "a"), countsId("production", "a"));
    const [window] = operation?.limits?.windows ?? [];
    assert.deepEqual([window?.window, window?.limit], ["minute", 5]);
  });

  it("need a name that is unique over all descriptions of the environment", async () => {
    const backend =
      "    backends: [{ path: /v1/a, api: b.yaml, upstreams: [http://127.0.0.1:9002] }]\n";
    const files = {
      "a.yaml": describing("  /x:\n    get: { operationId: a }\n"),
      "b.yaml": limited("a"),
    };
    const [mistake, ...others] = await mistakes(`${UPSTREAMS}    api: a.yaml\n${backend}`, files);
    assert.match(mistake ?? "", /^4:25: Cannot use the operationId a twice in one environment/);
    assert.deepEqual(others, []);
  });

  it("need a name of 64 characters at most", async () => {
    const load = (length: number) => {
      return mistakes(`${UPSTREAMS}    api: a.yaml\n`, { "a.yaml": limited("a".repeat(length)) });
    };
    assert.deepEqual(await load(64), []);
    assert.match((await load(65)).join(), /operationId as a name for x-limits/);
  });

  it("are refused where two names have one number", async () => {
    const names = new Map<string, string>();
    let pair: [string, string] | undefined;
    for (let i = 0; pair === undefined; i++) {
      const name = `op${i}`;
      const id = countsId("production", name);
      const other = names.get(id);
      if (other !== undefined) pair = [other, name];
      names.set(id, name);
    }
    const paths = pair.map((name) => {
      return `  /${name}:\n    get: { operationId: ${name}, x-limits: { day: 9 } }\n`;
    });
    const [mistake] = await mistakes(`${UPSTREAMS}    api: a.yaml\n`, {
      "a.yaml": describing(paths.join("")),
    });
    assert.match(
      mistake ?? "",
      /^6:25: Cannot use the operationId op\d+ with x-limits: its short number/,
    );
  });

  it("and a cost above what a plan allows at all is a warning that names the plan", async () => {
    const api = describing("  /a:\n    get: { operationId: a, x-cost: 61 }\n");
    const [warning, ...others] = await warnings(`${UPSTREAMS}    api: a.yaml\n`, { "a.yaml": api });
    assert.equal(
      warning,
      "4:28: x-cost 61 is above the smallest limit of free (60), open (5): such accounts always get 403 cost_over_limit",
    );
    assert.deepEqual(others, []);
  });

  it("and so is one that costs say for paths without a description", async () => {
    const of = (cost: number) => {
      return warnings(`${UPSTREAMS}    costs: [{ match: "GET /v1/a", cost: ${cost} }]\n`);
    };
    assert.deepEqual(await of(60), [
      "6:35: cost 60 is above the smallest limit of open (5): such accounts always get 403 cost_over_limit",
    ]);
    assert.deepEqual(await of(61), [
      "6:35: cost 61 is above the smallest limit of free (60), open (5): such accounts always get 403 cost_over_limit",
    ]);
    assert.deepEqual(await of(5), []);
  });
});

describe("what descriptions and the configuration say together", () => {
  it("standing is no path that a description has", async () => {
    const lines = `${UPSTREAMS}    api: orders.yaml\n    standing: /v1/orders/limits\n`;
    assert.deepEqual(await mistakes(lines, { "orders.yaml": ORDERS }), [
      "7:15: Cannot use the path /v1/orders/limits: the description has it too; choose another",
    ]);
  });

  it("costs and publicRoutes are the description's to say, where there is one", async () => {
    const lines = `${UPSTREAMS}    api: orders.yaml\n    costs: [{ match: "GET /v1/a", cost: 2 }]\n    public: open\n    publicRoutes: [GET /v1/a]\n`;
    const told = await mistakes(lines, { "orders.yaml": ORDERS });
    assert.deepEqual(
      told.map((one) => one.slice(0, 43)),
      [
        "7:5: Cannot use costs beside api: the descr",
        "9:5: Cannot use publicRoutes beside api: th",
      ],
    );
    const undescribed = `${lines}    backends: [{ path: /v1/b, upstreams: [http://127.0.0.1:9002] }]\n`;
    assert.deepEqual(
      await mistakes(undescribed, { "orders.yaml": ORDERS }),
      [],
      "a backend has none",
    );
  });

  it("an entry that no request can use, as its path is described, is a warning that names the description", async () => {
    const backends = (more = "") => `    backends:
      - { path: /v1/b, api: b.yaml, ${more}upstreams: [http://127.0.0.1:9002] }
      - { path: /v1/b/n, upstreams: [http://127.0.0.1:9003] }
      - { path: /v1/n, upstreams: [http://127.0.0.1:9003] }
    public: open
`;
    const entries = (...routes: string[]) => {
      const costs = routes.map((one) => `      - { match: "${one}", cost: 2 }\n`).join("");
      const open = routes.map((one) => `      - ${one}\n`).join("");
      return `    costs:\n${costs}    publicRoutes:\n${open}`;
    };
    const files = {
      "a.yaml": describing("  /a: { get: {} }\n"),
      "b.yaml": describing("  /b/d: { get: {} }\n"),
    };
    const lost = `${UPSTREAMS}${backends()}${entries("GET /v1/b/d")}`;
    assert.deepEqual(await warnings(lost, files), [
      "12:11: Nothing uses GET /v1/b/d in costs: its path belongs to backends[0], whose description decides; write x-cost there",
      "14:9: Nothing uses GET /v1/b/d in publicRoutes: its path belongs to backends[0], whose description decides; write security: [] there",
    ]);
    const used = ["/v1/b/n/d", "/v1/b/{x}/d", "/v1/n", "/v1/B/d", "/v1/{x}/d", "/v1/a"];
    const all = entries(...used.map((path) => `GET ${path}`));
    assert.deepEqual(await warnings(`${UPSTREAMS}${backends()}${all}`, files), []);
    const loose = `${UPSTREAMS}${backends("paths: loose, ")}${all}`;
    const ofLoose = (await warnings(loose, files)).join("\n");
    assert.match(ofLoose, /^.*GET \/v1\/B\/d in costs.*\n.*GET \/v1\/B\/d in publicRoutes.*$/);
    const described = `${UPSTREAMS}    api: a.yaml\n${backends()}${all}`;
    const ofEnvironment = (await warnings(described, files)).join("\n");
    assert.equal(ofEnvironment.match(/belongs to production, whose/g)?.length, 4);
    assert.match(ofEnvironment, /GET \/v1\/B\/d in costs.*GET \/v1\/a in costs/s);
  });

  it("an entry of costs that no request can use, as an earlier one or standing has its paths, is a warning", async () => {
    const costs = (...routes: string[]) => {
      const entries = routes.map((one) => `      - { match: "${one}", cost: 2 }\n`);
      return warnings(`${UPSTREAMS}    standing: /v1/limits\n    costs:\n${entries.join("")}`);
    };
    const jobs = ["GET /v1/jobs/{id}", "GET /v1/jobs/{id}.json", "HEAD /v1/jobs/7"];
    assert.deepEqual(await costs("POST /v1/jobs", ...jobs, "POST /v1/jobs", "GET /v1/limits"), [
      "10:11: Nothing uses GET /v1/jobs/{id}.json in costs: costs[1] comes first and has all of its paths; write this entry before it, or remove it",
      "11:11: Nothing uses HEAD /v1/jobs/7 in costs: costs[1] comes first and has all of its paths; write this entry before it, or remove it",
      "12:11: Nothing uses POST /v1/jobs in costs: costs[0] comes first and has all of its paths; write this entry before it, or remove it",
      "13:11: Nothing uses GET /v1/limits in costs: a request for standing costs nothing; remove it",
    ]);
    const used = ["HEAD /v1/jobs/7", "GET /v1/jobs/7", "GET /v1/jobs/{id}.json", "GET /v1/{x}/8"];
    assert.deepEqual(await costs(...used, "POST /v1/jobs/{id}", "GET /v1/{x}"), []);
    const root = `    basePath: /\n    costs: [{ match: "GET /{x}", cost: 2 }, { match: GET /, cost: 3 }]\n`;
    assert.deepEqual(await warnings(`${UPSTREAMS}${root}`), []);
  });

  it("upstreams that nothing reaches, as a backend has basePath itself, are a warning", async () => {
    const backends = (more = "") =>
      `    backends: [{ path: /v1, ${more}upstreams: [http://127.0.0.1:9002] }]\n`;
    const unreached =
      "5:5: Nothing reaches upstreams of production: backends[0] has all of basePath; leave them out";
    assert.deepEqual(await warnings(`${UPSTREAMS}${backends()}`), [unreached]);
    assert.deepEqual(await warnings(backends()), []);
    const loose = `${UPSTREAMS}    paths: loose\n`;
    assert.deepEqual(await warnings(`${loose}${backends()}`), [unreached]);
    const exact = await warnings(`${loose}${backends("paths: exact, ")}`);
    assert.deepEqual(exact, [], "they have /V1");
  });

  it("rules are of paths under basePath", async () => {
    const lines = `${UPSTREAMS}    costs: [{ match: "GET /v2/a", cost: 2 }]\n    public: open\n    publicRoutes: [GET /v2/a]\n`;
    assert.deepEqual(await mistakes(lines), [
      "6:22: Cannot use the path /v2/a: it lies outside of basePath /v1",
      "8:20: Cannot use the path /v2/a: it lies outside of basePath /v1",
    ]);
  });

  it("operations that nobody may call without a key are warned of at their line", async () => {
    const api = describing("  /a:\n    get:\n      operationId: a\n      security: []\n");
    const message =
      "6:7: Operations without security need a key all the same: the environment has public: off; name a plan there";
    assert.deepEqual(await warnings(`${UPSTREAMS}    api: a.yaml\n`, { "a.yaml": api }), [message]);
    const open = `${UPSTREAMS}    api: a.yaml\n    public: open\n`;
    assert.deepEqual(await warnings(open, { "a.yaml": api }), []);
    assert.deepEqual(await warnings(`${UPSTREAMS}    publicRoutes: [GET /v1/a]\n`), [
      "6:5: publicRoutes need a key all the same: the environment has public: off; name a plan there",
    ]);
  });
});

describe("An entry with a mistake", () => {
  it("hides no mistake of another entry of its list or map", async () => {
    const lines = `    public: bad
    backends:
      - { path: /v1/a, upstreams: [http://127.0.0.1:1] }
      - { path: /v1/b, upstreams: [http://127.0.0.1:1], limits: { bodySize: 1B } }
      - { path: /v1/a, upstreams: [http://127.0.0.1:1] }
      - { path: /v2, upstreams: [http://127.0.0.1:1] }
    costs: [{ match: "GET /v2/a", cost: 1 }, { match: "GET /v1/b", cost: -1 }, { match: "GET /v2/c", cost: 1 }]
    publicRoutes: [GET /v2/d, nothing, GET /v2/e]
`;
    const plans =
      "plans:\n  i: { minute: 5, included: { minute: 6, day: 3 } }\n  bad: { minute: 0 }\n";
    const loaded = await loadFiles({ "tollgate.yaml": `${START}${lines}${plans}` });
    const starts = told(loaded).map((one) => one.slice(0, 49));
    assert.deepEqual(starts, [
      "8:67: Cannot use environments.production.backends",
      "9:17: Cannot use the path /v1/a twice: backends[0",
      "10:17: Cannot use the path /v2: it lies outside o",
      "11:22: Cannot use the path /v2/a: it lies outside",
      "11:74: Cannot read environments.production.costs[",
      "11:89: Cannot use the path /v2/c: it lies outside",
      "12:20: Cannot use the path /v2/d: it lies outside",
      "12:31: Cannot read environments.production.public",
      "12:40: Cannot use the path /v2/e: it lies outside",
      "14:39: Cannot include 6 units of a minute: its li",
      "14:42: Cannot include 3 units of a day: plan i ha",
      "15:18: Cannot read plans.bad.minute as a whole nu",
    ]);
  });

  it("is not taken for one that is missing", async () => {
    const lines = `    api: orders.yaml
    public: bad
    backends: [{ path: /v1, upstream: [http://127.0.0.1:1] }]
    costs: [{ match: "GET /v1/a", cost: 1 }]
plans: { bad: { minute: 0 } }
`;
    const files = { "tollgate.yaml": `${START}${lines}`, "orders.yaml": ORDERS };
    const starts = told(await loadFiles(files)).map((one) => one.slice(0, 49));
    assert.deepEqual(starts, [
      "7:16: Cannot read environments.production.backend",
      "7:29: Cannot use environments.production.backends",
      "9:25: Cannot read plans.bad.minute as a whole num",
    ]);
  });

  it("is not looked for in a map where a list belongs, nor in a list where a map does", async () => {
    const lines = `${UPSTREAMS}    backends: { a: { path: /v1/a } }
    costs: {}
    publicRoutes: { a: GET /v1/a }
plans: []
`;
    const starts = told(await loadFiles({ "tollgate.yaml": `${START}${lines}` }));
    assert.deepEqual(
      starts.map((one) => one.slice(0, 49)),
      [
        "6:15: Cannot read environments.production.backend",
        "7:12: Cannot read environments.production.costs a",
        "8:19: Cannot read environments.production.publicR",
        "9:8: Cannot read plans as a map of plans by name:",
      ],
    );
  });
});
