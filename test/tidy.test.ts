import assert from "node:assert/strict";
import { existsSync, globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "vitest";
import {
  anchorsIn,
  type Citation,
  citationsIn,
  filesNamedIn,
  linksIn,
} from "./support/citations.ts";
import { emptyClaims } from "./support/empty-claims.ts";
import { codeOf, commentsOf, importsOf, longFunctions } from "./support/source.ts";
import { layoutViolations } from "./support/walls.ts";

const ROOT = join(import.meta.dirname, "..");
const read = (path: string) => readFileSync(join(ROOT, path), "utf8");

/** Where the house bends its own rules: the mistake word for word, and why it may stay. */
const EXCEPTIONS: Readonly<Record<string, string>> = {};

const SOURCES = new Map(
  globSync(["src/**/*.{ts,lua}", "test/**/*.ts", "scripts/**/*.ts", "bench/**/*.ts"], {
    cwd: ROOT,
    exclude: ["**/node_modules/**"],
  })
    .sort()
    .map((path) => [path, read(path)] as const),
);

describe("the house", () => {
  it("keeps its walls, its doors and its measures", () => {
    const found = layoutViolations(SOURCES);
    assert.deepEqual(
      found.filter((mistake) => EXCEPTIONS[mistake] === undefined),
      [],
    );
    const stale = Object.keys(EXCEPTIONS).filter((mistake) => !found.includes(mistake));
    assert.deepEqual(stale, [], "exceptions that nothing needs any more");
  });

  it("tells each change in one sentence, once, under a subject", () => {
    const [, ...releases] = read("CHANGELOG.md").split(/^## .*$/m);
    assert.ok(releases.length > 0);
    for (const release of releases) {
      const [before, ...subjects] = release.split(/^### .*$/m);
      assert.equal(before?.trim(), "");
      const entries = subjects.flatMap((subject) => subject.trim().split("\n"));
      assert.deepEqual(
        entries.filter((line) => !/^- [A-Z`](?:[^.]|\.(?! [A-Z]|$))*\.$/.test(line)),
        [],
      );
      const changes = entries.map((line) => line.split(";")[0]);
      assert.deepEqual(
        changes.filter((change, i) => changes.indexOf(change) !== i),
        [],
      );
    }
  });

  it("describes every room in docs/architecture.md, and no other", () => {
    const page = read("docs/architecture.md");
    const described = [...page.matchAll(/^\| `([\w/]+)\/` \|/gm)].map(([, room]) => room);
    const files = globSync("src/*/**/*.*", { cwd: ROOT });
    const rooms = files.map((path) => path.replace(/^src\/(.*)\/[^/]*$/, "$1"));
    assert.deepEqual(described.toSorted(), [...new Set(rooms)].sort());
  });

  it("lists every decision", () => {
    const index = read("docs/decisions/README.md");
    const pages = globSync("*.md", { cwd: join(ROOT, "docs/decisions") });
    assert.deepEqual(
      pages.filter((page) => page !== "README.md" && !index.includes(`](${page})`)),
      [],
    );
  });

  it("cites pages that are there, at anchors that are there", () => {
    const cited = [...SOURCES].filter(([path]) => path !== "test/tidy.test.ts");
    const bad = cited.flatMap(([path, text]) => missing(path, citationsIn(text)));
    const pages = globSync(["*.md", "docs/**/*.md"], { cwd: ROOT });
    bad.push(...pages.flatMap((path) => missing(path, linksIn(path, read(path)))));
    assert.deepEqual(bad, []);
  });

  it("names source files that are there, in comments and on pages", () => {
    const files = globSync(["**/*.{ts,mjs,lua}"], {
      cwd: ROOT,
      exclude: ["**/node_modules/**", "dist/**"],
    });
    const isThere = (name: string) => files.some((path) => `/${path}`.endsWith(`/${name}`));
    const comments = [...SOURCES].map(([path, text]) => [path, commentsOf(text)] as const);
    const pages = globSync(["*.md", "docs/**/*.md"], { cwd: ROOT, exclude: ["CHANGELOG.md"] });
    const texts = [...comments, ...pages.map((path) => [path, read(path)] as const)];
    const named = texts.flatMap(([path, text]) =>
      filesNamedIn(text).map((name) => ({ path, name })),
    );
    assert.ok(named.length > 100, `only ${named.length} names were found`);
    const isOfReader = (name: string) =>
      /\bNAME\b/.test(name) ||
      name.startsWith("try/") ||
      ["call.mjs", "sign-up.mjs"].includes(name);
    const bad = named.filter(({ name }) => !isOfReader(name) && !isThere(name));
    assert.deepEqual(bad, []);
  });

  it("cites no page that a reader of the repository does not have", () => {
    const foreign =
      /\b(?:contract|spec) \d|(?<![/(])\bedge\.md|\b(?:contract|spec|house|design|reliability|standards)\.md/i;
    const texts = [...SOURCES.keys(), ...globSync(["*.md", "docs/**/*.md"], { cwd: ROOT })];
    const bad = texts.flatMap((path) => {
      const found = path.startsWith("docs/reference/") ? null : foreign.exec(read(path));
      return found === null || path === "test/tidy.test.ts" ? [] : [`${path}: ${found[0]}`];
    });
    assert.deepEqual(bad, []);
  });

  it("begins no comment with a subject that the reader has to guess", () => {
    const guess =
      /(?:\/\*\*|^\s*\/\/|\n\s*\/\/)[\s*]*(?:What|Whatever|Who|Whoever|Whose|Of|That of|Those of)\b.*/g;
    const bad = [...SOURCES].flatMap(([path, text]) => {
      if (path === "test/tidy.test.ts") return [];
      return [...text.matchAll(guess)].map(([comment]) => `${path}: ${comment.trim()}`);
    });
    assert.deepEqual(bad, [], "name the subject: not What, Who or Of");
  });

  it("has no test that passes on nothing", () => {
    const bad = [...SOURCES].flatMap(([path, text]) => {
      if (!path.startsWith("test/") || path === "test/tidy.test.ts") return [];
      return emptyClaims(text).map(({ line, list }) => `${path}:${line}: ${list} may be empty`);
    });
    assert.deepEqual(bad, [], "wrap the list in each() of test/support/each.ts");
  });

  it.for([
    ["all.every(isGood);", ["all"]],
    ["lines\n  .filter(isOurs)\n  .every(isGood);", ["lines .filter(isOurs)"]],
    ["assert.ok(!(await asked()).every(isGood));", ["(await asked())"]],
    ["each(all).every(isGood);", []],
    ["assert.equal(all.length, 3);\nall.every(isGood);", []],
    ["assert.equal(call.length, 3);\nall.every(isGood);", ["all"]],
    ["[1, 2].every(isGood);", []],
    ["[...all].every(isGood);", ["[...all]"]],
    ["const all = [1];\nall.every(isGood);", []],
    ["for (const one of house.lines) assert.ok(one);", ["house.lines"]],
    ["for (const one of house.lines) count(one);", []],
    ["for (const one of each(house.lines)) assert.ok(one);", []],
    ["for (const [a] of all.filter(isOurs)) {\n  assert.ok(a);\n}", ["all.filter(isOurs)"]],
    ["const ours = all.filter(isOurs);\nfor (const one of ours) assertGood(one);", ["ours"]],
    ["const ours = each(all.filter(isOurs));\nfor (const one of ours) assertGood(one);", []],
    ["for (const one of CASES) assert.ok(one);", []],
  ] as const)("knows a claim that holds of nothing: %s", ([text, lists]) => {
    assert.deepEqual(
      emptyClaims(text).map(({ list }) => list),
      lists,
    );
  });

  it("names no registry and no place on one machine, in any text", () => {
    const texts = globSync(["*.{json,md,yaml}", "{docs,config}/**/*.{json,md,yaml}", ".ci/*"], {
      cwd: ROOT,
    });
    const bad = texts.filter((path) => {
      return /"resolved"|registry\.npmjs|(?<![\w.}])[/](?:work|tmp|root)\//.test(read(path));
    });
    assert.deepEqual(bad, []);
  });
});

describe("the lock file", () => {
  it("has every optional package of every platform: npm 11 installs from no other", () => {
    type Locked = { optionalDependencies?: Record<string, string> };
    const { packages } = JSON.parse(read("package-lock.json")) as {
      packages: Record<string, Locked>;
    };
    const wanted = Object.values(packages).flatMap((one) => {
      return Object.keys(one.optionalDependencies ?? {});
    });
    assert.deepEqual(
      wanted.filter((name) => packages[`node_modules/${name}`] === undefined),
      [],
    );
  });
});

/** The citations at `path` that lead nowhere, for people. */
function missing(path: string, citations: readonly Citation[]): string[] {
  return citations.flatMap(({ page, anchor }) => {
    if (!existsSync(join(ROOT, page))) return [`${path}: there is no ${page}`];
    const found =
      anchor === undefined || !page.endsWith(".md") || anchorsIn(read(page)).has(anchor);
    return found ? [] : [`${path}: there is no #${anchor} in ${page}`];
  });
}

/** A house of two files, one of them with the text given. */
function judge(path: string, text: string): string[] {
  const name = path.replace(/^src\//, "");
  return layoutViolations(
    new Map([
      ["src/main.ts", `import "./cli/a.ts";\nimport "./${name}";\n`],
      ["src/cli/a.ts", ""],
      [path, text],
    ]),
  ).filter((mistake) => mistake.startsWith(`${path}: `) || mistake.includes("<->"));
}

describe("the tidy test itself", () => {
  const FINDS: readonly [what: string, path: string, text: string, says: RegExp][] = [
    ["a stray import", "src/core/a.ts", 'import { b } from "../gateway/b.ts";\n', /may not import/],
    ["a stray type", "src/core/a.ts", 'import type { b } from "../cli/a.ts";\n', /may not import/],
    ["a dynamic one", "src/pets/a.ts", 'await import("../core/key.ts");\n', /may not import/],
    ["one of many lines", "src/core/a.ts", 'import {\n  b,\n} from "node:fs";\n', /may not import/],
    [
      "Node's HTTP",
      "src/cli/a.ts",
      'import { type Agent, request } from "node:http";\n',
      /only types/,
    ],
    ["a passed-on name", "src/core/a.ts", 'export { b } from "../cli/a.ts";\n', /may not import/],
    ["a library at the wrong door", "src/gateway/a.ts", 'import "ioredis";\n', /door elsewhere/],
    ["an unknown library", "src/config/a.ts", 'import "left-pad";\n', /door elsewhere/],
    [
      "a store behind its door",
      "src/admin/a.ts",
      'import "../stores/redis/link.ts";\n',
      /behind a door/,
    ],
    ["a clock in core", "src/core/a.ts", "const a = Date.now();\n", /impure: Date.now/],
    ["the date of now in core", "src/core/a.ts", "const a = new Date();\n", /impure: new Date/],
    ["waiting in core", "src/core/a.ts", "const a = async () => 1;\n", /impure: async/],
    ["dice in a template", "src/core/a.ts", "const a = `$" + "{Math.random()}`;\n", /impure: Math/],
    ["random bytes", "src/core/a.ts", 'import { randomInt } from "node:crypto";\n', /randomInt/],
    ["the process", "src/stores/a.ts", "export const a = process.env.HOME;\n", /only main/],
    ["its import", "src/stores/a.ts", 'import { env } from "node:process";\n', /only main/],
    ["a long file", "src/core/a.ts", `${"\n".repeat(400)}1;\n`, /has 401 lines/],
    ["a long script", "src/core/a.lua", `${"\n".repeat(400)}1\n`, /has 401 lines/],
    ["a room of its own", "src/attic/a.ts", "1;\n", /order of the rooms/],
    ["a vague name", "src/core/utils.ts", "1;\n", /says nothing/],
    ["a default export", "src/core/a.ts", "export default 1;\n", /default export/],
    ["work left", "src/core/a.ts", `// ${"TO"}DO: this\n`, /left to do/],
    ["a test left out", "test/a.test.ts", 'it.skip("a");\n', /leaves tests out/],
    ["a place", "test/a.test.ts", `const a = "/${"tmp"}/a";\n`, /one machine/],
    ["a hidden change", "src/gateway/a.ts", "exchange.code ??= 1;\n", /changes an exchange/],
    ["a circle", "src/cli/b.ts", 'import "./b.ts";\n', /in a circle/],
  ];
  for (const [what, path, text, says] of FINDS) {
    it(`finds ${what}`, () => assert.match(judge(path, text).join("\n"), says));
  }

  const ALLOWS: readonly [what: string, path: string, text: string][] = [
    ["hashing in core", "src/core/a.ts", 'import { hash } from "node:crypto";\n'],
    ["a given instant in core", "src/core/a.ts", "const a = (ms: number) => new Date(ms);\n"],
    [
      "a clock in words",
      "src/core/a.ts",
      '/** Not Date.now(). */\nconst a = "await Date.now()";\n',
    ],
    ["400 lines", "src/core/a.ts", `${"\n".repeat(399)}1;\n`],
    [
      "a process that is handed in",
      "src/cli/a.ts",
      "const a = ({ process }: T) => process.exit;\n",
    ],
    ["quotes in an expression", "src/core/a.ts", "const a = /[\"'`/]/;\nconst b = 1;\n"],
  ];
  for (const [what, path, text] of ALLOWS) {
    it(`allows ${what}`, () => assert.deepEqual(judge(path, text), []));
  }

  it("reads citations in code, and links and anchors in pages", () => {
    assert.deepEqual(citationsIn("// See docs/a/b.md#c-d, and docs/e.md."), [
      { page: "docs/a/b.md", anchor: "c-d" },
      { page: "docs/e.md", anchor: undefined },
    ]);
    assert.deepEqual(
      linksIn("docs/a/b.md", "[x](c.md#d) [y](../e.md) [z](#f) [w](https://g/h.md)"),
      [
        { page: "docs/a/c.md", anchor: "d" },
        { page: "docs/e.md", anchor: undefined },
        { page: "docs/a/b.md", anchor: "f" },
      ],
    );
    const page = '# A `b`, c\n\n```sh\n# no heading\n```\n## A b c\n<a id="own"></a>\n';
    assert.deepEqual([...anchorsIn(page)].sort(), ["a-b-c", "a-b-c-1", "own"]);
    assert.deepEqual(missing("src/a.ts", citationsIn("docs/reference/none.md#a")), [
      "src/a.ts: there is no docs/reference/none.md",
    ]);
    assert.deepEqual(missing("src/a.ts", citationsIn("docs/reference/http.md#none")), [
      "src/a.ts: there is no #none in docs/reference/http.md",
    ]);
  });

  it("finds a file that nothing reaches", () => {
    const sources = new Map([
      ["src/main.ts", ""],
      ["src/core/a.ts", ""],
    ]);
    assert.deepEqual(layoutViolations(sources), ["src/core/a.ts: is not reached from src/main.ts"]);
  });

  it("measures functions of every kind, whatever their heads look like", () => {
    const body = "    1;\n".repeat(58);
    const heads = [
      "function a() {",
      "export async function a(\n  b: number,\n): Promise<void> {",
      "const a = (b: string) => {",
      "  a(b: { c: 1 }): string {",
      "function a(b: unknown): b is string {",
    ];
    for (const head of heads) {
      const whole = `${head}\n${body}${/^ */.exec(head)?.[0]}}\n`;
      const length = head.split("\n").length + 59;
      assert.deepEqual(longFunctions(whole, length), [], head);
      assert.deepEqual(longFunctions(whole, length - 1), [{ line: 1, length }], head);
    }
    assert.deepEqual(longFunctions(`if (a) {\n${body}${body}}\n`, 60), []);
  });

  it("reads code without its words, and imports with their names", () => {
    assert.equal(codeOf("a(`x$" + "{b('}')}y`); // c").trim(), "a(    b(   )   );");
    assert.deepEqual(importsOf('import { type A, b as c } from "./d.ts"; // import "e"'), [
      { path: "./d.ts", names: ["A", "b"] },
    ]);
  });
});
