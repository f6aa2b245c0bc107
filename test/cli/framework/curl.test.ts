import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { curlLine } from "../../../src/cli/framework/curl.ts";

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
});
