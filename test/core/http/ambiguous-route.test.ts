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
  const parsed = operations.map((one) => ({ ...one, segments: parsePattern(one.template, paths) }));
  return { basePath: "/v1", paths, operations: parsed };
}

function isAmbiguous(table: RouteTable, path: string, method = "GET"): boolean {
  const match = findRoute(table, method, path);
  return isAmbiguousRoute(table, { method, path, match, hasPublicPlan: false, stripPrefix: "" });
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

  // Servlets, and Fastify that cuts at ";", read the path before it, Express an item.
  it("by what is before a last segment that begins with ;, and by that segment", () => {
    const one = operation("/v1/{x}");
    const loose = tableOf(
      [
        ...[one, operation("/v1/{x}.json", { cost: 2 }), operation("/v1/{x}.json/{y}")],
        ...[operation("/v1/d/{x}.zip", { cost: 3 }), operation("/v1/{x}.csv/{y}", { cost: 4 })],
      ],
      "loose",
    );
    for (const path of ["d/;7;x.zip", "7;x.csv/;8", ".json/;7", "7%0A.json/;7"]) {
      assert.equal(isAmbiguous(loose, `/v1/${path}`), true, path);
    }
    for (const path of ["d/;7", "d/;", "d/;7;x.pdf", "7/;.json", "7.pdf;x/;8"]) {
      assert.equal(isAmbiguous(loose, `/v1/${path}`), false, path);
    }
    assert.equal(isAmbiguous(tableOf([one], "loose"), "/v1/.json/;7"), false);
  });

  it("by what is before a ; within it, if that asks for more", () => {
    const lifecycle = { deprecated: true, brownouts: [{ fromMs: 1, toMs: 2 }] };
    const loose = tableOf(
      [
        ...[operation("/v1/{x}", { cost: 3 }), operation("/v1/{x}.json", { cost: 9 })],
        ...[operation("/v1/{x}/{y}", { cost: 2 }), operation("/v1/cheap", { cost: 1 })],
        ...[operation("/v1/a/b", { lifecycle }), operation("/v1/a/b/c", { lifecycle })],
      ],
      "loose",
    );
    for (const path of ["7;/a", "7;a;b/c", "7;/a/", "cheap.json;/a", ".json;a/b"]) {
      assert.equal(isAmbiguous(loose, `/v1/${path}`), true, path);
    }
    for (const path of ["cheap;/a", "7;a", "7;a/", "7/a;b", "7%3B/a", ";/a", "7;/a/b", "a/b;x/c"]) {
      assert.equal(isAmbiguous(loose, `/v1/${path}`), false, path);
    }
    assert.equal(isAmbiguous(tableOf(loose.operations ?? []), "/v1/7;/a"), false, "exact");
  });

  // Routers that ignore the case of letters fold more of them than ASCII has.
  it("by its letters in another case, if the operation of those asks for more", () => {
    const brownouts = { deprecated: true, brownouts: [{ fromMs: 1, toMs: 2 }] };
    const loose = tableOf(
      [
        ...[operation("/v1/{x}"), operation("/v1/{x}/{y}"), operation("/v1/skin", { cost: 2 })],
        ...[operation("/v1/caf%C3%A9", { cost: 3 }), operation("/v1/%C5%93uf", { cost: 0 })],
        operation("/v1/{x}.%CE%A3", { cost: 4 }),
        operation("/v1/%C3%BC/{x}", { lifecycle: brownouts }),
      ],
      "loose",
    );
    const spellings = ["%C5%BFkin", "s%E2%84%AAin", "sk%C4%B0n", "SK%C4%B1N", "%C5%BF%E2%84%AAin"];
    for (const path of [...spellings, "CAF%C3%89", "a.%CF%82", "%C5%BFkin;a/b", "%C3%9C/a"]) {
      assert.equal(isAmbiguous(loose, `/v1/${path}`), true, path);
    }
    for (const path of [
      "CAF%C3%A9",
      "%C5%92uf",
      "%C5%BFkins",
      "a.%CE%A3",
      "%C3%BC/%C5%BF",
      "skin",
    ]) {
      assert.equal(isAmbiguous(loose, `/v1/${path}`), false, path);
    }
    assert.equal(isAmbiguous(tableOf(loose.operations ?? []), "/v1/s%E2%84%AAin"), false, "exact");
    const undescribed: RouteTable = {
      ...{ basePath: "/v1", paths: "loose", operations: undefined },
      costs: [{ ...operation("/v1/caf%C3%A9"), cost: 3 }],
      publicRoutes: [operation("/v1/{x}")],
    };
    assert.equal(isAmbiguous(undescribed, "/v1/caf%C3%89"), true);
    assert.equal(isAmbiguous(undescribed, "/v1/caf%C3%A8"), false);
  });

  it("by no letter that the description itself has", () => {
    for (const text of ["CAF%C3%89", "caf%C3%89", "%CF%80%CE%B5%CE%BB%CE%AC%CF%84%CE%B5%CF%82"]) {
      const loose = tableOf(
        [operation("/v1/{%FF}", { cost: 2 }), operation(`/v1/${text}`)],
        "loose",
      );
      assert.equal(isAmbiguous(loose, `/v1/${text}`), false, text);
    }
  });

  // Go, Python, JavaScript and Caddy compare letter by letter.
  it("by no letter that is two letters in another case", () => {
    const literals = ["masse", "fish", "stra%C3%9Fe", "%CE%B1%CE%B9"];
    const loose = tableOf(
      [operation("/v1/{x}"), ...literals.map((text) => operation(`/v1/${text}`, { cost: 2 }))],
      "loose",
    );
    assert.equal(isAmbiguous(loose, "/v1/STRA%E1%BA%9EE"), true, "a capital of its own");
    for (const path of ["ma%C3%9Fe", "%EF%AC%81sh", "STRASSE", "%E1%BE%B3"]) {
      assert.equal(isAmbiguous(loose, `/v1/${path}`), false, path);
    }
  });

  // Caddy up to 2.6 leaves them out at the end of a path, and on Windows in each segment.
  it("by what is before dots and spaces at the end of a segment, if that asks for more", () => {
    const loose = tableOf(
      [
        ...[operation("/v1/{x}", { cost: 2 }), operation("/v1/token", { cost: 5 })],
        ...[operation("/v1/{x}/{y}", { cost: 2 }), operation("/v1/a./token", { cost: 5 })],
        ...[operation("/v1/token/{y}", { cost: 5 }), operation("/v1/cheap", { cost: 1 })],
        operation("/v1/skin.png", { cost: 5 }),
      ],
      "loose",
    );
    const ends = [
      "token.",
      "token%20",
      "TOKEN..",
      "token.%20.",
      "token./",
      "token./a;b",
      "token./a;b/",
      "a./token.",
    ];
    for (const path of [...ends, "%C5%BFkin.png%20"]) {
      assert.equal(isAmbiguous(loose, `/v1/${path}`), true, path);
    }
    for (const path of [
      "cheap.",
      "token.a",
      "token%20a",
      ".token",
      "...",
      "%20",
      "%20/a",
      "a%20.",
      // Routers that read up to a ";" leave no dots out.
      "token%20;/x",
    ]) {
      assert.equal(isAmbiguous(loose, `/v1/${path}`), false, path);
    }
    assert.equal(isAmbiguous(tableOf(loose.operations ?? []), "/v1/token."), false, "exact");
  });

  // H3 up to 1 decodes a path before it looks for "?" and "#", and ignores a slash before these.
  it("by what is before an escaped question mark or #, if that asks for more, with exact too", () => {
    const operations = [
      ...[operation("/v1/{x}", { cost: 2 }), operation("/v1/token", { cost: 5 })],
      ...[operation("/v1/{x}/{y}", { cost: 2 }), operation("/v1/cheap", { cost: 1 })],
      ...[operation("/v1/a%3F", { cost: 1 }), operation("/v1/end/", { cost: 9 })],
      operation("/v1/a/b/c/{free}", { cost: 0 }),
    ];
    for (const paths of ["exact", "loose"] as const) {
      const table = tableOf(operations, paths);
      const ends = ["", "a=b", "%3F", "/x", "%23", "%0A"];
      for (const path of [
        ...ends.map((end) => `token%3F${end}`),
        ...["token/%3Fx", "token%23", "token%23/x", "token/%23", "token%23%3F", "a%3F"],
        "end/%3Fx",
      ]) {
        assert.equal(isAmbiguous(table, `/v1/${path}`), true, `${paths} ${path}`);
      }
      for (const path of ["cheap%3F", "7%3Fx", "%3Ftoken", "7%3F/token", "%23token", "cheap%23"]) {
        assert.equal(isAmbiguous(table, `/v1/${path}`), false, `${paths} ${path}`);
      }
      assert.equal(isAmbiguous(table, "/v1/token%3F", "POST"), false);
    }
    assert.equal(isAmbiguous(tableOf(operations), "/v1/cheap/;%3F"), false, "; is a letter");
    const loose = tableOf(operations, "loose");
    for (const path of ["TOKEN%3F", "to%E2%84%AAen%3F", "token;a%3F/x"]) {
      assert.equal(isAmbiguous(loose, `/v1/${path}`), true, path);
      assert.equal(isAmbiguous(tableOf(operations), `/v1/${path}`), false, `exact ${path}`);
    }
    const undescribed: RouteTable = {
      ...{ basePath: "/v1", operations: undefined },
      costs: [{ ...operation("/v1/dear"), cost: 3 }],
    };
    assert.equal(isAmbiguous(undescribed, "/v1/dear%3F"), true);
    assert.equal(isAmbiguous(undescribed, "/v1/other%3F"), false);
    const stripped = tableOf([operation("/a%3F/{x}"), operation("/a%3F/token", { cost: 2 })]);
    const asked = { method: "GET", path: "/a%3F/token%3F", hasPublicPlan: false };
    const based = { ...stripped, basePath: "/a?" };
    const match = findRoute(based, "GET", asked.path);
    assert.equal(isAmbiguousRoute(based, { ...asked, match, stripPrefix: "/a%3F" }), true);
  });

  // Fastify up to 4 and h3 up to 1 heed case, and read no further than ";" or an escaped "?".
  it("by what is before these in another spelling than the template that costs least", () => {
    const operations = [
      ...[operation("/v1/{x}", { cost: 3 }), operation("/v1/cheap", { cost: 1 })],
      operation("/v1/{x}/{y}", { cost: 2 }),
    ];
    for (const path of ["CHEAP;/x", "CHEAP%3F/x", "cheap/%3Fx"]) {
      assert.equal(isAmbiguous(tableOf(operations, "loose"), `/v1/${path}`), true, path);
    }
    for (const path of ["cheap;/x", "cheap%3F/x"]) {
      assert.equal(isAmbiguous(tableOf(operations, "loose"), `/v1/${path}`), false, path);
    }
    const each = tableOf(
      [
        ...[operation("/v1/{x}", { cost: 3 }), operation("/v1/{x}/{y}", { cost: 3 })],
        operation("/v1/scoped", { scopes: [["a"]] }),
      ],
      "loose",
    );
    assert.equal(isAmbiguous(each, "/v1/SCOPED;/x"), true, "of two that ask for each its own");
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
    // The processor of this thread alone: how busy the machine is otherwise does not count.
    const before = process.threadCpuUsage();
    assert.equal(isAmbiguous(large, "/v1/r1/7"), false);
    const { user, system } = process.threadCpuUsage(before);
    const ms = (user + system) / 1_000;
    assert.ok(ms < 250, `took ${ms} ms`);
  });
});
