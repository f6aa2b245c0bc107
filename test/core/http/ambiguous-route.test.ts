import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { isAmbiguousRoute } from "../../../src/core/http/ambiguous-route.ts";
import { type PathMatching, parsePattern } from "../../../src/core/http/path-pattern.ts";
import { findRoute, type Operation, type RouteTable } from "../../../src/core/http/route.ts";

function operation(template: string, rest: Partial<Operation> = {}): Operation {
  return {
    ...{ method: "GET", operationId: template, template, segments: parsePattern(template) },
    ...{ hasRequestBody: false, requiresScope: false, scopes: [], isPublic: false, cost: 1 },
    ...{ limits: undefined, lifecycle: { deprecated: false }, ...rest },
  };
}

function tableOf(operations: readonly Operation[], paths: PathMatching = "exact"): RouteTable {
  return { basePath: "/v1", paths, operations };
}

function isAmbiguous(table: RouteTable, path: string, method = "GET"): boolean {
  const match = findRoute(table, method, path);
  return isAmbiguousRoute(table, { method, path, match, hasPublicPlan: false });
}

describe("A path is ambiguous", () => {
  const metered = { meters: [{ name: "tokens", hold: 2, max: 9 }] } as unknown as Operation;
  const table = tableOf([
    operation("/v1/a/{id}", metered),
    operation("/v1/a/{id}.json"),
    operation("/v1/b/{id}"),
    operation("/v1/b/{x}-{y}", { cost: 2 }),
    operation("/v1/c/.json/{y}"),
    operation("/v1/c/{x}.json/{y}", { cost: 2 }),
  ]);

  it("if another template has it to some routers and asks for more or less", () => {
    assert.equal(isAmbiguous(table, "/v1/a/.json"), true, "it takes no meter");
    assert.equal(isAmbiguous(table, "/v1/a/.json", "HEAD"), true);
    for (const name of ["-", "a-", "-a"]) {
      assert.equal(isAmbiguous(table, `/v1/b/${name}`), true, name);
    }
    const loose = { ...table, paths: "loose" } as const;
    assert.equal(isAmbiguous(loose, "/v1/b/7;x-y"), true);
  });

  it("and not otherwise", () => {
    for (const path of ["/v1/a/7", "/v1/a/7.json", "/v1/b/a-b", "/v1/b/a_b", "/v1/b/.json"]) {
      assert.equal(isAmbiguous(table, path), false, path);
    }
    assert.equal(isAmbiguous(table, "/v1/c/.json/7"), false, "literals come before names");
    assert.equal(isAmbiguous(table, "/v1/a/.json", "POST"), false);
  });

  it("is known at once for the first request to thousands of templates", () => {
    const many = Array.from({ length: 4_000 }, (_, i) => [
      operation(`/v1/r${i}/{id}`),
      operation(`/v1/r${i}/{id}:run`),
    ]);
    const large = tableOf(many.flat());
    findRoute(large, "GET", "/v1/r1/7");
    const startMs = performance.now();
    assert.equal(isAmbiguous(large, "/v1/r1/7"), false);
    const ms = performance.now() - startMs;
    assert.ok(ms < 250, `took ${ms} ms`);
  });
});
