import assert from "node:assert/strict";
import { describe, it } from "vitest";
import {
  hasBody,
  type RawRequestHead,
  type RequestHead,
  validateBody,
  validateHead,
  validateHeadSize,
} from "../../../src/core/http/head.ts";
import type { Result } from "../../../src/core/refusal.ts";
import { parseFraming } from "../../../src/http1/parse/framing.ts";

const LIMITS = { headerBytes: 1_000, headerCount: 20, urlBytes: 100 };
const HOST = ["Host", "api.test"] as const;

function raw(
  rawHeaders: readonly string[] = HOST,
  more: Partial<RawRequestHead> = {},
): RawRequestHead {
  const { framing = 0 } = parseFraming(more.version === "1.0" ? "1.0" : "1.1", rawHeaders);
  return { method: "POST", target: "/v1/pets", version: "1.1", rawHeaders, framing, ...more };
}

/** "ok", or the code and, where there is one, the reason. */
function told(judged: Result<unknown>): string {
  if (judged.ok) return "ok";
  const { code, why } = judged.refusal;
  return why === undefined ? code : `${code}: ${why}`;
}

const judge = (fields: readonly string[], more: Partial<RawRequestHead> = {}) =>
  validateHead(raw([...HOST, ...fields], more), LIMITS);

function accepted(fields: readonly string[], more: Partial<RawRequestHead> = {}): RequestHead {
  const judged = judge(fields, more);
  assert.ok(judged.ok, told(judged));
  return judged.value;
}

describe("A head", () => {
  it("is passed on as it came, with what was read from it", () => {
    const fields = [
      ...["AUTHORIZATION", "Bearer x", "Content-Length", "5", "Accept", "a", "accept", "b"],
      ...["Expect", "100-Continue", "Upgrade", "h2c"],
    ];
    assert.deepEqual(accepted(fields), {
      ...raw([...HOST, ...fields]),
      names: [
        ...["host", "authorization", "content-length", "accept", "accept", "expect", "upgrade"],
      ],
      host: "api.test",
      authorization: "Bearer x",
      upgrade: "h2c",
      framing: 5,
      expectsContinue: true,
    });
    assert.deepEqual(accepted([]), {
      ...raw(),
      names: ["host"],
      host: "api.test",
      authorization: undefined,
      upgrade: undefined,
      framing: 0,
      expectsContinue: false,
    });
  });

  it("with several faults is refused for the first in the order of the page", () => {
    const many = Array.from({ length: LIMITS.headerCount }, () => ["X", ""]).flat();
    const [odd, coded, expecting] = [
      ["Host", "a b"],
      ["Transfer-Encoding", "gzip"],
      ["Expect", "x"],
    ];
    const refused = (fields: readonly (readonly string[])[], method = "POST") =>
      told(validateHead(raw(fields.flat(), { method }), LIMITS));
    assert.deepEqual(
      [
        refused([odd, odd, coded, expecting, many], "FOO"),
        refused([odd, odd, coded, expecting], "FOO"),
        refused([odd, coded, expecting], "FOO"),
        refused([odd, coded, expecting]),
        refused([HOST, coded, expecting]),
        refused([HOST, expecting]),
      ],
      [
        "headers_too_large: too many",
        "bad_request: more than one host",
        "not_implemented: unknown method",
        "bad_request: malformed Host",
        "not_implemented: transfer coding",
        "expectation_failed",
      ],
    );
  });

  for (const name of [
    ...["Host", "Authorization", "Content-Length", "Transfer-Encoding", "Content-Type", "Expect"],
    "Upgrade",
  ]) {
    it(`has at most one ${name}, in whatever case, even twice the same`, () => {
      const value = name === "Content-Length" ? "5" : "chunked";
      const fields = [name, value, name.toUpperCase(), value];
      const expected = `bad_request: more than one ${name.toLowerCase()}`;
      assert.equal(told(validateHead(raw(fields), LIMITS)), expected);
    });
  }

  it("may be of HTTP/1.1 or 1.0 and of nothing else", () => {
    for (const version of ["1.1", "1.0"]) assert.equal(told(judge([], { version })), "ok");
    for (const version of ["0.9", "1.2", "2.0", "3", ""]) {
      assert.equal(told(judge([], { version })), `http_version: ${version}`);
    }
  });

  const methods: readonly (readonly [string, readonly string[]])[] = [
    ["ok", ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]],
    ["method_not_allowed", ["CONNECT", "TRACE"]],
    ["not_implemented: unknown method", ["get", "PROPFIND", "QUERY", "POSTS", "", "trace"]],
  ];
  for (const [expected, names] of methods) {
    it(`of ${names.join(", ")} is ${expected}`, () => {
      for (const method of names) assert.equal(told(judge([], { method })), expected);
    });
  }

  it("of TRACE has no body, as that of GET", () => {
    const framed = (framing: RawRequestHead["framing"]) =>
      told(judge([], { method: "TRACE", framing }));
    assert.equal(framed(0), "method_not_allowed");
    assert.equal(framed(1), "bad_request: a body on TRACE");
    assert.equal(framed("chunked"), "bad_request: a body on TRACE");
    assert.equal(framed("coding"), "not_implemented: transfer coding");
  });

  it("asks for 100-continue in any case, or for nothing, in HTTP/1.0 too, which gets no 100", () => {
    for (const value of ["100-continue", "100-Continue"]) {
      assert.equal(accepted(["Expect", value]).expectsContinue, true);
      assert.equal(accepted(["Expect", value], { version: "1.0" }).expectsContinue, false);
    }
    for (const value of ["", "100-continued", "x100-continue", "200-ok", "100-continue, a"]) {
      assert.equal(told(judge(["Expect", value])), "expectation_failed");
      assert.equal(told(judge(["Expect", value], { version: "1.0" })), "expectation_failed");
    }
  });
});

describe("Framing (RFC 9112 6.1 to 6.3, strictly)", () => {
  const good: readonly (readonly [readonly string[], RequestHead["framing"]])[] = [
    [[], 0],
    [["Content-Length", "0"], 0],
    [["Content-Length", "007"], 7],
    [["Content-Length", "9".repeat(15)], 999_999_999_999_999],
    [["Transfer-Encoding", "chunked"], "chunked"],
    [["Transfer-Encoding", "Chunked"], "chunked"],
  ];
  for (const [fields, expected] of good) {
    it(`by ${fields.join(": ") || "no field"} is read`, () => {
      assert.equal(accepted(fields).framing, expected);
    });
  }

  const lengths = ["", "+1", "-1", "1 ", " 1", "1x", "x1", "0x1", "1.5", "1,1", "1e3", "٣"];
  for (const value of [...lengths, "9".repeat(16)]) {
    it(`by Content-Length: ${JSON.stringify(value)} is refused`, () => {
      assert.equal(told(judge(["Content-Length", value])), "bad_request: malformed Content-Length");
    });
  }

  for (const value of ["", "gzip", "gzip, chunked", "chunked, chunked", "chunked;a", " chunked"]) {
    it(`by Transfer-Encoding: ${JSON.stringify(value)} is not implemented`, () => {
      const judged = judge(["Transfer-Encoding", value]);
      assert.equal(told(judged), "not_implemented: transfer coding");
    });
  }

  it("by both fields is refused, whatever they say", () => {
    for (const [length, coding] of [
      ["5", "chunked"],
      ["0", "chunked"],
      ["x", "gzip"],
    ] as const) {
      const judged = judge(["Content-Length", length, "Transfer-Encoding", coding]);
      assert.equal(told(judged), "bad_request: both length and transfer coding");
    }
  });

  it("by Transfer-Encoding on HTTP/1.0 is refused", () => {
    const judged = judge(["Transfer-Encoding", "chunked"], { version: "1.0" });
    assert.equal(told(judged), "bad_request: transfer coding on HTTP/1.0");
    assert.equal(told(judge(["Content-Length", "5"], { version: "1.0" })), "ok");
  });
});

describe("The size of a head", () => {
  const size = (given: Partial<RawRequestHead>, limits: Partial<typeof LIMITS>) =>
    told(validateHeadSize(raw(HOST, given), { ...LIMITS, ...limits }));

  it("is at most so many fields", () => {
    const rawHeaders = ["a", "", "b", "", "c", ""];
    assert.equal(size({ rawHeaders }, { headerCount: 3 }), "ok");
    assert.equal(size({ rawHeaders }, { headerCount: 2 }), "headers_too_large: too many");
  });

  it("is at most so many bytes of fields, each with its colon, space, CR and LF", () => {
    const rawHeaders = ["ab", "cde", "f", ""];
    assert.equal(size({ rawHeaders }, { headerBytes: 14 }), "ok");
    assert.equal(size({ rawHeaders }, { headerBytes: 13 }), "headers_too_large");
    const target = "/".padEnd(100, "a");
    assert.equal(
      size({ rawHeaders, target }, { headerBytes: 14 }),
      "ok",
      "the target has urlBytes",
    );
  });

  it("is at most so many bytes of target", () => {
    assert.equal(size({ target: "/234" }, { urlBytes: 4 }), "ok");
    assert.equal(size({ target: "/234" }, { urlBytes: 3 }), "uri_too_long");
  });

  it("is judged before all else of it", () => {
    const wrong = raw(["X", "y"], { target: "/".repeat(101), method: "TRACE", version: "2.0" });
    assert.equal(told(validateHead(wrong, LIMITS)), "uri_too_long");
  });
});

describe("A body", () => {
  const length = (bytes: number) => ["Content-Length", String(bytes)];
  const CHUNKED = ["Transfer-Encoding", "chunked"];
  const body = (fields: readonly string[], method: string, deleteBody = false) =>
    told(validateBody(accepted(fields, { method }), { bodyBytes: 10, deleteBody }));

  it("is there by a length over 0 or by chunks", () => {
    assert.equal(hasBody({ framing: 0 }), false);
    assert.equal(hasBody({ framing: 1 }), true);
    assert.equal(hasBody({ framing: "chunked" }), true);
  });

  it("has no place on GET, HEAD and OPTIONS, declared or not", () => {
    for (const method of ["GET", "HEAD", "OPTIONS"]) {
      for (const fields of [CHUNKED, length(1)]) {
        assert.equal(body(fields, method, true), `bad_request: a body on ${method}`);
      }
      for (const fields of [[], length(0)]) assert.equal(body(fields, method), "ok");
    }
  });

  it("has one on DELETE where the operation declares it", () => {
    assert.equal(body(length(1), "DELETE"), "bad_request: a body on DELETE");
    assert.equal(body(CHUNKED, "DELETE", true), "ok");
    assert.equal(body([], "DELETE"), "ok");
  });

  it("is as long as is allowed, where it says so before it comes", () => {
    for (const method of ["POST", "PUT", "PATCH"]) {
      assert.equal(body(length(10), method), "ok");
      assert.equal(body(length(11), method), "body_too_large");
      assert.equal(body(CHUNKED, method), "ok");
    }
    const head = accepted(length(10));
    const judged = validateBody(head, { bodyBytes: 10, deleteBody: false });
    assert.equal(judged.ok && judged.value, head);
  });
});
