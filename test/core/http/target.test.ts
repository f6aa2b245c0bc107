import assert from "node:assert/strict";
import fc from "fast-check";
import { describe, it } from "vitest";
import {
  upstreamTarget,
  validateTarget,
  withoutStrippedSlash,
} from "../../../src/core/http/target.ts";

const judge = (url: string, { method = "GET", host = "api.test" } = {}) => {
  const judged = validateTarget({ method, target: url, host }, "http");
  return judged.ok ? judged.value : `${judged.refusal.code}: ${judged.refusal.why}`;
};
const UNPRINTABLE = "bad_request: target is not printable ASCII";
const FOREIGN = "bad_request: not this host's target";
const AMBIGUOUS = "bad_request: ambiguous path";

describe("A target in origin-form", () => {
  const good = ["/", "/v1/pets", "/a.b", "/.a", "/..a", "/a.", "/a..", "/...", "/a/.../b", "/a/"];
  const escaped = ["/%C3%A9", "/%20", "/%0A", "/%3F", "/%60", "/%3A%3B", "/%7F", "/a%7D"];
  for (const path of [...good, ...escaped, "/!\"$%26'()*+,;=:@[]^_`{|}~"]) {
    it(`${path} is matched and forwarded as it is`, () => {
      assert.deepEqual(judge(path), { raw: path, path });
      assert.deepEqual(judge(`${path}?a=b?c`), { raw: `${path}?a=b?c`, path });
    });
  }

  const spelled = [
    ["/%41", "/A"],
    ["/%61%7A%5a%30%39", "/azZ09"],
    ["/%2d%5F%7e", "/-_~"],
    ["/%c3%a9", "/%C3%A9"],
    ["/%3a%3f%2a%2c", "/%3A%3F%2A%2C"],
    ["/%40%5b%60%7b%2f".slice(0, -3), "/%40%5B%60%7B"],
    ["/a%0ab%4a", "/a%0AbJ"],
  ] as const;
  for (const [path, normal] of spelled) {
    it(`${path} is matched and forwarded as ${normal}, and the query goes on as it is`, () => {
      assert.deepEqual(judge(path), { raw: normal, path: normal });
      assert.deepEqual(judge(`${path}?${path}`), { raw: `${normal}?${path}`, path: normal });
      const url = `http://api.test${path}`;
      assert.deepEqual(judge(url), { raw: normal, path: normal });
    });
  }

  const slashes = ["//", "//a", "/a//", "/a//b", "/\\", "/a\\b"];
  const dots = [
    "/.",
    "/..",
    "/./",
    "/../",
    "/a/.",
    "/a/..",
    "/a/./b",
    "/a/../b",
    "/./a",
    "/..;/a",
    "/.;x",
    "/a/..;x=1/b",
  ];
  const encoded = ["/%2e", "/%2E", "/a%2f", "/%2F", "/%5c", "/%5C", "/%25", "/%2541", "/%00"];
  const broken = ["/%", "/%4", "/%g1", "/%1g", "/a%", "/%%41", "/%4%31", "/a%zz"];
  const utf8 = ["/%c3", "/%ff", "/%80", "/%c0%af", "/%e2%82", "/%ed%a0%80", "/%c3%29"];
  for (const path of [...slashes, ...dots, ...encoded, ...broken, ...utf8]) {
    it(`${path} is refused, and is nobody's business in the query`, () => {
      assert.equal(judge(path), AMBIGUOUS);
      assert.equal(judge(`${path}?a`), AMBIGUOUS);
      assert.deepEqual(judge(`/a?b=${path}`), { raw: `/a?b=${path}`, path: "/a" });
    });
  }

  it("is printable ASCII without # from end to end, the query too", () => {
    for (let code = 0; code <= 0x100; code++) {
      const char = String.fromCharCode(code);
      const printable = code >= 0x21 && code <= 0x7e && char !== "#";
      for (const url of [`/a?${char}`, `/a?${char}b`, `/a?b${char}c`]) {
        const expected = printable ? { raw: url, path: "/a" } : UNPRINTABLE;
        assert.deepEqual(judge(url), expected, JSON.stringify(url));
      }
    }
    for (const url of ["", " /a", "/a ", "/a\n", "é"]) assert.equal(judge(url), UNPRINTABLE);
  });

  it("begins with a slash", () => {
    for (const url of ["a", "?a", "v1/pets", "*"]) assert.equal(judge(url), FOREIGN);
  });

  it("has one normal form, which means what was sent to who decodes it, and is its own", () => {
    fc.assert(
      fc.property(fc.string({ unit: fc.constantFrom(..."ab/.%2eEcC376?#\\ ~") }), (rest) => {
        const judged = judge(`/${rest}`);
        if (typeof judged === "string") return;
        const { raw, path } = judged;
        const [sent = "", ...query] = `/${rest}`.split(/(\?)/);
        assert.equal(raw, path + query.join(""));
        assert.equal(decodeURIComponent(path), decodeURIComponent(sent));
        assert.deepEqual(judge(raw), judged);
        assert.doesNotMatch(path, /%(?![0-9A-F]{2})|%(?:3\d|[46][1-9A-F]|[57][0-9A]|2D|5F|7E)/);
        if (!sent.includes("%")) assert.equal(raw, `/${rest}`);
      }),
    );
  });
});

describe("A target in absolute-form", () => {
  const cases: readonly (readonly [url: string, host: string, expected: unknown])[] = [
    ["http://api.test/a?b", "api.test", { raw: "/a?b", path: "/a" }],
    ["HTTP://API.test/A", "api.TEST", { raw: "/A", path: "/A" }],
    ["http://api.test", "api.test", { raw: "/", path: "/" }],
    ["http://api.test?b", "api.test", { raw: "/?b", path: "/" }],
    ["http://api.test:80/", "api.test", { raw: "/", path: "/" }],
    ["http://api.test:/", "api.test", { raw: "/", path: "/" }],
    ["http://api.test/", "api.test:80", { raw: "/", path: "/" }],
    ["http://api.test:8080/", "api.test:8080", { raw: "/", path: "/" }],
    ["http://[::1]:80/", "[::1]", { raw: "/", path: "/" }],
    ["http://api.test/a//b", "api.test", AMBIGUOUS],
    ["http://api.test:8080/", "api.test", FOREIGN],
    ["http://api.test:81/", "api.test", FOREIGN],
    ["http://api.test:8/", "api.test", FOREIGN],
    ["http://api.test80/", "api.test", FOREIGN],
    ["http://api:80.test/", "api.test", FOREIGN],
    ["http://other.test/", "api.test", FOREIGN],
    ["http://a@api.test/", "api.test", FOREIGN],
    ["https://api.test/", "api.test", FOREIGN],
    ["ftp://api.test/", "api.test", FOREIGN],
    ["xhttp://api.test/", "api.test", FOREIGN],
    ["http:///api.test/", "api.test", FOREIGN],
    ["http://", "api.test", FOREIGN],
    ["http:/api.test/", "api.test", FOREIGN],
    ["api.test:80", "api.test", FOREIGN],
  ];
  for (const [url, host, expected] of cases) {
    it(`${url} for Host ${host} is ${typeof expected === "string" ? "refused" : "its path"}`, () => {
      assert.deepEqual(judge(url, { host }), expected);
    });
  }
});

describe("OPTIONS *", () => {
  it("asks about the server itself, and no other method may", () => {
    assert.deepEqual(judge("*", { method: "OPTIONS" }), { raw: "*", path: "*" });
    assert.equal(judge("*", { method: "HEAD" }), FOREIGN);
    assert.deepEqual(judge("/a", { method: "OPTIONS" }), { raw: "/a", path: "/a" });
    assert.equal(judge("**", { method: "OPTIONS" }), FOREIGN);
  });

  it("is also said by an absolute-form without path and query (RFC 9112 3.2.4)", () => {
    for (const url of ["http://api.test", "HTTP://API.test:80"]) {
      assert.deepEqual(judge(url, { method: "OPTIONS" }), { raw: "*", path: "*" });
    }
    const [path, query] = ["http://api.test/", "http://api.test?b"];
    assert.deepEqual(judge(path, { method: "OPTIONS" }), { raw: "/", path: "/" });
    assert.deepEqual(judge(query, { method: "OPTIONS" }), { raw: "/?b", path: "/" });
    assert.equal(judge("http://other.test", { method: "OPTIONS" }), FOREIGN);
  });
});

describe("A target for a backend", () => {
  const cases = [
    ["/v1/pets?a=//b", "", "", "/v1/pets?a=//b"],
    ["/v1/orders/7?a=%2f", "/v1", "", "/orders/7?a=%2f"],
    ["/v1/orders/7", "/v1/orders", "/internal", "/internal/7"],
    ["/v1/orders", "/v1/orders", "", "/"],
    ["/v1/orders?a", "/v1/orders", "", "/?a"],
    ["/v1/orders", "/v1/orders", "/internal", "/internal/"],
    ["/v1/orders", "", "/internal", "/internal/v1/orders"],
    ["/V1;a=b/Orders/7/8", "/v1/orders", "", "/7/8"],
    ["/V1;a=b/orders;c?d=/e/f", "/v1/orders", "", "/?d=/e/f"],
    ["/a%3Ab/c%3Bd/", "/a:b/c;d", "/x", "/x/"],
  ] as const;
  for (const [raw, stripPrefix, addPrefix, wanted] of cases) {
    it(`${raw} without ${stripPrefix || "nothing"}, behind ${addPrefix || "nothing"}, is ${wanted}`, () => {
      assert.equal(upstreamTarget(raw, { stripPrefix, addPrefix }), wanted);
    });
  }

  it("is the same with a slash at the end only if the whole path is stripped", () => {
    for (const [path, stripPrefix, wanted] of [
      ["/v1/orders/", "/v1/orders", "/v1/orders"],
      ["/V1;a=b/orders;c/", "/v1/orders", "/V1;a=b/orders;c"],
      ["/a%3Ab/", "/a:b", "/a%3Ab"],
      ["/v1/orders", "/v1/orders", "/v1/orders"],
      ["/v1/orders/", "/v1", "/v1/orders/"],
      ["/v1/orders/7/", "/v1/orders", "/v1/orders/7/"],
      ["/v1/orders/", "", "/v1/orders/"],
      ["/", "", "/"],
    ] as const) {
      const judged = withoutStrippedSlash(path, { stripPrefix });
      assert.equal(judged, wanted);
      const forwarded = (one: string) => upstreamTarget(one, { stripPrefix, addPrefix: "/x" });
      assert.equal(forwarded(judged), forwarded(path));
    }
  });
});
