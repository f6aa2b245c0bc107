import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { findDearestRoute } from "../../../src/core/http/dearest-route.ts";
import { type PathMatching, parsePattern } from "../../../src/core/http/path-pattern.ts";
import type { Operation, RouteTable } from "../../../src/core/http/route.ts";

/** Templates with the costs of their operations. */
type Costs = Readonly<Record<string, number>>;

function tableOf(costs: Costs, paths: PathMatching = "loose"): RouteTable {
  const operations = Object.entries(costs).map(([template, cost]): Operation => {
    return {
      ...{ method: "GET", operationId: template, template, cost, isPublic: false, scopes: [] },
      ...{ segments: parsePattern(template, paths), hasRequestBody: false, requiresScope: false },
      ...{ limits: undefined, lifecycle: { deprecated: false } },
    };
  });
  return { basePath: "/v1", paths, operations };
}

function assertCosts(table: RouteTable, expected: Costs, method = "GET") {
  for (const [path, cost] of Object.entries(expected)) {
    const found = findDearestRoute(table, { method, path, hasPublicPlan: false });
    assert.deepEqual([path, found.cost, found.isContested], [path, cost, undefined]);
  }
}

describe("A path in another spelling asks for as much as a template that it fits", () => {
  it("if what is spelled otherwise is a name there", () => {
    const table = tableOf({
      ...{ "/v1/a/list": 1, "/v1/a/{x}.json": 2, "/v1/a/{x}": 5, "/v1/{y}/list": 9 },
      "/v1/b": 0,
    });
    assertCosts(table, {
      ...{ "/v1/a/list": 1, "/v1/a/LIST": 5, "/v1/a/list/": 5, "/v1/a/list;": 5 },
      ...{ "/v1/A/list": 9, "/V1/a/list": 1, "/v1/A/LIST": 9, "/v1/a;/list": 9 },
      ...{ "/v1/a/7.json": 2, "/v1/a/X.json": 2, "/v1/a/7.JSON": 5, "/v1/a/7.json;x": 5 },
      ...{ "/v1/a/7": 5, "/v1/a/X/": 5, "/v1/A/7": 5, "/v1/B/": 0 },
    });
    assertCosts(table, { "/v1/a/list": 1, "/v1/a/LIST": 5 }, "HEAD");
    assertCosts(table, { "/v1/a/LIST": 1 }, "POST");
  });

  it("not if routers find a more specific one, whatever they make of the spelling", () => {
    const costs = { "/v1/a/list": 1, "/v1/{y}/{x}": 50, "/v1/a/{x}": 5 };
    assertCosts(tableOf(costs), {
      ...{ "/v1/a/LIST": 5, "/v1/a/list/": 5, "/v1/a/7": 5, "/v1/A/7": 50 },
      ...{ "/v1/A/list": 50, "/v1/A/LIST": 50, "/v1/a;/list;": 50, "/v1/a/list": 1 },
    });
    const rules = { basePath: "/v1", paths: "loose", operations: undefined } as const;
    assertCosts({ ...rules, costs: tableOf(costs).operations ?? [] }, { "/v1/a/LIST": 50 });
  });

  it("for HEAD, by the operation of HEAD if it has one", () => {
    const { operations = [], ...table } = tableOf({ "/v1/list": 1, "/v1/l{x}": 7, "/v1/{x}": 9 });
    const heads = operations.map((one) => ({ ...one, method: "HEAD", cost: 2 }));
    assertCosts({ ...table, operations: [...operations, ...heads] }, { "/v1/LIST": 2 }, "HEAD");
  });

  it("with its own spelling as the description writes it", () => {
    const table = tableOf({ "/v1/Own/": 0, "/v1/a:%C3%BC": 0, "/v1/{x}": 3 });
    assertCosts(table, {
      ...{ "/v1/Own/": 0, "/v1/Own": 3, "/v1/own/": 3, "/v1/Own/;x": 3 },
      ...{ "/v1/a%3A%C3%BC": 0, "/v1/A:%C3%BC": 3 },
    });
  });

  it("not if that asks for less, nor with exact", () => {
    assertCosts(tableOf({ "/v1/list": 7, "/v1/{x}": 3 }), { "/v1/LIST": 7, "/v1/list;x": 7 });
    assertCosts(tableOf({ "/v1/list": 1, "/v1/{x}": 3 }, "exact"), { "/v1/list": 1 });
  });
});
