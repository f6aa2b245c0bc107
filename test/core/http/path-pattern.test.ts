import assert from "node:assert/strict";
import fc from "fast-check";
import { describe, it } from "vitest";
import {
  bySpecificity,
  comparablePath,
  fitsPattern,
  haveCommonPath,
  isLiteral,
  isTemplateUnder,
  isUnder,
  type PathMatching,
  parsePattern,
} from "../../../src/core/http/path-pattern.ts";

function fits(template: string, path: string, matching: PathMatching = "exact"): boolean {
  const segments = comparablePath(path, matching).split("/");
  return fitsPattern(parsePattern(template, matching), segments);
}

describe("Two patterns have a path in common", () => {
  it("if each segment of one can be that of the other", () => {
    for (const [one, other, expected] of [
      ["/a/{x}", "/a/b", true],
      ["/a/{x}", "/b/{x}", false],
      ["/a/{x}", "/a/{x}/c", false],
      ["/a/b/{y}", "/a/{x}/c", true],
      ["/{x}.json", "/{x}:run", false],
      ["/{x}.json", "/a{x}", true],
      ["/a{x}", "/b{x}", false],
      ["/{x}.json", "/a.json", true],
      ["/{x}.json", "/.json", false],
      ["/{x}-{y}", "/{x}.{y}", true],
    ] as const) {
      const patterns = [parsePattern(one), parsePattern(other)] as const;
      assert.equal(haveCommonPath(...patterns), expected, `${one} ${other}`);
      assert.equal(haveCommonPath(patterns[1], patterns[0]), expected, `${other} ${one}`);
    }
  });
});

describe("A path is compared", () => {
  const cases: readonly (readonly [path: string, exact: string, loose: string])[] = [
    ["/", "/", "/"],
    ["/A/b", "/A/b", "/a/b"],
    ["/a/", "/a/", "/a"],
    ["/a//", "/a//", "/a/"],
    ["/a;b=C/d;e", "/a;b=C/d;e", "/a/d"],
    ["/;a", "/;a", "/"],
    ["/a/;b/", "/a/;b/", "/a/"],
    ["/%3A%3B", "/:;", "/:;"],
    ["/%C3%9C%C3%BC", "/\u00dc\u00fc", "/\u00dc\u00fc"],
    ["/%E2%84%AA", "/\u212a", "/\u212a"],
  ];
  for (const [path, exact, loose] of cases) {
    it(`${path} as ${exact}, and loosely as ${loose}`, () => {
      assert.equal(comparablePath(path), exact);
      assert.equal(comparablePath(path, "exact"), exact);
      assert.equal(comparablePath(path, "loose"), loose);
    });
  }
});

describe("A template is read", () => {
  const cases: readonly (readonly [template: string, segments: unknown, loose?: unknown])[] = [
    ["/v1/Pets", ["", "v1", "Pets"], ["", "v1", "pets"]],
    ["/v1/{petId}", ["", "v1", undefined]],
    ["/{Id}.JSON", ["", ["", ".JSON"]], ["", ["", ".json"]]],
    ["/@{user}", ["", ["@", ""]]],
    ["/{id}:publish", ["", ["", ":publish"]]],
    ["/{a}...{b}", ["", ["", "...", ""]]],
    ["/x{a}-{b}%3Ay", ["", ["x", "-", ":y"]]],
    ["/a/", ["", "a", ""], ["", "a"]],
    ["/", ["", ""], ["", ""]],
    ["/a;b", ["", "a;b"], ["", "a"]],
    ["/a;{b}", ["", ["a;", ""]], ["", "a"]],
    ["/{a};b{c}", ["", ["", ";b", ""]], ["", undefined]],
    ["/{%zz}", ["", undefined]],
  ];
  for (const [template, exact, loose = exact] of cases) {
    it(template, () => {
      assert.deepEqual(parsePattern(template), exact);
      assert.deepEqual(parsePattern(template, "exact"), exact);
      assert.deepEqual(parsePattern(template, "loose"), loose);
    });
  }

  it("and is literal when no name is in it", () => {
    for (const template of ["/", "/a", "/a/b/"]) assert.ok(isLiteral(parsePattern(template)));
    for (const template of ["/{a}", "/a{b}", "/{a}b/c"]) {
      assert.ok(!isLiteral(parsePattern(template)));
    }
  });
});

describe("A template fits", () => {
  const cases: readonly (readonly [template: string, fitting: string[], others: string[]])[] = [
    ["/{id}.json", ["/a.json", "/.json.json", "/a.b.json"], ["/.json", "/json", "/a.jsonx", "/"]],
    ["/@{user}", ["/@a", "/@@"], ["/@", "/a@b", "/a"]],
    ["/{id}:publish", ["/a:publish", "/::publish", "/a%3Apublish"], ["/:publish", "/a:publis"]],
    ["/v{a}.x", ["/vb.x", "/vvx.x"], ["/v.x", "/va.xx", "/av.x", "/x"]],
    ["/{a}-{b}", ["/a-b", "/---", "/a--"], ["/-b", "/a-", "/-", "/--", "/ab"]],
    ["/{a}-{b}-{c}", ["/a-b-c", "/-----", "/a-b--c"], ["/a-b", "/a--c", "/-b-c", "/a-b-"]],
    ["/aa{x}aa", ["/aaaaa", "/aaxaa"], ["/aa", "/aaa", "/aaaa"]],
    ["/{a}/b", ["/a/b"], ["/a/b/", "//b", "/a/c", "/a"]],
  ];
  for (const [template, fitting, others] of cases) {
    it(`${template}: ${fitting.join(" ")}, and not ${others.join(" ")}`, () => {
      for (const path of fitting) assert.ok(fits(template, path), path);
      for (const path of others) assert.ok(!fits(template, path), path);
    });
  }

  it("exactly the texts that put something in place of each name", () => {
    const literal = fc.string({ unit: fc.constantFrom("a", "b", "-"), maxLength: 3 });
    const between = fc.string({ unit: fc.constantFrom("a", "b", "-"), minLength: 1, maxLength: 2 });
    const template = fc
      .tuple(literal, fc.array(between, { maxLength: 2 }), literal)
      .map(([first, middle, last]) => [first, ...middle, last]);
    const text = fc.string({ unit: fc.constantFrom("a", "b", "-"), maxLength: 12 });
    fc.assert(
      fc.property(template, text, (literals, path) => {
        const written = literals.map((part, i) => (i === 0 ? part : `{n${i}}${part}`)).join("");
        const expected = new RegExp(`^${literals.join(".+")}$`).test(path);
        assert.equal(fits(`/x/${written}`, `/x/${path}`), expected);
      }),
      { numRuns: 2_000 },
    );
  });

  it("every spelling of a path alike", () => {
    fc.assert(
      fc.property(fc.string({ unit: fc.constantFrom(..."aZ9-._~:@!;"), minLength: 1 }), (text) => {
        if (text === "." || text === "..") return;
        const escaped = [...text].map((one) => {
          const hex = one.charCodeAt(0).toString(16).toUpperCase();
          return /[:@!;]/.test(one) ? `%${hex}` : one;
        });
        assert.ok(fits(`/${text}`, `/${escaped.join("")}`));
        assert.ok(fits(`/${escaped.join("")}`, `/${text}`));
      }),
    );
  });
});

describe("Of several templates", () => {
  const orders: readonly (readonly [first: string, second: string])[] = [
    ["/a/b", "/a/{x}"],
    ["/a/{x}", "/{x}/{y}"],
    ["/{id}.json", "/{id}"],
    ["/{id}.json", "/@{id}"],
    ["/{a}-{b}", "/{id}"],
    ["/{a}.json", "/{a}-{b}"],
    ["/files/{id}", "/{kind}/{id}.json"],
    ["/files/{id}", "/f/{id}"],
  ];
  for (const [first, second] of orders) {
    it(`${first} is tried ahead of ${second}`, () => {
      assert.ok(bySpecificity(parsePattern(first), parsePattern(second)) < 0);
      assert.ok(bySpecificity(parsePattern(second), parsePattern(first)) > 0);
    });
  }
});

describe("A path is under another", () => {
  it("by whole segments", () => {
    for (const path of ["/v1", "/v1/", "/v1/a"]) assert.ok(isUnder("/v1", path), path);
    for (const path of ["/", "/v", "/v1x", "/v2/v1", ""]) assert.ok(!isUnder("/v1", path), path);
    assert.ok(isUnder("/", "/a"));
  });

  it("as a template is, by the same spellings", () => {
    for (const template of ["/v1", "/v1/{a}", "/v1/a{b}"]) {
      assert.ok(isTemplateUnder("/v1", template), template);
      assert.ok(isTemplateUnder("/", template), template);
    }
    for (const template of ["/V1/a", "/{v1}/a", "/v1x", "/v", "/v{a}/b"]) {
      assert.ok(!isTemplateUnder("/v1", template), template);
    }
    assert.ok(isTemplateUnder("/v1/a:b", "/v1/a%3Ab/c"));
    assert.ok(isTemplateUnder("/V1", "/v1;x/c", "loose"));
    assert.ok(!isTemplateUnder("/v1", "/{a}", "loose"));
  });
});
