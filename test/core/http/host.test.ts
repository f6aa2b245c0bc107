import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { normalizeHost, validateHead } from "../../../src/core/http/head.ts";

const LIMITS = { headerBytes: 1_000, headerCount: 20, urlBytes: 100 };

const judge = (...rawHeaders: string[]) =>
  validateHead({ method: "GET", target: "/", version: "1.1", rawHeaders, framing: 0 }, LIMITS);

function told(judged: ReturnType<typeof judge>): string {
  return judged.ok ? "ok" : `${judged.refusal.code}: ${judged.refusal.why}`;
}

describe("The Host of a request", () => {
  it("is there", () => {
    assert.equal(told(judge("Accept", "a")), "bad_request: no Host");
  });

  const names = [
    ...["a", "api.test", "api.test.", "a..b", "A-1_b.test", "-a-.b", "127.0.0.1"],
    ...["[::1]", "[::ffff:127.0.0.1]", "[::aF]", "[1:2:3:4:5:6:7:8]"],
  ];
  for (const name of names) {
    it(`may be ${name}, with or without a port`, () => {
      for (const port of ["", ":", ":0", ":8080", ":65535", ":00080"]) {
        const judged = judge("Host", name + port);
        assert.ok(judged.ok, told(judged));
        assert.equal(judged.value.host, name + port);
        const shortest = name.toLowerCase().replace("127.0.0.1]", "7f00:1]").replace(/\.$/, "");
        assert.equal(normalizeHost(judged.value.host), shortest);
      }
    });
  }

  const empty = ["", " ", ":80", "[]", "[]:80"];
  const ports = [
    "a:65536",
    "a:99999",
    "a:000080",
    "a:8x",
    "a:x",
    "a:-1",
    "a: 80",
    "a:80:80",
    "a::",
  ];
  const marks = [
    "a b",
    " a",
    "a ",
    "a/b",
    "a@b",
    "@a",
    "a,b",
    "a?",
    "#a",
    "é",
    "a\t",
    "a%2e",
    "a\n",
  ];
  const brackets = [
    ...["[::1", "::1]", "::1", "[g]", "[::1]a", "a[::1]", "[::1]80", "[a]]", "[[a]"],
    ...["[:::::]", "[aF]", "[1:2]", "[127.0.0.1]", "[::1.2]", "[.]", "[::1.]", "[::1::2]:80"],
  ];
  for (const host of [...empty, ...ports, ...marks, ...brackets]) {
    it(`may not be ${JSON.stringify(host)}`, () => {
      assert.equal(told(judge("Host", host)), "bad_request: malformed Host");
    });
  }

  it("is compared without its port, in lower case", () => {
    assert.equal(normalizeHost("API.Test:8080"), "api.test");
    assert.equal(normalizeHost("[::1]"), "[::1]");
    assert.equal(normalizeHost("[::1]:80"), "[::1]");
    assert.equal(normalizeHost("a:80.test"), "a:80.test");
    assert.equal(normalizeHost("[0:0:0:0:0:0:0:1]:80"), "[::1]");
    assert.equal(normalizeHost("[2001:DB8::0:1]"), "[2001:db8::1]");
  });
});
