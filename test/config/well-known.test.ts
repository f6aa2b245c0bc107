import assert from "node:assert/strict";
import { join } from "node:path";
import { describe, it } from "vitest";
import { stringify } from "yaml";
import type { Config } from "../../src/config/config.ts";
import { findRoute } from "../../src/core/http/route.ts";
import { loadFiles } from "./folder.ts";

const FOLDER = new URL("./well-known/", import.meta.url).pathname;

type Options = {
  readonly basePath?: string;
  readonly keyHeaders?: readonly string[];
  readonly paths?: "loose";
};

/** Loads one of the descriptions, which are in the style of well-known APIs. */
async function load(file: string, { basePath = "/", keyHeaders, paths }: Options = {}) {
  const production = {
    ...{ listen: "127.0.0.1:0", keyTag: "live", upstreams: ["http://127.0.0.1:9"] },
    ...{ basePath, api: join(FOLDER, file), ...(paths && { paths }) },
  };
  const config = {
    environments: { production },
    plans: { free: { minute: 60 } },
    ...(keyHeaders && { keyHeaders }),
  };
  return loadFiles({ "tollgate.yaml": stringify(config) });
}

/** Its warnings, or its mistakes: line and message. */
async function told(file: string, options: Options = {}): Promise<string[]> {
  const loaded = await load(file, options);
  const all = loaded.ok ? loaded.warnings : loaded.mistakes;
  return all.map(({ line, message }) => `${loaded.ok ? "warning " : ""}${line}: ${message}`);
}

async function templatesOf(file: string, paths: readonly string[], options: Options = {}) {
  const loaded = await load(file, options);
  assert.ok(loaded.ok, JSON.stringify(loaded));
  const [environment] = (loaded.config as Config).environments;
  assert.ok(environment !== undefined);
  return paths.map((path) => findRoute(environment.routes, "GET", path).operation?.operationId);
}

describe("check of a description in the style of", () => {
  it("a pet shop of Swagger 2.0 names the converter, in one line", async () => {
    assert.deepEqual(await told("petstore-2.json"), [
      '2: Cannot read a description of Swagger 2.0: convert it to OpenAPI 3, as with "npx swagger2openapi FILE -o NEW", and name the new file',
    ]);
  });

  it("a pet shop of OpenAPI 3 says where its API key is to be named, and then passes", async () => {
    const options = { basePath: "/api/v3" };
    assert.deepEqual(await told("petstore-3.yaml", options), [
      "30: Cannot serve this security: none of its alternatives can be met by a bearer key; add one with an http bearer, oauth2 or openIdConnect scheme, or name the field api_key in keyHeaders",
    ]);
    const keyHeaders = ["authorization", "api_key"];
    const [dearer, ...others] = await told("petstore-3.yaml", { ...options, keyHeaders });
    assert.match(
      dearer ?? "",
      /^warning 12: GET .*findByStatus asks for more \(a scope\) than GET/,
    );
    assert.deepEqual(others, []);
    const loose = { ...options, keyHeaders, paths: "loose" } as const;
    assert.deepEqual(await told("petstore-3.yaml", loose), []);
  });

  it("payments, which offer basic credentials beside a bearer key, passes with a warning", async () => {
    assert.deepEqual(await told("payments.yaml"), [
      'warning 4: This alternative is never met: "basicAuth" is no http bearer, oauth2 or openIdConnect scheme',
    ]);
  });

  it("code hosting passes, with two parameters in a segment", async () => {
    assert.deepEqual(await told("code-hosting.yaml"), []);
    const paths = ["/repos/a/b/compare/v1...v2", "/repos/a/b/compare/v1..v2", "/"];
    assert.deepEqual(await templatesOf("code-hosting.yaml", paths), [
      "repos/compare-commits",
      undefined,
      "meta/root",
    ]);
  });

  it("a cluster passes: its API key stands in Authorization", async () => {
    assert.deepEqual(await told("cluster.json"), []);
  });

  it("telephony, which knows basic credentials alone, says so in one line, at the first operation", async () => {
    assert.deepEqual(await told("telephony.json"), [
      "9: Cannot serve this security: none of its alternatives can be met by a bearer key; add one with an http bearer, oauth2 or openIdConnect scheme",
    ]);
  });

  it("language models passes", async () => {
    assert.deepEqual(await told("models.yaml", { basePath: "/v1" }), []);
  });

  it("messaging passes, with methods of its own behind a colon, and tells of a parameter of many segments", async () => {
    const options = { basePath: "/v1" };
    assert.deepEqual(await told("messaging.yaml", options), [
      "warning 19: {+name} stands for one segment, as every parameter of OpenAPI does: describe longer paths by themselves",
    ]);
    const paths = ["/v1/projects/p/topics/t:publish", "/v1/projects/p/topics/t"];
    const found = await templatesOf("messaging.yaml", paths, options);
    assert.deepEqual(found, [undefined, "topics.get"]);
  });

  it("machines passes, with operations and path items in other files", async () => {
    assert.deepEqual(await told("droplets.yaml"), []);
    const loaded = await load("droplets.yaml");
    assert.ok(loaded.ok);
    const [account, actions] = loaded.config.environments[0]?.routes.operations ?? [];
    assert.deepEqual([account?.cost, account?.scopes], [3, [["account:read"]]]);
    assert.deepEqual([actions?.template, actions?.scopes], ["/v2/actions/{action_id}", []]);
    assert.equal(loaded.files.length, 4, "all of them are watched");
  });

  it("deployed models passes once its field is named, and is told of a misspelt key", async () => {
    const options = { basePath: "/openai" };
    const misspelt =
      'warning 18: "x-limit" has no effect: there is no such key; did you mean x-limits?';
    assert.deepEqual(await told("cloud-models.json", { ...options, keyHeaders: ["api-key"] }), [
      misspelt,
    ]);
    assert.deepEqual(await told("cloud-models.json", options), [
      'warning 7: This alternative is never met: "apiKey" is a key in the field "api-key", which keyHeaders does not name',
      misspelt,
    ]);
    const path = "/openai/deployments/a/extensions.search(kind='b')";
    assert.deepEqual(await templatesOf("cloud-models.json", [path], options), ["Search"]);
  });

  it("the weather, whose key stands in the query, says what to do", async () => {
    assert.deepEqual(await told("cookies-and-queries.yaml", { basePath: "/v1" }), [
      "4: Cannot serve this security: none of its alternatives can be met by a bearer key; add one with an http bearer, oauth2 or openIdConnect scheme",
    ]);
  });
});
