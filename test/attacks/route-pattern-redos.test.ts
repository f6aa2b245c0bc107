import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "vitest";
import { stringify } from "yaml";
import { loadConfig } from "../../src/config/load/load.ts";
import { isAmbiguousRoute } from "../../src/core/http/ambiguous-route.ts";
import { findRoute, type RouteTable } from "../../src/core/http/route.ts";
import { validateTarget } from "../../src/core/http/target.ts";

/** A description of many similar paths, with as many parameters as there are segments. */
async function tableOf(paths: readonly string[]): Promise<RouteTable> {
  const directory = await mkdtemp(join(tmpdir(), "tollgate-routes-"));
  try {
    const operation = { get: { responses: { 200: { description: "ok" } } } };
    const described = Object.fromEntries(paths.map((path) => [path, operation]));
    const api = { openapi: "3.1.0", info: { title: "a", version: "1" }, paths: described };
    await writeFile(join(directory, "api.yaml"), stringify(api));
    const production = {
      listen: "127.0.0.1:0",
      basePath: "/v1",
      keyTag: "live",
      api: "./api.yaml",
      upstreams: ["http://127.0.0.1:9"],
    };
    const file = join(directory, "tollgate.yaml");
    await writeFile(file, stringify({ environments: { production }, plans: { free: { day: 1 } } }));
    const loaded = await loadConfig(file, {});
    assert.ok(loaded.ok, JSON.stringify(loaded));
    return loaded.config.environments[0]?.routes as RouteTable;
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

const paths = Array.from({ length: 40 }, (_, i) => {
  return `/${Array.from({ length: 1 + (i % 8) }, (_, j) => (i % 2 === 0 ? `{p${j}}` : `a${i}-${j}`)).join("/")}`;
});
const unique = [...new Map(paths.map((path) => [path.replace(/\{[^}]+\}/g, "{}"), path])).values()];

const LONG: Readonly<Record<string, string>> = {
  "16 KB in one segment": `/v1/${"a".repeat(16_000)}`,
  "8,000 segments": `/v1${"/a".repeat(8_000)}`,
  "8 segments of 2 KB": `/v1${`/${"a".repeat(2_000)}`.repeat(8)}`,
  "16 KB of (a+)+": `/v1/${"(a+)+".repeat(3_200)}!`,
  "16 KB of braces": `/v1/${"{p0}".repeat(4_000)}`,
  "16 KB of :a": `/v1/${":a".repeat(8_000)}`,
  "16 KB of line ends": `/v1/${"%0A;a".repeat(3_200)}`,
  "16 KB of parameters": `/v1/${";".repeat(8_000)}/${";a/".repeat(2_600)}`,
  "16 KB of escaped question marks": `/v1/a${"/%3F".repeat(4_000)}`,
  "16 KB of dots": `/v1/a${".".repeat(8_000)}/a${"%20".repeat(2_600)}b`,
  "8,000 segments that end in a dot": `/v1${"/a.".repeat(5_300)}`,
  "16 KB of letters of other cases": `/v1/${"%C4%B0".repeat(2_600)}`,
  "16 KB of escapes": `/v1/${"%c3%a9".repeat(2_600)}`,
};

test("a path of 16 KB is judged and matched in a few milliseconds at most", async (t) => {
  const several = Array.from({ length: 40 }, (_, i) => `/{a}-${i}-{b}`);
  const table = await tableOf([...unique, "/{id}.a", ...several]);
  const loose: RouteTable = { ...table, paths: "loose" };
  let worst = [0, ""] as [number, string];
  for (const [name, path] of Object.entries(LONG)) {
    const runs = Array.from({ length: 20 }, () => {
      const startMs = performance.now();
      validateTarget({ method: "GET", target: path, host: "a" }, "http");
      const match = findRoute(table, "GET", path);
      isAmbiguousRoute(loose, {
        ...{ method: "GET", path, match },
        ...{ hasPublicPlan: false, stripPrefix: "" },
      });
      return performance.now() - startMs;
    });
    const ms = Math.min(...runs);
    if (ms > worst[0]) worst = [ms, name];
    assert.ok(ms < 3, `${name}: ${ms} ms`);
  }
  t.annotate(`at most ${worst[0].toFixed(2)} ms: ${worst[1]}`);
});

test("paths of a description are text, never patterns: nothing in them is a regular expression", async () => {
  const table = await tableOf(["/a.c", "/x", "/{id}/b"]);
  const template = (path: string) => findRoute(table, "GET", path).template;
  assert.equal(template("/v1/a.c"), "/v1/a.c");
  assert.equal(template("/v1/abc"), undefined);
  assert.equal(template("/v1/%7Bid%7D/b"), "/v1/{id}/b");
  assert.equal(template("/v1//b"), undefined, "a parameter is never empty");
});
