import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { curlLine } from "../../../src/cli/framework/curl.ts";
import { parsePattern } from "../../../src/core/http/path-pattern.ts";
import type { Operation } from "../../../src/core/http/route.ts";

const ENVIRONMENT = {
  listen: { host: "0.0.0.0", port: 8443 },
  hosts: [],
  routes: { basePath: "/v1", operations: undefined },
} as const;

describe("the curl line of a key", () => {
  it("says https where the environment speaks TLS, and http elsewhere", () => {
    const tls = { cert: "a.pem", key: "b.pem" };
    assert.match(curlLine({ ...ENVIRONMENT, tls }, "K"), / "https:\/\/127\.0\.0\.1:8443\/v1\/"$/);
    assert.match(curlLine(ENVIRONMENT, "K"), / "http:\/\/127\.0\.0\.1:8443\/v1\/"$/);
  });

  it("names a host by its field, and under TLS in the URL, for which the certificate is", () => {
    const hosts = ["api.example.com"];
    assert.match(
      curlLine({ ...ENVIRONMENT, hosts }, "K"),
      /^curl -i -H "Host: api\.example\.com" /,
    );
    const secure = curlLine({ ...ENVIRONMENT, hosts, tls: {} }, "K");
    assert.match(secure, /^curl -i --resolve "api\.example\.com:8443:127\.0\.0\.1" /);
    assert.match(secure, / "https:\/\/api\.example\.com:8443\/v1\/"$/);
  });

  it("names the usual port of HTTPS, an address of IPv6, and a base path that is all", () => {
    const hosts = ["api.example.com"];
    const all = { listen: { host: "::", port: 443 }, hosts, tls: {} };
    const routes = { basePath: "/", operations: undefined } as const;
    assert.match(
      curlLine({ ...ENVIRONMENT, ...all, routes }, "K"),
      /^curl -i --resolve "api\.example\.com:443:\[::1\]" .* "https:\/\/api\.example\.com:443\/"$/,
    );
  });

  it("asks for the first operation that is a GET without parameters, and not deprecated", () => {
    const operation = (method: string, template: string, deprecated = false): Operation => ({
      ...{ method, template, operationId: template, segments: parsePattern(template) },
      ...{ hasRequestBody: false, requiresScope: false, scopes: [], isPublic: false },
      ...{ cost: 1, limits: undefined, lifecycle: { deprecated } },
    });
    const all = [
      operation("POST", "/v1/orders"),
      operation("GET", "/v1/pets/{petId}"),
      operation("GET", "/v1/animals", true),
      operation("GET", "/v1/pets"),
      operation("GET", "/v1/owners"),
    ];
    const pathOf = (operations: readonly Operation[]) => {
      const routes = { ...ENVIRONMENT.routes, operations };
      return /:8443(\/\S*)["']$/.exec(curlLine({ ...ENVIRONMENT, routes }, "K"))?.[1];
    };
    assert.equal(pathOf(all), "/v1/pets");
    const strange = [operation("GET", "/v1/$metadata")];
    assert.equal(pathOf(strange), "/v1/$metadata", "in quotes in which a shell replaces nothing");
    assert.equal(pathOf(all.toReversed()), "/v1/owners");
    assert.equal(pathOf(all.slice(0, 3)), "/v1/", "none of them is one");
  });
});
