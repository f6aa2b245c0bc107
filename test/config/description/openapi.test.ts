// biome-ignore-all lint/suspicious/noTemplateCurlyInString: descriptions hold no references
import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { readDescription } from "../../../src/config/description/openapi.ts";
import { loadFiles, told } from "../folder.ts";

function read(text: string, basePath = "/v1") {
  return readDescription(text, { file: "api.yaml", basePath });
}

/** One GET with these lines, which must be sound. */
function lifecycleOf(...lines: string[]) {
  const indented = lines.map((line) => `      ${line}\n`).join("");
  const text = `openapi: 3.1.0\npaths:\n  /a:\n    get:\n      operationId: a\n${indented}`;
  const { operations, mistakes } = read(text);
  assert.deepEqual(mistakes, []);
  return operations[0]?.lifecycle;
}

describe("readDescription makes routes", () => {
  it("of basePath and path, with parameters as holes", () => {
    const text = "openapi: 3.0.3\npaths:\n  /pets/{petId}: { get: { operationId: getPet } }\n";
    assert.deepEqual(read(text).operations, [
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

  it("under the basePath / without a second slash", () => {
    const { operations } = read(
      "openapi: 3.1.0\npaths: { /pets: { get: {} }, /: { get: {} } }\n",
      "/",
    );
    assert.deepEqual(
      operations.map(({ template }) => template),
      ["/pets", "/"],
    );
  });

  it("of seven methods, named by method and path where they have no operationId", () => {
    const methods = ["get", "put", "post", "delete", "options", "head", "patch"];
    const entries = methods.map((method) => `    ${method}: {}\n`).join("");
    const { operations, warnings } = read(
      `openapi: 3.1.0\npaths:\n  /a:\n${entries}    x-note: 1\n    summary: A\n`,
    );
    assert.deepEqual(warnings, []);
    assert.deepEqual(
      operations.map(({ operationId }) => operationId),
      methods.map((method) => `${method.toUpperCase()} /v1/a`),
    );
  });

  it("with a body only where one is described", () => {
    const text =
      "openapi: 3.1.0\npaths: { /a: { delete: { requestBody: { content: {} } }, post: {} } }\n";
    assert.deepEqual(
      read(text).operations.map(({ hasRequestBody }) => hasRequestBody),
      [true, false],
    );
  });

  it("through references inside the file", () => {
    const text = `openapi: 3.1.0
paths:
  /a: { $ref: "#/components/pathItems/a~1b" }
  /b: { $ref: "#/paths/~1a" }
components:
  pathItems:
    a/b: { get: {} }
`;
    const { operations, mistakes } = read(text);
    assert.deepEqual(mistakes, []);
    assert.deepEqual(
      operations.map(({ template }) => template),
      ["/v1/a", "/v1/b"],
    );
  });

  it("with well-formed escapes as they are written", () => {
    const { operations, mistakes } = read("openapi: 3.1.0\npaths: { /h%C3%BChner: { get: {} } }\n");
    assert.deepEqual(mistakes, []);
    assert.equal(operations[0]?.template, "/v1/h%C3%BChner");
  });

  it("from JSON, tabs and all", () => {
    const document = {
      openapi: "3.1.0",
      paths: { "/a": { get: { "x-sunset": "2030-12-05", deprecated: true } } },
    };
    for (const indent of [undefined, 2, "\t"]) {
      const { operations, mistakes } = read(JSON.stringify(document, null, indent));
      assert.deepEqual(mistakes, []);
      assert.equal(operations[0]?.lifecycle.sunsetMs, Date.UTC(2030, 11, 5));
    }
  });

  it("where dollars are no references", () => {
    const { mistakes } = read('openapi: 3.1.0\ninfo: { title: "${NO_SUCH}" }\npaths: {}\n');
    assert.deepEqual(mistakes, []);
  });

  it("without a warning where one server's URL ends in basePath", () => {
    const servers = 'servers: [{ url: "{base_url}/v1/" }, { url: https://elsewhere }]';
    assert.deepEqual(read(`openapi: 3.1.0\n${servers}\npaths: {}\n`).warnings, []);
  });
});

describe("the life of an operation", () => {
  const since = "x-deprecated-since: 2025-12-05";

  it("ends at 2030-12-05T00:00:00Z exactly for the date alone", () => {
    assert.equal(
      lifecycleOf("deprecated: true", since, "x-sunset: 2030-12-05")?.sunsetMs,
      1922659200000,
    );
  });

  const instants: readonly (readonly [text: string, ms: number])[] = [
    ["2030-12-05T00:00:00Z", Date.UTC(2030, 11, 5)],
    ["2030-12-05T00:00:00.001Z", Date.UTC(2030, 11, 5, 0, 0, 0, 1)],
    ["2030-12-05T01:30:00+01:30", Date.UTC(2030, 11, 5)],
    ["2030-12-04T23:59:59-00:00", Date.UTC(2030, 11, 4, 23, 59, 59)],
    ["2028-02-29", Date.UTC(2028, 1, 29)],
  ];
  for (const [text, ms] of instants) {
    it(`reads ${text}`, () => {
      const life = lifecycleOf("deprecated: true", since, `x-deprecated-sunset: "${text}"`);
      assert.equal(life?.sunsetMs, ms);
    });
  }

  it("may end at the instant of the deprecation", () => {
    const life = lifecycleOf("deprecated: true", since, "x-sunset: 2025-12-05");
    assert.equal(life?.sunsetMs, life?.deprecatedMs);
  });

  it("has only what is given", () => {
    assert.deepEqual(lifecycleOf("deprecated: true"), { deprecated: true });
    assert.deepEqual(lifecycleOf("deprecated: true", "x-successor: /v1/pets?status=sold"), {
      deprecated: true,
      successor: "/v1/pets?status=sold",
    });
  });

  it("has no dates without deprecated: true", () => {
    assert.deepEqual(lifecycleOf(since, "x-sunset: 2025-12-06", "x-successor: /v1/b"), {
      deprecated: false,
    });
  });

  it("takes experimental and beta from either name, and stable as none", () => {
    assert.equal(lifecycleOf("x-stability-level: beta")?.stability, "beta");
    assert.equal(lifecycleOf("x-stability: experimental")?.stability, "experimental");
    assert.equal(
      lifecycleOf("x-stability-level: beta", "x-stability: experimental")?.stability,
      "beta",
    );
    assert.deepEqual(lifecycleOf("x-stability: stable"), { deprecated: false });
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
});
