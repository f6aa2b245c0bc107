import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { each } from "../../support/each.ts";
import { loadFiles, told } from "../folder.ts";

const HEAD = `openapi: 3.1.0
components: { securitySchemes: { token: { type: http, scheme: bearer } } }
paths:
`;

/** The warnings of a description whose paths are these, one on each line from the fourth. */
async function warnings(
  paths: readonly string[],
  environment: Readonly<Record<string, string>> = {},
): Promise<string[]> {
  const keys = { public: "open", ...environment };
  const lines = Object.entries(keys).map(([key, value]) => `    ${key}: ${value}\n`);
  const loaded = await loadFiles({
    "tollgate.yaml": `environments:
  a:
    listen: 127.0.0.1:0
    keyTag: a
    upstreams: [http://a]
    api: ./api.yaml
${lines.join("")}plans: { free: { minute: 100 }, open: { minute: 100 } }
`,
    "api.yaml": HEAD + paths.map((line) => `  ${line}\n`).join(""),
  });
  assert.ok(loaded.ok, told(loaded).join("\n"));
  return loaded.warnings.map(({ file, line, column, message }) => {
    const folder = file.slice(0, -"api.yaml".length);
    return `${line}:${column}: ${message.replaceAll(folder, "")}`;
  });
}

const OPEN = "/files/{name}: { get: { operationId: file, security: [] } }";

/** The words for what the literal path asks for beside the template. */
async function more(literal: string, template = OPEN, path = "/files/secret"): Promise<string> {
  const [one = "", ...others] = await warnings([template, `${path}: { get: ${literal} }`]);
  assert.deepEqual(others, []);
  return /asks for more \(([^)]*)\)/.exec(one)?.[1] ?? one;
}

const LIMITS = "{ operationId: secret, security: [], x-limits: { minute: 5 } }";

describe("check warns of an operation that another spelling makes cheaper", () => {
  it("with the places of both", async () => {
    const [one] = await warnings([OPEN, "/files/secret: { get: { operationId: secret } }"]);
    assert.equal(
      one,
      "5:20: GET /v1/files/secret asks for more (a key) than GET /v1/files/{name} at api.yaml:4:20, which has its other spellings: if the backend's router ignores case, a slash at the end or what follows ;, say paths: loose, else ask for the same there; if it also serves the path with a suffix such as .json, describe that too",
    );
  });

  it("by a key, a scope, a cost, a limit, a sunset or a brownout", async () => {
    const keyed = "/files/{name}: { get: { operationId: file } }";
    assert.equal(await more("{ security: [{ token: [a] }] }", keyed), "a scope");
    const either = "/files/{name}: { get: { security: [{ token: [a] }, { token: [b] }] } }";
    assert.equal(await more("{ security: [{ token: [a] }] }", either), "a scope");
    assert.equal(await more("{ x-stability: beta, x-requires-scope: true }", keyed), "a scope");
    assert.equal(await more("{ security: [], x-cost: 50 }"), "a cost of 50");
    const beta = keyed.replace("operationId: file", "x-stability: beta, x-requires-scope: true");
    assert.equal(await more("{ x-cost: 50 }", beta), "a cost of 50");
    assert.equal(await more(LIMITS), "a limit of its own");
    const hourly = OPEN.replace("security", "x-limits: { hour: 5 }, security");
    assert.equal(await more(LIMITS, hourly), "a limit of its own");
    const gone = 'deprecated: true, x-deprecated-since: "2020-01-01", x-sunset: "2021-01-01"';
    assert.equal(await more(`{ security: [], ${gone} }`), "its sunset");
    const brownouts = '{ security: [], x-brownouts: ["2030-11-05T14:00Z/1h"] }';
    assert.equal(await more(brownouts), "its brownouts");
    for (const other of ["2030-11-05T14:00Z/59m", "2030-11-05T14:01Z/59m"]) {
      const others = OPEN.replace("security", `x-brownouts: ["${other}"], security`);
      assert.equal(await more(brownouts, others), "its brownouts");
    }
  });

  it("whatever part of the path is literal, and in whatever case the template writes its own", async () => {
    for (const [template, path] of [
      ["/files/{name}", "/files/{name}.json"],
      ["/files/{name}", "/files/@{user}"],
      ["/Files/{name}", "/files/secret"],
      ["/files/x{name}", "/files/xyz"],
      ["/files/{name}/", "/files/secret"],
      ["/{kind}/{name}", "/files/{id}"],
      ["/files/a{name}z", "/files/ab{id}yz"],
      ["/files/a{name}", "/files/A{id}.json"],
    ] as const) {
      const open = `${template}: { get: { operationId: file, security: [] } }`;
      assert.equal(await more("{ operationId: secret }", open, path), "a key", path);
    }
  });

  it("and of none that asks for no more, or that no spelling makes another", async () => {
    for (const [template, literal, path] of [
      [OPEN, "{ security: [] }", "/files/secret"],
      [OPEN, "{ operationId: secret }", "/files/secret/deep"],
      [OPEN, "{ operationId: secret }", "/other/secret"],
      ["/files/{a}.json: { get: { security: [] } }", "{ operationId: b }", "/files/secret"],
      ["/files/{a}.json: { get: { security: [] } }", "{ operationId: b }", "/files/{b}.xml"],
      ["/files/secret/{a}: { get: { security: [] } }", "{ operationId: b }", "/files/{b}/{c}"],
      ["/files/{name}: { post: { security: [] } }", "{ operationId: b }", "/files/secret"],
      ["/files/{a}: { get: { x-cost: 9 } }", "{ x-cost: 9 }", "/files/secret"],
      [
        '/files/{a}: { get: { x-brownouts: ["2030-11-05T14:00Z/2h", "2030-11-06T14:00Z/1h"] } }',
        '{ x-brownouts: ["2030-11-05T15:00Z/1h"] }',
        "/files/secret",
      ],
      ["/files/y{a}: { get: { security: [] } }", "{ operationId: b }", "/files/x{b}"],
      ["/files/a{a}: { get: { security: [] } }", "{ operationId: b }", "/files/{b}"],
      [
        "/files/{a}: { get: { security: [{ token: [a, b] }] } }",
        "{ security: [{ token: [a] }, { token: [c] }] }",
        "/files/secret",
      ],
      ...["5", "6"].map(
        (limit) =>
          [
            "/files/{a}: { get: { operationId: a, x-limits: { minute: 5 } } }",
            `{ operationId: b, x-limits: { minute: ${limit} } }`,
            "/files/secret",
          ] as const,
      ),
      [
        "/files/{a}: { get: { x-stability: beta, x-requires-scope: true } }",
        "{ x-stability: beta, x-requires-scope: true }",
        "/files/secret",
      ],
    ] as const) {
      const found = await warnings([template, `${path}: { get: ${literal} }`]);
      assert.deepEqual(found, [], `${template} ${path}`);
    }
  });

  it("by a meter that it has not, or of which it holds or takes less", async () => {
    const metered = (meter: string, hold: number, max: number) =>
      `x-meters: { ${meter}: { hold: ${hold}, max: ${max}, used: [header a] } }`;
    const template = `/files/{name}: { get: { ${metered("tokens", 5, 10)} } }`;
    for (const [meter, hold, max, isMore] of [
      ["tokens", 5, 10, false],
      ["tokens", 6, 10, true],
      ["tokens", 5, 11, true],
      ["rows", 5, 10, true],
    ] as const) {
      const literal = `/files/secret: { get: { ${metered(meter, hold, max)} } }`;
      const found = (await warnings([template, literal])).filter((one) => one.includes("asks for"));
      assert.equal(found.length, isMore ? 1 : 0, `${meter} ${hold} ${max}`);
      if (isMore) assert.ok(found[0]?.includes(`more (the meter ${meter}) than`));
    }
  });

  it("once, beside the first of the templates that have its spellings", async () => {
    const other = "/{kind}/secret: { get: { operationId: kind, security: [] } }";
    const found = await warnings([OPEN, other, "/files/secret: { get: { operationId: secret } }"]);
    assert.equal(found.filter((one) => one.includes("GET /v1/files/secret asks for")).length, 1);
  });

  it("a HEAD that is cheaper than its GET included", async () => {
    const head = "/files/{name}: { head: { operationId: file, security: [] } }";
    assert.equal(await more("{ operationId: secret }", head), "a key");
    assert.deepEqual(
      await warnings([head.replace("head:", "get: { operationId: get }, head:")]),
      [],
    );
  });

  it("not without a plan for those without a key, as all need one then", async () => {
    const found = await warnings([OPEN, "/files/secret: { get: { operationId: secret } }"], {
      public: "off",
    });
    assert.ok(each(found).every((one) => !one.includes("asks for more")));
  });

  it("not with paths: loose, of the environment", async () => {
    const paths = [OPEN, "/files/secret: { get: { operationId: secret } }"];
    assert.equal((await warnings(paths, { paths: "exact" })).length, 1);
    assert.deepEqual(await warnings(paths, { paths: "loose" }), []);
  });
});

describe("check warns of templates that cross and ask for different things", () => {
  async function crossings(...paths: readonly string[]): Promise<readonly string[]> {
    const lines = paths.map((path, i) => `${path}: { get: { x-cost: ${i + 2} } }`);
    return (await warnings(lines)).filter((one) => one.includes("match both"));
  }

  it("with the places of both, and which one is found", async () => {
    assert.deepEqual(await crossings("/a/b/{y}", "/a/{x}/c"), [
      "5:15: GET /v1/a/{x}/c asks for more (a cost of 3) than GET /v1/a/b/{y} at api.yaml:4:15, and some paths match both, which the gateway finds as /v1/a/b/{y}: if the backend's router finds the other one there, ask for the same in both",
    ]);
  });

  it("whichever has fewer parameters, the longer literals, or else comes first", async () => {
    for (const [one, other, found] of [
      ["/a/{x}/c", "/a/b/{y}", "/a/{x}/c"],
      ["/a/b/{y}", "/a/{x}/cc", "/a/{x}/cc"],
      ["/b/{x}/d/{z}", "/b/c/{y}/e", "/b/c/{y}/e"],
      ["/p/pre-{id}", "/p/{id}-post", "/p/{id}-post"],
      ["/p/{a}-{b}", "/p/{a}.{b}", "/p/{a}-{b}"],
    ] as const) {
      const [warning = "", ...others] = await crossings(one, other);
      assert.deepEqual(others, []);
      assert.ok(warning.includes(`finds as /v1${found}: `), `${one} ${other}: ${warning}`);
    }
  });

  it("and of none that has no path of the other, all of its paths, or the same price", async () => {
    for (const [one, other] of [
      ["/a/b/{y}", "/a/c/{y}"],
      ["/a/b/{y}", "/a/{x}/c/d"],
      ["/a/{x}.json", "/a/{x}:run"],
      ["/a/{x}", "/a/{x}.json"],
      ["/a/b/{y}", "/a/{x}/{y}"],
      ["/a/b", "/a/{x}"],
    ] as const) {
      assert.deepEqual(await crossings(one, other), [], `${one} ${other}`);
    }
    assert.deepEqual(await warnings(["/a/b/{y}: { get: {} }", "/a/{x}/c: { get: {} }"]), []);
    const methods = ["/a/b/{y}: { get: {} }", "/a/{x}/c: { post: { x-cost: 9 } }"];
    assert.deepEqual(await warnings(methods), []);
  });
});

describe("with paths: loose", () => {
  it("check warns of an operation whose spellings a template has for more", async () => {
    const dear = "/files/{name}: { get: { x-cost: 7 } }";
    const cheap = "/files/list: { get: { x-cost: 2 } }";
    const [one, ...others] = await warnings([dear, cheap], { paths: "loose", public: "off" });
    assert.deepEqual(others, []);
    assert.equal(
      one,
      "5:18: GET /v1/files/list asks for less than its other spellings, which a router that heeds case, a slash at the end or what follows ; finds as GET /v1/files/{name} at api.yaml:4:20, with more to ask (a cost of 7): if clients use them, ask for the same here",
    );
  });

  it("check warns of none that asks for as much, or that has no other spelling of it", async () => {
    for (const [template, literal, path] of [
      ["/files/{a}: { get: { x-cost: 7 } }", "{ x-cost: 7 }", "/files/list"],
      ["/files/{a}: { get: { x-cost: 7 } }", "{ x-cost: 8 }", "/files/list"],
      ["/files/{a}: { get: { x-cost: 7 } }", "{}", "/files/list/all"],
      ["/files/{a}.json: { get: { x-cost: 7 } }", "{}", "/files/list"],
      ["/files/{a}: { post: { x-cost: 7 } }", "{}", "/files/list"],
    ] as const) {
      const paths = [template, `${path}: { get: ${literal} }`];
      const found = await warnings(paths, { paths: "loose", public: "off" });
      assert.deepEqual(found, [], `${template} ${path}`);
    }
  });

  async function mistakes(...paths: string[]): Promise<string[]> {
    const loaded = await loadFiles({
      "tollgate.yaml": `environments:
  a: { listen: 127.0.0.1:0, keyTag: a, upstreams: [http://a], api: ./api.yaml, paths: loose }
plans: { free: { minute: 100 } }
`,
      "api.yaml": HEAD + paths.map((path) => `  ${path}: { get: {} }\n`).join(""),
    });
    return told(loaded);
  }

  it("paths that only their spelling tells apart are a mistake", async () => {
    for (const other of ["/Files", "/files/", "/files;v=1"]) {
      assert.deepEqual(await mistakes("/files", other), [
        `5:3: Cannot use the path "${other}": it matches the same requests as "/files"; keep one`,
      ]);
    }
    assert.deepEqual(await mistakes("/files/{a}.json", "/files/{b}.xml"), []);
  });

  it("a segment of which nothing is left never arrives", async () => {
    assert.deepEqual(await mistakes("/;v=1/files"), [
      '4:3: Cannot use the path "/;v=1/files": with paths: loose nothing is left of a segment that starts with ;',
    ]);
  });
});
