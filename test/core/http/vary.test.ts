import assert from "node:assert/strict";
import { describe, it } from "vitest";
import type { CorsPolicy } from "../../../src/core/http/cors.ts";
import { mergeVary } from "../../../src/core/http/vary.ts";

const PAGES: CorsPolicy = {
  ...{ origins: ["https://app.test"], methods: [], headers: [], expose: [] },
  ...{ credentials: false, maxAgeSeconds: 0 },
};
const ANY_PAGE: CorsPolicy = { ...PAGES, origins: ["*"] };

function merged(
  fields: readonly string[],
  cors?: CorsPolicy,
  keyHeaders: readonly string[] = ["authorization", "x-api-key"],
): string[] {
  const all = [...fields];
  mergeVary(all, { cors, keyHeaders });
  return all;
}

describe("Vary", () => {
  it("names Origin where the origin decides, and is not there where nothing does", () => {
    assert.deepEqual(merged(["A", "b"], PAGES), ["A", "b", "Vary", "Origin"]);
    assert.deepEqual(merged(["A", "b"], ANY_PAGE), ["A", "b"]);
    assert.deepEqual(merged(["A", "b"]), ["A", "b"]);
    const value = ["A", "vary", "B", "b"];
    assert.deepEqual(merged(value, PAGES), [...value, "Vary", "Origin"]);
  });

  it.each([
    [["Accept"], "Accept, Origin"],
    [["Cookie", "Accept"], "Cookie, Accept, Origin"],
    [["accept , ORIGIN", "Accept,x-a"], "accept, ORIGIN, x-a"],
    [[", Accept,,"], "Accept, Origin"],
    [[""], "Origin"],
    [["*"], "*"],
    [["Accept", "*"], "*"],
  ])("of a backend, %j, is one line with Origin: %s", (values, wanted) => {
    const theirs = values.flatMap((value, i) => [i % 2 === 0 ? "vary" : "VARY", value, "A", "b"]);
    const rest = values.flatMap(() => ["A", "b"]);
    assert.deepEqual(merged(theirs, PAGES), ["vary", wanted, ...rest]);
  });

  it("of a backend stays as it is where the gateway has nothing to add, and two lines are one", () => {
    for (const cors of [undefined, ANY_PAGE]) {
      const one = ["A", "b", "VARY", "Accept,accept", "C", "d", "Very", "e"];
      assert.deepEqual(merged(one, cors), one);
      const two = ["Vary", "Cookie", "A", "b", "Vary", "Accept-Encoding"];
      assert.deepEqual(merged(two, cors), ["Vary", "Cookie, Accept-Encoding", "A", "b"]);
    }
  });

  it.each([
    ["X-Consumer-Id", "X-Consumer-Id, authorization, x-api-key"],
    ["Accept ,x-CONSUMER-meta-tenant", "Accept, x-CONSUMER-meta-tenant, authorization, x-api-key"],
    ["Authorization", "Authorization, x-api-key"],
    ["X-Api-Key, X-Consumer-Plan", "X-Api-Key, X-Consumer-Plan, authorization"],
    ["X-Consumer-Id, *", "*"],
    ["X-Consumer, My-X-Consumer-Id", "X-Consumer, My-X-Consumer-Id"],
  ])(
    "of a backend, %s, names every field of a key if it names the consumer or one of them: %s",
    (value, wanted) => {
      assert.deepEqual(merged(["Vary", value, "A", "b"]), ["Vary", wanted, "A", "b"]);
      const isStar = wanted === "*";
      const both = ["Vary", isStar ? "*" : `${wanted}, Origin`, "A", "b"];
      assert.deepEqual(merged(["Vary", value, "A", "b"], PAGES), both);
    },
  );

  it("of a backend that names the consumer names no field in which no key can come", () => {
    const fields = merged(["Vary", "X-Consumer-Id, Accept"], undefined, ["x-api-key"]);
    assert.deepEqual(fields, ["Vary", "X-Consumer-Id, Accept, x-api-key"]);
    const other = ["Vary", "Authorization"];
    assert.deepEqual(merged(other, undefined, ["x-api-key"]), other);
  });
});
