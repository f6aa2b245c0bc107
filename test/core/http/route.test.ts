import assert from "node:assert/strict";
import { describe, it } from "vitest";
import type { Lifecycle } from "../../../src/core/http/lifecycle.ts";
import { parsePattern } from "../../../src/core/http/path-pattern.ts";
import {
  checkRoute,
  findRoute,
  type Operation,
  operationWindows,
  type RouteTable,
} from "../../../src/core/http/route.ts";
import type { Limit } from "../../../src/core/quota/windows.ts";

const NOON = Date.UTC(2026, 6, 15, 12);

function operation(method: string, template: string, more: Partial<Operation> = {}): Operation {
  const segments = parsePattern(template);
  return {
    method,
    operationId: `${method} ${template}`,
    template,
    segments,
    hasRequestBody: false,
    requiresScope: false,
    scopes: [],
    isPublic: false,
    cost: 1,
    limits: undefined,
    lifecycle: { deprecated: false },
    ...more,
  };
}

const rule = (method: string, template: string) => {
  return { method, template, segments: parsePattern(template) };
};

/** The most general first: a scan in this order would find the wrong ones. */
const OPERATIONS = [
  operation("GET", "/v1/{any}/{id}/{more}"),
  operation("GET", "/v1/{any}/{id}"),
  operation("DELETE", "/v1/pets/{petId}"),
  operation("GET", "/v1/pets/{petId}"),
  operation("PUT", "/v1/pets/{petId}"),
  operation("GET", "/v1/pets/mine"),
  operation("POST", "/v1/pets"),
  operation("GET", "/v1/pets"),
  operation("POST", "/v1/orders"),
  operation("HEAD", "/v1/heads"),
  operation("GET", "/v1/heads"),
];
const TABLE: RouteTable = { basePath: "/v1", operations: OPERATIONS };
const ANY: RouteTable = { basePath: "/v1", operations: undefined };
const PLAIN = { isPublic: false, cost: 1, meters: [] };
const NOTHING = { operation: undefined, template: undefined, allowedMethods: undefined, ...PLAIN };

const idOf = (method: string, path: string, table = TABLE) =>
  findRoute(table, method, path).operation?.operationId;
const templateOf = (path: string, table = TABLE) => findRoute(table, "GET", path).template;

describe("The windows of operations", () => {
  it("are those of all operations of all tables, none where none has any", () => {
    const minute: Limit = { window: "minute", limit: 1, part: { id: "a", name: "listPets" } };
    const day: Limit = { window: "day", limit: 2, part: { id: "a", name: "listPets" } };
    const limited = (...windows: Limit[]) => {
      return operation("GET", "/v1/pets", { limits: { id: "a", windows } });
    };
    const tables = [{ ...TABLE, operations: [limited(minute), limited(day)] }, ANY, TABLE];
    assert.deepEqual(operationWindows([...tables, { ...TABLE, operations: [limited(day)] }]), [
      minute,
      day,
      day,
    ]);
    assert.deepEqual(operationWindows([TABLE, ANY]), []);
  });
});

describe("A request costs", () => {
  const costs = [
    { ...rule("POST", "/v1/reports"), cost: 5 },
    { ...rule("GET", "/v1/reports/{id}"), cost: 0 },
  ];
  const costOf = (method: string, path: string) => findRoute({ ...ANY, costs }, method, path).cost;

  it("what its operation says, whatever the method that is looked for beside it", () => {
    const table = { ...TABLE, operations: [operation("POST", "/v1/pets", { cost: 7 })] };
    assert.equal(findRoute(table, "POST", "/v1/pets").cost, 7);
    assert.equal(findRoute(table, "GET", "/v1/pets").cost, 1, "405");
    assert.equal(findRoute(table, "POST", "/v1/none").cost, 1, "404");
  });

  it("without a description what the first matching rule says, HEAD as GET, and else 1", () => {
    assert.equal(costOf("POST", "/v1/reports"), 5);
    assert.equal(costOf("GET", "/v1/reports/7"), 0);
    assert.equal(costOf("HEAD", "/v1/reports/7"), 0);
    for (const path of ["/v1/reports", "/v1/reports/", "/v1/reports/7/8"]) {
      assert.equal(costOf("GET", path), 1, path);
    }
  });
});

describe("A route is found", () => {
  const paths: readonly (readonly [path: string, template: string])[] = [
    ["/v1/pets", "/v1/pets"],
    ["/v1/pets/mine", "/v1/pets/mine"],
    ["/v1/pets/7", "/v1/pets/{petId}"],
    ["/v1/pets/{petId}", "/v1/pets/{petId}"],
    ["/v1/pets/%7BpetId%7D", "/v1/pets/{petId}"],
    ["/v1/pets/Mine", "/v1/pets/{petId}"],
    ["/v1/cats/mine", "/v1/{any}/{id}"],
    ["/v1/pets/mine/more", "/v1/{any}/{id}/{more}"],
  ];
  for (const [path, template] of paths) {
    it(`for ${path} at ${template}: literal before templated, fewest parameters first`, () => {
      assert.equal(templateOf(path), template);
    });
  }

  const strangers = ["/v1", "/v1/", "/v1/pets/", "/v1/Pets", "/v1//7", "/v1/a/b/c/d", "/v1/a"];
  for (const path of [...strangers, "/v1x/pets", "/v2/pets", "/pets", "/", "", "/v", "pets"]) {
    it(`nowhere for ${JSON.stringify(path)}`, () => {
      assert.deepEqual(findRoute(TABLE, "GET", path), NOTHING);
    });
  }

  it("nowhere outside the base path, even where an operation would fit", () => {
    const operations = [operation("GET", "/v1x/pets"), operation("GET", "/{a}/pets")];
    for (const path of ["/v1x/pets", "/v2/pets"]) {
      assert.deepEqual(findRoute({ basePath: "/v1", operations }, "GET", path), NOTHING);
    }
    assert.equal(templateOf("/v1/pets", { basePath: "/v1", operations }), "/{a}/pets");
  });

  it("by the bytes of the path, or loosely where the service reads it so", () => {
    const loose: RouteTable = { ...ANY, paths: "loose" };
    assert.equal(templateOf("/v1/a//b", ANY), "/v1/*");
    assert.deepEqual(findRoute(ANY, "GET", "/V1/a"), NOTHING);
    assert.equal(templateOf("/V1/a", loose), "/v1/*");
    assert.deepEqual(findRoute(loose, "GET", "/v1/a/;/b"), NOTHING);
    assert.deepEqual(findRoute(loose, "GET", "/v1/a/;b/"), NOTHING);
    assert.equal(templateOf("/v1/a/;b", loose), "/v1/*");
    assert.equal(templateOf("/;b", { ...loose, basePath: "/" }), "/*");
    assert.deepEqual(findRoute(loose, "GET", "/v2/a"), NOTHING);
  });

  it("with the operation of the method, where HEAD is as good as GET", () => {
    assert.equal(idOf("PUT", "/v1/pets/7"), "PUT /v1/pets/{petId}");
    assert.equal(idOf("HEAD", "/v1/pets/7"), "GET /v1/pets/{petId}");
    assert.equal(idOf("HEAD", "/v1/heads"), "HEAD /v1/heads");
    assert.equal(idOf("HEAD", "/v1/orders"), undefined);
    assert.equal(idOf("PATCH", "/v1/pets"), undefined);
    assert.equal(templateOf("/v1/orders"), "/v1/orders");
  });

  it("with the methods of the path for Allow, HEAD behind GET", () => {
    const allowOf = (path: string) => findRoute(TABLE, "GET", path).allowedMethods;
    assert.deepEqual(allowOf("/v1/pets/7"), ["DELETE", "GET", "HEAD", "PUT"]);
    assert.deepEqual(allowOf("/v1/pets"), ["POST", "GET", "HEAD"]);
    assert.deepEqual(allowOf("/v1/orders"), ["POST"]);
    assert.deepEqual(allowOf("/v1/heads"), ["HEAD", "GET"]);
    assert.deepEqual(allowOf("/v1/pets/mine"), ["GET", "HEAD"]);
  });

  it("from an index made once for a description, and another for another", () => {
    const first = findRoute(TABLE, "GET", "/v1/pets").allowedMethods;
    assert.equal(findRoute({ ...TABLE }, "PUT", "/v1/pets").allowedMethods, first);
    const operations = [operation("PATCH", "/v1/pets")];
    assert.deepEqual(findRoute({ basePath: "/v1", operations }, "GET", "/v1/pets").allowedMethods, [
      "PATCH",
    ]);
    assert.deepEqual(findRoute({ basePath: "/v1", operations: [] }, "GET", "/v1/pets"), NOTHING);
  });

  it("anywhere under the base path without a description", () => {
    const methods = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];
    for (const path of ["/v1", "/v1/", "/v1/a/b"]) {
      assert.deepEqual(findRoute(ANY, "GET", path), {
        operation: undefined,
        template: "/v1/*",
        allowedMethods: methods,
        ...PLAIN,
      });
    }
    for (const path of ["/v1x", "/v2", "/", ""]) {
      assert.deepEqual(findRoute(ANY, "GET", path), NOTHING);
    }
  });

  it("with the cost and the publicity of the operation, or of the first rule that fits", () => {
    const priced = [operation("GET", "/v1/{a}", { cost: 0, isPublic: true })];
    const described = findRoute({ basePath: "/v1", operations: priced }, "HEAD", "/v1/x");
    assert.deepEqual([described.cost, described.isPublic], [0, true]);
    const other = findRoute({ basePath: "/v1", operations: priced }, "POST", "/v1/x");
    assert.deepEqual([other.cost, other.isPublic], [1, false]);

    const table: RouteTable = {
      ...ANY,
      costs: [
        { ...rule("GET", "/v1/a/b"), cost: 3 },
        { ...rule("GET", "/v1/a/{id}"), cost: 5 },
      ],
      publicRoutes: [rule("POST", "/v1/a/{id}")],
    };
    const foundAt = (method: string, path: string) => {
      const { cost, isPublic } = findRoute(table, method, path);
      return [cost, isPublic];
    };
    assert.deepEqual(foundAt("GET", "/v1/a/b"), [3, false]);
    assert.deepEqual(foundAt("HEAD", "/v1/a/c"), [5, false]);
    assert.deepEqual(foundAt("POST", "/v1/a/b"), [1, true]);
    for (const path of ["/v1/a/", "/v1/a", "/v1/a/b/c", "/v1/b/b"]) {
      assert.deepEqual(foundAt("GET", path), [1, false]);
      assert.deepEqual(foundAt("POST", path), [1, false]);
    }
  });

  it("for any path where the base path is the root", () => {
    const operations = [operation("GET", "/a")];
    assert.equal(templateOf("/a", { basePath: "/", operations }), "/a");
    for (const path of ["/", "/a", "/a/b"]) {
      assert.notEqual(findRoute({ basePath: "/", operations: undefined }, "GET", path), NOTHING);
    }
  });
});

describe("A route is judged", () => {
  const judge = (
    table: RouteTable,
    { method = "GET", path = "/v1/pets", scopes = [] as string[], nowMs = NOON },
  ) => {
    const found = findRoute(table, method, path);
    const judged = checkRoute(found, { method, scopes, nowMs });
    if (judged.ok) assert.equal(judged.value, found);
    if (judged.ok) return "ok";
    const { code, why } = judged.refusal;
    return why === undefined ? code : `${code}: ${why}`;
  };
  const described = (lifecycle: Partial<Lifecycle>, requiresScope = false): RouteTable => {
    const life = { deprecated: false, ...lifecycle };
    const one = operation("GET", "/v1/pets", { lifecycle: life, requiresScope });
    return { basePath: "/v1", operations: [one] };
  };

  it("no such path is 404, and a known path with another method 405", () => {
    assert.equal(judge(TABLE, { path: "/v1/cats" }), "not_found");
    assert.equal(judge(TABLE, {}), "ok");
    assert.equal(judge(TABLE, { method: "HEAD" }), "ok");
    assert.equal(judge(TABLE, { method: "PATCH" }), "method_not_allowed");
    assert.equal(judge(TABLE, { method: "HEAD", path: "/v1/orders" }), "method_not_allowed");
  });

  it("without a description seven methods pass, and no other", () => {
    for (const method of ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]) {
      assert.equal(judge(ANY, { method }), "ok");
    }
    assert.equal(judge(ANY, { method: "PURGE" }), "method_not_allowed");
    assert.equal(judge(ANY, { path: "/v2" }), "not_found");
  });

  it("past its sunset it is 410, from that very instant on", () => {
    const table = described({ deprecated: true, sunsetMs: NOON });
    assert.equal(judge(table, { nowMs: NOON - 1 }), "ok");
    assert.equal(judge(table, { nowMs: NOON }), "gone");
    assert.equal(judge(table, { nowMs: NOON + 1 }), "gone");
    assert.equal(judge(described({ deprecated: true }), {}), "ok");
  });

  it("a stability that requires a scope needs that very scope", () => {
    for (const stability of ["beta", "experimental"] as const) {
      const table = described({ stability }, true);
      assert.equal(judge(table, {}), `scope_required: needs the scope ${stability}`);
      assert.equal(judge(table, { scopes: ["x"] }), `scope_required: needs the scope ${stability}`);
      assert.equal(judge(table, { scopes: ["x", stability] }), "ok");
    }
    assert.equal(judge(described({ stability: "beta" }), {}), "ok");
    assert.equal(judge(described({}, true), {}), "ok");
  });

  it("one alternative of scopes has to be met whole, and the answer names them all", () => {
    const one = operation("GET", "/v1/pets", { scopes: [["a", "b"], ["c"]] });
    const table = { basePath: "/v1", operations: [one] };
    for (const scopes of [["a", "b"], ["c"], ["c", "x"], ["a", "b", "c"]]) {
      assert.equal(judge(table, { scopes }), "ok");
    }
    for (const scopes of [[], ["a"], ["b"], ["a", "C"]]) {
      assert.equal(judge(table, { scopes }), "scope_required: needs the scopes a and b, or c");
    }
    const refused = checkRoute(findRoute(table, "GET", "/v1/pets"), {
      ...{ method: "GET", scopes: [], nowMs: NOON },
    });
    assert.deepEqual(refused.ok || refused.refusal, {
      code: "scope_required",
      why: "needs the scopes a and b, or c",
      message: "The API key needs the scopes a and b, or c for this operation",
      scope: "a b",
    });
  });

  it("in a brownout it is 410 from its first instant until its end, with the wait", () => {
    const table = described({ brownouts: [{ fromMs: NOON, toMs: NOON + 5_000 }] });
    assert.equal(judge(table, { nowMs: NOON - 1 }), "ok");
    assert.equal(judge(table, { nowMs: NOON }), "brownout");
    assert.equal(judge(table, { nowMs: NOON + 4_999 }), "brownout");
    assert.equal(judge(table, { nowMs: NOON + 5_000 }), "ok");
    const refused = checkRoute(findRoute(table, "GET", "/v1/pets"), {
      ...{ method: "GET", scopes: [], nowMs: NOON + 1_500 },
    });
    assert.equal(refused.ok || refused.refusal.retryAfterSeconds, 4);
    assert.equal(refused.ok || refused.refusal.until, NOON / 1_000 + 5);
  });

  it("a brownout that lasts until the sunset has no wait, and one that ends before it has", () => {
    const waitUntil = (sunsetMs: number) => {
      const brownouts = [{ fromMs: NOON, toMs: NOON + 5_000 }];
      const table = described({ deprecated: true, sunsetMs, brownouts });
      const found = findRoute(table, "GET", "/v1/pets");
      const refused = checkRoute(found, { method: "GET", scopes: [], nowMs: NOON });
      return refused.ok ? "ok" : [refused.refusal.code, refused.refusal.retryAfterSeconds];
    };
    assert.deepEqual(waitUntil(NOON + 5_001), ["brownout", 5]);
    assert.deepEqual(waitUntil(NOON + 5_000), ["brownout", undefined]);
    assert.deepEqual(waitUntil(NOON + 1), ["brownout", undefined]);
  });

  it("an operation that is gone is gone without a scope too", () => {
    const table = described({ stability: "beta", sunsetMs: NOON }, true);
    assert.equal(judge(table, {}), "gone");
  });
});
