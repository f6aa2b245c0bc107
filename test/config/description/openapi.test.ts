// biome-ignore-all lint/suspicious/noTemplateCurlyInString: descriptions hold no references
import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { readDescription } from "../../../src/config/description/openapi.ts";
import { loadFiles, told } from "../folder.ts";

const noFile = async () => ({ ok: false, line: 1, why: "there is no such file" }) as const;

function read(text: string, basePath = "/v1") {
  return readDescription(text, { file: "api.yaml", basePath, readFile: noFile });
}

/** One GET with these lines, which must be sound. */
async function lifecycleOf(...lines: string[]) {
  const indented = lines.map((line) => `      ${line}\n`).join("");
  const text = `openapi: 3.1.0\npaths:\n  /a:\n    get:\n      operationId: a\n${indented}`;
  const { operations, mistakes } = await read(text);
  assert.deepEqual(mistakes, []);
  return operations[0]?.lifecycle;
}

describe("readDescription makes routes", () => {
  it("operations beside the reference of a path item, as well as those that it leads to", async () => {
    const text = `openapi: 3.1.0
components: { pathItems: { P: { $ref: "#/components/pathItems/Q", put: { x-cost: 2 } }, Q: { get: {} } } }
paths:
  /a: { $ref: "#/components/pathItems/P", post: { x-cost: 5 } }
`;
    const { operations, mistakes } = await read(text);
    assert.deepEqual(mistakes, []);
    const costs = operations.map(({ method, cost }) => `${method} ${cost ?? 1}`);
    assert.deepEqual(costs.sort(), ["GET 1", "POST 5", "PUT 2"]);
  });

  it("of basePath and path, with parameters as holes", async () => {
    const text = "openapi: 3.0.3\npaths:\n  /pets/{petId}: { get: { operationId: getPet } }\n";
    assert.deepEqual((await read(text)).operations, [
      {
        template: "/v1/pets/{petId}",
        segments: ["", "v1", "pets", undefined],
        method: "GET",
        operationId: "getPet",
        hasRequestBody: false,
        requiresScope: false,
        scopes: [],
        isPublic: false,
        cost: 1,
        limits: undefined,
        lifecycle: { deprecated: false },
      },
    ]);
  });

  it("under the basePath / without a second slash", async () => {
    const { operations } = await read(
      "openapi: 3.1.0\npaths: { /pets: { get: {} }, /: { get: {} } }\n",
      "/",
    );
    assert.deepEqual(
      operations.map(({ template }) => template),
      ["/pets", "/"],
    );
  });

  it("of seven methods, named by method and path where they have no operationId", async () => {
    const methods = ["get", "put", "post", "delete", "options", "head", "patch"];
    const entries = methods.map((method) => `    ${method}: {}\n`).join("");
    const { operations, warnings } = await read(
      `openapi: 3.1.0\npaths:\n  /a:\n${entries}    x-note: 1\n    summary: A\n`,
    );
    assert.deepEqual(warnings, []);
    assert.deepEqual(
      operations.map(({ operationId }) => operationId),
      methods.map((method) => `${method.toUpperCase()} /v1/a`),
    );
  });

  it("with a body only where one is described", async () => {
    const text =
      "openapi: 3.1.0\npaths: { /a: { delete: { requestBody: { content: {} } }, post: {} } }\n";
    assert.deepEqual(
      (await read(text)).operations.map(({ hasRequestBody }) => hasRequestBody),
      [true, false],
    );
  });

  it("through references inside the file", async () => {
    const text = `openapi: 3.1.0
paths:
  /a: { $ref: "#/components/pathItems/a~1b" }
  /b: { $ref: "#/paths/~1a" }
components:
  pathItems:
    a/b: { get: {} }
`;
    const { operations, mistakes } = await read(text);
    assert.deepEqual(mistakes, []);
    assert.deepEqual(
      operations.map(({ template }) => template),
      ["/v1/a", "/v1/b"],
    );
  });

  it("with well-formed escapes as they are written", async () => {
    const { operations, mistakes } = await read(
      "openapi: 3.1.0\npaths: { /h%C3%BChner: { get: {} } }\n",
    );
    assert.deepEqual(mistakes, []);
    assert.equal(operations[0]?.template, "/v1/h%C3%BChner");
  });

  it("whose parameters are one segment, which is a warning where other tools mean more", async () => {
    for (const name of ["+name", "*name", "proxy+", "name*"]) {
      const { warnings } = await read(`openapi: 3.1.0\npaths: { "/a/{${name}}": { get: {} } }\n`);
      assert.match(warnings[0]?.message ?? "", /^\{[+*\w]+\} stands for one segment/, name);
    }
    const { warnings } = await read('openapi: 3.1.0\npaths: { "/a/{b}+*": { get: {} } }\n');
    assert.deepEqual(warnings, []);
  });

  it("from JSON, tabs and all", async () => {
    const document = {
      openapi: "3.1.0",
      paths: { "/a": { get: { "x-sunset": "2030-12-05", deprecated: true } } },
    };
    for (const indent of [undefined, 2, "\t"]) {
      const { operations, mistakes } = await read(JSON.stringify(document, null, indent));
      assert.deepEqual(mistakes, []);
      assert.equal(operations[0]?.lifecycle.sunsetMs, Date.UTC(2030, 11, 5));
    }
  });

  it("of OpenAPI 3, whatever else it says that it is", async () => {
    const { operations, mistakes } = await read(
      "swagger: '2.0'\nopenapi: 3.0.0\npaths: { /a: { get: {} } }\n",
    );
    assert.deepEqual([operations.length, mistakes], [1, []]);
  });

  it("where dollars are no references", async () => {
    const { mistakes } = await read('openapi: 3.1.0\ninfo: { title: "${NO_SUCH}" }\npaths: {}\n');
    assert.deepEqual(mistakes, []);
  });

  it("of paths, not of the extensions beside them", async () => {
    const { operations, mistakes } = await read(
      "openapi: 3.1.0\npaths: { x-note: { get: {} }, /a: { get: {} } }\n",
    );
    assert.deepEqual([operations.length, mistakes], [1, []]);
  });
});

describe("the life of an operation", () => {
  const since = "x-deprecated-since: 2025-12-05";

  it("ends at 2030-12-05T00:00:00Z exactly for the date alone", async () => {
    assert.equal(
      (await lifecycleOf("deprecated: true", since, "x-sunset: 2030-12-05"))?.sunsetMs,
      1922659200000,
    );
  });

  const instants: readonly (readonly [text: string, ms: number])[] = [
    ["2030-12-05T00:00:00Z", Date.UTC(2030, 11, 5)],
    ["2030-12-05T00:00:00.001Z", Date.UTC(2030, 11, 5, 0, 0, 0, 1)],
    ["2030-12-05T01:30:00+01:30", Date.UTC(2030, 11, 5)],
    ["2030-12-04T23:59:59-00:00", Date.UTC(2030, 11, 4, 23, 59, 59)],
    ["2030-12-05t01:00:00.123456789z", Date.UTC(2030, 11, 5, 1, 0, 0, 123)],
    ["2030-12-05 00:00:00Z", Date.UTC(2030, 11, 5)],
    ["2028-02-29", Date.UTC(2028, 1, 29)],
  ];
  for (const [text, ms] of instants) {
    it(`reads ${text}`, async () => {
      const life = await lifecycleOf("deprecated: true", since, `x-deprecated-sunset: "${text}"`);
      assert.equal(life?.sunsetMs, ms);
    });
  }

  it("may end at the instant of the deprecation", async () => {
    const life = await lifecycleOf("deprecated: true", since, "x-sunset: 2025-12-05");
    assert.equal(life?.sunsetMs, life?.deprecatedMs);
  });

  it("has only what is given", async () => {
    assert.deepEqual(await lifecycleOf("deprecated: true"), { deprecated: true });
    assert.deepEqual(await lifecycleOf("deprecated: true", "x-successor: /v1/pets?status=sold"), {
      deprecated: true,
      successor: "/v1/pets?status=sold",
    });
  });

  it("has brownouts that begin at a minute or a second, one for those that overlap or touch", async () => {
    const life = await lifecycleOf(
      'x-brownouts: ["2030-11-05T14:00Z/1h", "2030-11-05T14:00:01+01:00/5m", "2030-11-05T14:00z/1s", "2030-11-05T15:00:01Z/1s", "2030-11-05T13:05:01Z/1s"]',
    );
    const [hour, minutes] = [Date.UTC(2030, 10, 5, 14), Date.UTC(2030, 10, 5, 13, 0, 1)];
    assert.deepEqual(life?.brownouts, [
      { fromMs: minutes, toMs: minutes + 301_000 },
      { fromMs: hour, toMs: hour + 3_600_000 },
      { fromMs: hour + 3_601_000, toMs: hour + 3_602_000 },
    ]);
  });

  it("has a successor of up to 2,000 characters, none of which could end the field", async () => {
    const longest = `/${"a".repeat(1_999)}`;
    const life = await lifecycleOf("deprecated: true", `x-successor: ${longest}`);
    assert.equal(life?.successor, longest);
    const { mistakes } = await read(
      `openapi: 3.1.0\npaths: { /a: { get: { deprecated: true, x-successor: ${longest}a } } }\n`,
    );
    assert.match(mistakes[0]?.message ?? "", /x-successor as a URI reference/);
    const escaped = await lifecycleOf("deprecated: true", "x-successor: /%e4");
    assert.equal(escaped?.successor, "/%e4");
    for (const wrong of [...'<>"\\^`{|}'].map((one) => `/a${one}`).concat("http://[a")) {
      const item = { get: { deprecated: true, "x-successor": wrong } };
      const told = await read(JSON.stringify({ openapi: "3.1.0", paths: { "/a": item } }));
      assert.equal(told.mistakes.length, 1, wrong);
    }
  });

  it("has no dates without deprecated: true", async () => {
    assert.deepEqual(await lifecycleOf(since, "x-sunset: 2025-12-06", "x-successor: /v1/b"), {
      deprecated: false,
    });
  });

  it("takes experimental and beta from either name, and stable as none", async () => {
    assert.equal((await lifecycleOf("x-stability-level: beta"))?.stability, "beta");
    assert.equal((await lifecycleOf("x-stability: experimental"))?.stability, "experimental");
    assert.equal(
      (await lifecycleOf("x-stability-level: beta", "x-stability: experimental"))?.stability,
      "beta",
    );
    assert.deepEqual(await lifecycleOf("x-stability: stable"), { deprecated: false });
  });
});

describe("a description in the configuration", () => {
  const config = `environments:
  a: { listen: 127.0.0.1:0, keyTag: a, upstreams: [http://a], api: ./api.yaml }
  b: { listen: 127.0.0.1:0, keyTag: b, upstreams: [http://b], api: ./api.yaml, basePath: /v2 }
plans: { free: { minute: 1 } }
`;

  it("is read for each environment under its own basePath", async () => {
    const loaded = await loadFiles({
      "tollgate.yaml": config,
      "api.yaml": "openapi: 3.1.0\npaths: { /a: { get: {} } }\n",
    });
    assert.ok(loaded.ok);
    const templates = loaded.config.environments.map(
      ({ routes }) => routes.operations?.[0]?.template,
    );
    assert.deepEqual(templates, ["/v1/a", "/v2/a"]);
  });

  it("has its mistakes told once, in its own file, after those of the configuration", async () => {
    const loaded = await loadFiles({
      "tollgate.yaml": `${config}colour: red\n`,
      "api.yaml": "openapi: 3.1.0\npaths: { a: { get: {} } }\n",
    });
    assert.ok(!loaded.ok);
    const files = loaded.mistakes.map(({ file }) => file.split("/").at(-1));
    assert.deepEqual(files, ["tollgate.yaml", "api.yaml"]);
    assert.match(told(loaded)[1] ?? "", /^2:10: Cannot use the path "a": a path starts with \//);
  });

  it("has its warnings told with a configuration that is sound", async () => {
    const loaded = await loadFiles({
      "tollgate.yaml": config,
      "api.yaml": "openapi: 3.1.0\npaths: { /a: { get: { deprecated: true } } }\n",
    });
    assert.ok(loaded.ok);
    assert.equal(loaded.warnings.length, 2);
  });

  const split = {
    "tollgate.yaml": config.replace("./api.yaml", "./api/api.yaml").replace(/\n {2}b:.*/, ""),
    "api/api.yaml": `openapi: 3.1.0
components: { securitySchemes: { token: { type: http, scheme: bearer } } }
paths:
  /a: { $ref: a.yaml }
  /b/{id}: { $ref: "./sub/more.yaml#/items/b~1c" }
`,
    "api/a.yaml": "get: { operationId: a, security: [{ token: [x] }] }\n",
    "api/sub/more.yaml":
      'items: { b/c: { $ref: "#/other" } }\nother: { $ref: ../back.yaml#/item }\n',
    "api/back.yaml": "item: { get: { operationId: b, x-cost: 3 }, post: {} }\n",
  };

  it("may have its path items in other files of its folder, and all of them are watched", async () => {
    const loaded = await loadFiles(split);
    assert.ok(loaded.ok, told(loaded).join("\n"));
    const { operations = [] } = loaded.config.environments[0]?.routes ?? {};
    assert.deepEqual(
      operations.map(({ method, template, cost, scopes }) => [method, template, cost, scopes]),
      [
        ["GET", "/v1/a", 1, [["x"]]],
        ["GET", "/v1/b/{id}", 3, []],
        ["POST", "/v1/b/{id}", 1, []],
      ],
    );
    const files = loaded.files.map((file) => file.split("/").slice(3).join("/"));
    assert.deepEqual(files, [
      "tollgate.yaml",
      "api/api.yaml",
      "api/a.yaml",
      "api/sub/more.yaml",
      "api/back.yaml",
    ]);
    const other = await loadFiles({ ...split, "api/a.yaml": "get: { operationId: a }\n" });
    assert.ok(other.ok);
    assert.notEqual(other.config.hash, loaded.config.hash, "what is in them is in the hash");
  });

  it("has the mistakes of such a file told in that file, at their place", async () => {
    const loaded = await loadFiles({
      ...split,
      "api/a.yaml": "\nget: { x-cost: many }\n",
      "api/back.yaml": "item: [",
    });
    assert.ok(!loaded.ok);
    const places = loaded.mistakes.map(({ file, line }) => `${file.split("/").at(-1)}:${line}`);
    assert.deepEqual(places, ["a.yaml:2", "back.yaml:1", "more.yaml:2"]);
    assert.match(told(loaded)[0] ?? "", /^2:16: Cannot read get.x-cost as a whole number/);
    assert.match(told(loaded)[2] ?? "", /"\.\.\/back.yaml#\/item": it could not be read$/);
  });

  it("has its security schemes in the file that the configuration names", async () => {
    const basic = "components: { securitySchemes: { token: { type: http, scheme: basic } } }\n";
    const loaded = await loadFiles({ ...split, "api/a.yaml": `${split["api/a.yaml"]}${basic}` });
    assert.ok(loaded.ok, told(loaded).join("\n"));
  });

  it("has a thousand files at most", async () => {
    const paths = Array.from({ length: 1_000 }, (_, i) => `  /p${i}: { $ref: ${i}.yaml }\n`);
    const around = {
      file: "api.yaml",
      basePath: "/v1",
      readFile: async () => ({ ok: true, text: "get: {}\n" }) as const,
    };
    const read = await readDescription(`openapi: 3.1.0\npaths:\n${paths.join("")}`, around);
    assert.equal(read.operations.length, 999);
    assert.match(read.mistakes[0]?.message ?? "", /"999.yaml": a description has at most 1000 fi/);
  });

  it("says of a reference that leads nowhere, or in a circle through files, why", async () => {
    for (const [file, text, why] of [
      ["api/a.yaml", undefined, "there is no such file; check the path"],
      ["api/back.yaml", "items: {}\n", "there is no such place in the file"],
      ["api/a.yaml", "$ref: api.yaml#/paths/~1a\n", "it leads in a circle"],
    ] as const) {
      const { [file]: _, ...others } = split as Readonly<Record<string, string>>;
      const loaded = await loadFiles(text === undefined ? others : { ...others, [file]: text });
      assert.equal(told(loaded).length, 1);
      assert.match(told(loaded)[0] ?? "", new RegExp(`Cannot follow the reference .*: ${why}$`));
    }
  });
});
