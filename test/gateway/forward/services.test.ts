import assert from "node:assert/strict";
import { afterAll, describe, it } from "vitest";
import { startTestUpstream, type TestUpstream } from "../../support/gateway/backend.ts";
import { startTestGateway } from "../../support/gateway/house.ts";
import { eventually } from "../../support/poll.ts";
import { errorOf, openClient, rateLimitFieldsOf } from "../../support/wire/client.ts";
import { smugglingVectors } from "../../support/wire/vectors.ts";

const ORDERS = `openapi: 3.1.0
info: { title: orders, version: 1.0.0 }
paths:
  /orders: { get: { operationId: listOrders, responses: {} } }
  /orders/{id}: { get: { operationId: getOrder, x-cost: 3, responses: {} } }
  /orders/old/all: { get: { operationId: oldOrders, deprecated: true, responses: {} } }
`;
const ROOT = `openapi: 3.1.0
info: { title: root, version: 1.0.0 }
paths:
  /pets: { get: { operationId: listPets, responses: {} } }
  /orders/hidden/deep: { get: { operationId: never, responses: {} } }
`;

/** Three services and the environment's own backend, each told apart by who saw a request. */
async function openServices() {
  const answer = (name: string) => startTestUpstream((_seen, response) => void response.end(name));
  const backends = {
    root: await answer("root"),
    orders: await answer("orders"),
    items: await answer("items"),
    raw: await answer("raw"),
  };
  const at = (backend: TestUpstream) => ({ upstreams: [backend.origin] });
  const house = await startTestGateway({
    backend: backends.root,
    files: { "orders.yaml": ORDERS, "root.yaml": ROOT },
    api: "./root.yaml",
    environment: {
      backends: [
        { path: "/v1/orders", api: "./orders.yaml", stripPrefix: "/v1", ...at(backends.orders) },
        { path: "/v1/orders/items", addPrefix: "/internal", ...at(backends.items) },
        { path: "/v1/raw", stripPrefix: "/v1/raw", ...at(backends.raw) },
      ],
    },
  });
  return { house, backends };
}

describe("services under paths of their own", async () => {
  const { house, backends } = await openServices();
  afterAll(async () => {
    await house[Symbol.asyncDispose]();
    for (const backend of Object.values(backends)) await backend.close();
  });
  const { key } = await house.issue({ plan: "business" });
  const get = async (path: string) => {
    await using client = await openClient(house.port);
    return await client.ask({ key, path });
  };
  const seen = () => Object.values(backends).reduce((sum, one) => sum + one.seen.length, 0);

  it("get what the longest path by whole segments gives them, stripped and prefixed, byte for byte", async () => {
    const cases = [
      ["/v1/pets", "root", "/v1/pets"],
      ["/v1/orders", "orders", "/orders"],
      ["/v1/orders/7?a=%2f&b=//", "orders", "/orders/7?a=%2f&b=//"],
      ["/v1/orders/items", "items", "/internal/v1/orders/items"],
      ["/v1/orders/items/7?x", "items", "/internal/v1/orders/items/7?x"],
      ["/v1/orders/items7", "orders", "/orders/items7"],
      ["/v1/raw", "raw", "/"],
      ["/v1/raw?q", "raw", "/?q"],
      ["/v1/raw/%C3%A9;a=b/", "raw", "/%C3%A9;a=b/"],
      ["/v1/%6frders/%c3%a9", "orders", "/orders/%C3%A9"],
    ] as const;
    for (const [path, name, target] of cases) {
      const answer = await get(path);
      assert.deepEqual([answer.status, answer.body.toString()], [200, name], path);
      assert.equal(backends[name].seen.at(-1)?.target, target);
    }
    const prefix = (backend: TestUpstream) => {
      const rawHeaders: readonly string[] = backend.seen.at(-1)?.rawHeaders ?? [];
      return rawHeaders[rawHeaders.indexOf("X-Forwarded-Prefix") + 1];
    };
    assert.equal(prefix(backends.orders), "/v1");
    assert.equal(prefix(backends.raw), "/v1/raw");
    assert.ok(!backends.root.seen.at(-1)?.rawHeaders.includes("X-Forwarded-Prefix"));
    await eventually(() => {
      const last = house.lines.findLast(({ path }) => path === "/v1/orders/7");
      assert.deepEqual(
        [last?.backend, last?.upstream, last?.route],
        ["/v1/orders", backends.orders.origin, "/v1/orders/{id}"],
      );
      assert.deepEqual([last?.charged, last?.cost], [3, 3], "its own description says the cost");
    });
  });

  it("have 404 and 405 of their own description, charged, whatever the environment's has", async () => {
    const before = seen();
    for (const [path, method, code] of [
      ["/v1/orders/hidden/deep", "GET", "not_found"],
      ["/v1/orders/", "GET", "not_found"],
      ["/v1/orders", "POST", "method_not_allowed"],
      ["/v1/ordersx", "GET", "not_found"],
    ] as const) {
      await using client = await openClient(house.port);
      assert.equal(errorOf(await client.ask({ key, path, method })).code, code, path);
    }
    assert.equal(seen(), before);
    await eventually(() => {
      assert.deepEqual(
        house.lines.slice(-4).map((entry) => [entry.charged, entry.forwards]),
        Array(4).fill([1, 0]),
      );
    });
  });

  it("share one quota", async () => {
    const one = await house.issue({ limits: { minute: 100, hour: 100, day: 100 }, plan: "pro" });
    await using client = await openClient(house.port);
    const left: number[] = [];
    for (const path of ["/v1/pets", "/v1/orders", "/v1/raw", "/v1/orders/items"]) {
      left.push(rateLimitFieldsOf(await client.ask({ key: one.key, path })).remaining);
    }
    assert.deepEqual(left, [99, 98, 97, 96]);
  });

  it("are never reached by a path that another reader could take for theirs", async () => {
    const before = seen();
    for (const path of [
      ...[
        "/v1/pets/../orders",
        "/v1/orders/../pets",
        "/v1/raw/%2e%2e/orders",
        "/v1/raw/..;/orders",
      ],
      ...[
        "/v1//orders",
        "/v1/orders//items",
        "/v1/%2forders",
        "/v1/orders%2fitems",
        "/v1/raw\\..\\orders",
      ],
      ...[
        "/v1/./orders",
        "/v1/orders/.;x/items",
        "/v1/raw/%252e%252e/orders",
        "/v1/orders%00",
        "/v1/raw/%c0%ae",
      ],
      ...["//v1/orders", "/V1/../v1/orders", "/v1/orders%5citems", "/v1/raw/..", "/v1/raw/."],
    ]) {
      assert.equal(errorOf(await get(path)).code, "bad_request", path);
    }
    assert.equal(seen(), before);
    for (const path of ["/V1/orders", "/v1/Orders", "/v1/orders;a", "/v2/orders"]) {
      assert.equal(errorOf(await get(path)).code, "not_found", path);
    }
    assert.equal(seen(), before);
  });

  it("see of every smuggling vector what was forwarded, and nothing more", async () => {
    const from = house.lines.length;
    const before = seen();
    for (const { bytes } of smugglingVectors()) {
      await using client = await openClient(house.port);
      client.write(Buffer.from(bytes).toString("latin1").replaceAll("/v1/pets", "/v1/raw/pets"));
      await Promise.race([client.ended, new Promise((resolve) => setTimeout(resolve, 30))]);
    }
    await eventually(() => {
      const forwards = house.lines.slice(from).reduce((sum, entry) => sum + entry.forwards, 0);
      assert.equal(seen() - before, forwards);
    });
  });
});

// The description of a backend has one of the two paths at most, and the other one is 404.
it("a slash behind a path that is stripped whole saves no units, no key and no meter", async () => {
  await using backend = await startTestUpstream();
  const at = (path: string, addPrefix = "") => {
    return {
      path,
      stripPrefix: path,
      upstreams: [backend.origin],
      ...(addPrefix && { addPrefix }),
    };
  };
  const tokens = { hold: 7, max: 7, used: ["header x-used"] };
  await using house = await startTestGateway({
    config: { plans: { free: { day: 1_000, meters: { tokens: { day: 70 } } }, open: { hour: 9 } } },
    environment: {
      ...{ api: null, public: "open", publicRoutes: ["GET /v1/open"] },
      costs: [
        { match: "GET /v1/orders", cost: 50 },
        { match: "GET /v1/a:b", cost: 40, meters: { tokens } },
      ],
      backends: [at("/v1/orders"), at("/v1/a:b", "/api"), at("/v1/open"), at("/v1/plain")],
    },
  });
  const { key } = await house.issue({ plan: "free" });
  const ask = async (path: string, credentials: { key?: string } = { key }) => {
    await using client = await openClient(house.port);
    const { status } = await client.ask({ path, ...credentials });
    const line = await eventually(() => {
      const last = house.lines.at(-1);
      return last !== undefined && last.path === path.split("?")[0] && last;
    });
    assert.ok(line);
    const target = status === 200 ? backend.seen.at(-1)?.target : undefined;
    return [target, line.charged, line.meters?.tokens?.hold];
  };
  for (const [path, target, cost, hold] of [
    ["/v1/orders", "/", 50],
    ["/v1/orders/", "/", 50],
    ["/v1/orders/?a=/", "/?a=/", 50],
    ["/v1/orders/7/", "/7/", 1],
    ["/v1/a%3Ab", "/api/", 40, 7],
    ["/v1/a%3Ab/", "/api/", 40, 7],
    ["/v1/plain/", "/", 1],
  ] as const) {
    assert.deepEqual(await ask(path), [target, cost, hold], path);
  }
  assert.deepEqual(await ask("/v1/open/", {}), ["/", 1, undefined], "what /v1/open gives");
  assert.deepEqual(await ask("/v1/orders/", {}), [undefined, 0, undefined]);
  assert.deepEqual(await ask("/v1/orders/%0A"), [undefined, 0, undefined], "another price up to $");
});

it("a service that fails goes out of service alone", async () => {
  const { house, backends } = await openServices();
  await using _ = house;
  const { key } = await house.issue({ plan: "business" });
  backends.raw.answer((_seen, response) => void response.socket?.destroy());
  for (let i = 0; i < 6; i++) assert.equal((await house.ask(key, "/v1/raw")).status, 502);
  const metrics = await (await house.admin("/metrics")).text();
  const down = [...metrics.matchAll(/^tollgate_upstream_up\{(.*)\} 0$/gm)].map(
    ([, labels]) => labels,
  );
  assert.equal(down.length, 1);
  assert.match(down[0] ?? "", new RegExp(backends.raw.origin));
  assert.equal((await house.ask(key, "/v1/orders")).status, 200);
  for (const backend of Object.values(backends)) await backend.close();
});

it("calls of a deprecated operation of a service are counted, as those of the environment's own", async () => {
  const { house, backends } = await openServices();
  await using _ = house;
  const { key } = await house.issue({ plan: "business" });
  assert.equal((await house.ask(key, "/v1/orders/old/all")).status, 200);
  await eventually(async () => {
    const metrics = await (await house.admin("/metrics")).text();
    const labels = 'env="production",route="/v1/orders/old/all",method="GET"';
    assert.ok(metrics.includes(`tollgate_deprecated_requests_total{${labels}} 1\n`));
  });
  for (const backend of Object.values(backends)) await backend.close();
});

it("a service that a reload adds under load costs no request", async () => {
  await using added = await startTestUpstream((_seen, response) => void response.end("added"));
  const environment = { api: null };
  await using house = await startTestGateway({ environment });
  const { key } = await house.issue({ plan: "business" });
  const statuses: number[] = [];
  let loading = true;
  const load = (async () => {
    while (loading && statuses.length < 900) statuses.push((await house.ask(key, "/v1/a")).status);
  })();
  const production = {
    ...{ listen: "127.0.0.1:0", basePath: "/v1", keyTag: "live" },
    upstreams: [house.backend.origin],
    backends: [{ path: "/v1/added", upstreams: [added.origin] }],
  };
  await house.rewrite({ environments: { production } });
  const reloaded = await house.admin("/api/reload", { method: "POST", body: "{}" });
  assert.equal(reloaded.status, 200, await reloaded.text());
  assert.equal(await (await house.ask(key, "/v1/added")).text(), "added");
  loading = false;
  await load;
  assert.ok(statuses.length > 0 && statuses.every((status) => status === 200));
});
