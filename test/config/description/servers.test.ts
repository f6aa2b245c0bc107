import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { readDescription } from "../../../src/config/description/openapi.ts";

function read(text: string, basePath = "/v1") {
  const readFile = async () => ({ ok: false, line: 1, why: "there is no such file" }) as const;
  return readDescription(text, { file: "api.yaml", basePath, readFile });
}

describe("servers of a description are read", () => {
  it("with the defaults of variables in the URLs of servers", async () => {
    const warned = async (url: string, variables: string) => {
      const servers = `servers: [{ url: "${url}", variables: ${variables} }]`;
      return (await read(`openapi: 3.1.0\n${servers}\npaths: {}\n`)).warnings.length;
    };
    const url = "https://h.example/{base}/";
    assert.equal(await warned(url, "{ base: { default: v1 } }"), 0);
    assert.equal(await warned("https://h.example/v{n}", '{ n: { default: "1", enum: ["1"] } }'), 0);
    assert.equal(await warned(url, "{ base: { default: v2 } }"), 1);
    assert.equal(await warned(url, "{ other: { default: v1 } }"), 1);
    assert.equal(await warned(url, "{ base: {} }"), 1);
  });

  it("with a warning at the servers of a path or an operation, unless one of them ends in basePath", async () => {
    const of = (path: string) => `servers: [{ url: https://h.example${path} }]`;
    const text = (path: string) => `openapi: 3.1.0
${of("/v1")}
paths:
  /a:
    ${of(path)}
    get: { operationId: a }
  /b:
    ${of("/v1")}
    get:
      operationId: b
      ${of(path)}
`;
    const { warnings, operations } = await read(text("/v9"));
    const why =
      "No server's URL ends in the basePath /v1: the gateway serves the paths under /v1 whatever the servers say";
    assert.deepEqual(
      warnings.map(({ line, message }) => [line, message]),
      [
        [5, why],
        [11, why],
      ],
    );
    assert.deepEqual(
      operations.map(({ template }) => template),
      ["/v1/a", "/v1/b"],
    );
    assert.deepEqual((await read(text("/v1"))).warnings, []);
    assert.deepEqual((await read(text("/v9"), "/")).warnings, []);
  });

  it("without a warning where one server's URL ends in basePath, or basePath is /", async () => {
    const servers = 'servers: [{ url: "{base_url}/v1/" }, { url: https://elsewhere }]';
    for (const [listed, basePath] of [
      [servers, "/v1"],
      [servers, "/"],
      ["servers: []", "/v1"],
    ] as const) {
      const { warnings } = await read(`openapi: 3.1.0\n${listed}\npaths: {}\n`, basePath);
      assert.deepEqual(warnings, [], `${listed} under ${basePath}`);
    }
  });
});
