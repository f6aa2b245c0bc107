import assert from "node:assert/strict";
import { describe, it } from "vitest";
import {
  type ForwardedIdentity,
  isLoop,
  upstreamRequestFields,
} from "../../../src/core/http/forwarded-fields.ts";
import type { RequestHead } from "../../../src/core/http/head.ts";

const IDENTITY: ForwardedIdentity = {
  requestId: "r1",
  key: { id: "k_1", scopes: [] },
  owner: { id: "acme", plan: "free", meta: {} },
  keyHeaders: ["authorization", "x-api-key"],
  peer: "192.0.2.7",
  peerIsTrusted: false,
  scheme: "http",
  prefix: "",
};
const TRUSTED: ForwardedIdentity = { ...IDENTITY, peerIsTrusted: true };

function head(rawHeaders: readonly string[], more: Partial<RequestHead> = {}): RequestHead {
  return {
    method: "GET",
    target: "/v1/pets",
    version: "1.1",
    rawHeaders,
    names: rawHeaders.filter((_, i) => i % 2 === 0).map((name) => name.toLowerCase()),
    host: "api.test",
    authorization: undefined,
    upgrade: undefined,
    framing: 0,
    expectsContinue: false,
    ...more,
  };
}

const OURS: Readonly<Record<string, string>> = {
  "X-Consumer-Id": "acme",
  "X-Consumer-Plan": "free",
  "X-Consumer-Key-Id": "k_1",
  "X-Request-Id": "r1",
  "X-Forwarded-For": "192.0.2.7",
  "X-Forwarded-Proto": "http",
  "X-Forwarded-Host": "api.test",
  Via: "1.1 tollgate",
};

/** Ours, with some of them otherwise. */
const ours = (changed: Readonly<Record<string, string>> = {}) =>
  Object.entries({ ...OURS, ...changed }).flat();

const forwarded = (
  fields: readonly string[],
  identity = IDENTITY,
  more: Partial<RequestHead> = {},
) => upstreamRequestFields(head(fields, more), identity);

describe("Max-Forwards", () => {
  const sent = (fields: readonly string[], method = "OPTIONS") =>
    forwarded(fields, IDENTITY, { method }).filter((_, i, all) => /^max-f/i.test(all[i - 1] ?? ""));

  it.for([
    ["1", "0"],
    ["010", "9"],
    ["9".repeat(400), String(Number.MAX_SAFE_INTEGER - 1)],
  ])("of an OPTIONS goes on less one: %s", ([value = "", left = ""]) => {
    assert.deepEqual(sent(["max-Forwards", value]), [left]);
  });

  it("goes on as it came with another method, as no number, and twice", () => {
    assert.deepEqual(sent(["Max-Forwards", "7"], "GET"), ["7"]);
    for (const value of ["", "-1", "1.5", "0x1", "many", "1, 2"]) {
      assert.deepEqual(sent(["Max-Forwards", value]), [value]);
    }
    assert.deepEqual(sent(["Max-Forwards", "7", "Max-Forwards", "8"]), ["7", "8"]);
  });
});

describe("The fields of a request to the backend", () => {
  it("are ours, once each, where the client sent none", () => {
    assert.deepEqual(forwarded([]), ours());
    assert.deepEqual(
      forwarded([], { ...IDENTITY, scheme: "https" }, { version: "1.0", host: "A:1" }),
      ours({ "X-Forwarded-Proto": "https", "X-Forwarded-Host": "A:1", Via: "1.0 tollgate" }),
    );
  });

  it("have the client's before them, as it spelled them and as often", () => {
    const fields = ["accept", "a", "X-CASE", "b", "Accept", "c", "Cookie", "", "X-Consumer", "d"];
    assert.deepEqual(forwarded(fields), [...fields, ...ours()]);
    const alike = ["MyX-Consumer-Id", "a", "X-RateLimit", "b", "X-Forwarded", "c", "Closed", "d"];
    assert.deepEqual(forwarded(alike), [...alike, ...ours()]);
  });

  it("have no name that a CGI variable makes one of a key's, or of a trusted proxy's", () => {
    const identity = { ...IDENTITY, keyHeaders: ["x-api-key"], peerIsTrusted: true };
    const kept = ["X.Api.Keys", "a", "X.Forwarded", "b"];
    const dropped = ["X.Api.Key", "c", "X.Forwarded.Port", "d", "True.Client-IP", "e", "T.E", "f"];
    assert.deepEqual(forwarded([...dropped, "T+E", "g", ...kept, "Te.", "h"], identity), [
      ...["T.E", "f", "T+E", "g", ...kept, "Te.", "h", ...ours()],
    ]);
  });

  const connection = [
    ...["Connection", "Keep-Alive", "Proxy-Connection", "Proxy-Authenticate", "TE", "Trailer"],
    ...["Proxy-Authorization", "Transfer-Encoding", "Upgrade", "HTTP2-Settings", "Close"],
  ];
  const written = [
    "Authorization",
    "Content-Length",
    "Expect",
    "Host",
    "X-Client-Request-Id",
    "X-Api-Key",
  ];
  const others = [
    ...["X-Original-URL", "X-Rewrite-URL", "X-HTTP-Method-Override", "X-HTTP-Method"],
    ...["X-Method-Override", "X_Under", "X-Forwarded_For", "_", "Content_Length"],
  ];
  const copies = ["X-Consumer-Id", "X-Consumer-Other", "X-RateLimit-Limit", "X-RateLimit-Other"];
  const proxies = [
    ...["Forwarded", "X-Real-IP", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"],
    ...["X-Forwarded-Port", "X-Forwarded-Anything", "X-Original-Forwarded-For", "X-Client-IP"],
    ...["True-Client-IP", "CF-Connecting-IP", "Client-IP", "X-Cluster-Client-IP"],
    "Fastly-Client-IP",
  ];
  for (const name of [...connection, ...written, ...others, ...copies, ...proxies]) {
    it(`never have a stranger's ${name}, in any case`, () => {
      for (const one of [name, name.toLowerCase(), name.toUpperCase()]) {
        assert.deepEqual(forwarded([one, "x", "A", "b"]), ["A", "b", ...ours()], one);
      }
    });
  }

  it("have none that Connection names, in any field of it and any case, and all of ours", () => {
    const named = ["Connection", "close, X-A", "connection", " x-b ,X-Consumer-Id,via,keep-alive"];
    assert.deepEqual(forwarded(["x-A", "1", "X-C", "2", "X-B", "3", ...named]), [
      ...["X-C", "2"],
      ...ours(),
    ]);
    const others = ["A", "x-b", "X-B", "2"];
    assert.deepEqual(forwarded(others), [...others, ...ours()], "only Connection names");
    for (const value of ["close", "CLOSE", "keep-alive", "Keep-Alive", ""]) {
      assert.deepEqual(forwarded(["Connection", value, "A", "b"]), ["A", "b", ...ours()]);
    }
  });

  it("have ours where a trusted proxy says an empty host or scheme", () => {
    const empty = ["X-Forwarded-Host", "", "X-Forwarded-Proto", ""];
    assert.deepEqual(forwarded(empty, TRUSTED), ours());
    const after = ["X-Forwarded-Host", "a.test", "X-Forwarded-Proto", "https", ...empty];
    const said = ours({ "X-Forwarded-Host": "a.test", "X-Forwarded-Proto": "https" });
    assert.deepEqual(forwarded(after, TRUSTED), said);
  });

  it("have of a trusted proxy what it says, and its chain goes on with the peer", () => {
    const fields = [
      ...["X-Forwarded-For", "198.51.100.1", "X-Forwarded-Host", "a.test:1", "X-Real-IP", "1"],
      ...["x-forwarded-for", "198.51.100.2", "X-Forwarded-Proto", "https", "Forwarded", "for=2"],
      ...["X-Forwarded-Port", "3", "True-Client-IP", "4"],
    ];
    assert.deepEqual(forwarded(fields, TRUSTED), [
      ...["X-Real-IP", "1", "Forwarded", "for=2", "X-Forwarded-Port", "3"],
      ...["True-Client-IP", "4"],
      ...ours({
        "X-Forwarded-For": "198.51.100.1, 198.51.100.2, 192.0.2.7",
        "X-Forwarded-Proto": "https",
        "X-Forwarded-Host": "a.test:1",
      }),
    ]);
    assert.deepEqual(forwarded([], TRUSTED), ours());
  });

  it("have no empty member of a list in X-Forwarded-For and Via", () => {
    const lines = (...values: string[]) => {
      const fields = values.flatMap((value) => ["X-Forwarded-For", value, "Via", value]);
      const sent = forwarded(fields, TRUSTED);
      return ["X-Forwarded-For", "Via"].map((name) => sent[sent.indexOf(name) + 1]);
    };
    const [peer = "", via = ""] = lines();
    for (const empty of [[""], [","], [" , ,"], [", \t,"], ["", ","]]) {
      assert.deepEqual(lines(...empty), [peer, via], JSON.stringify(empty));
    }
    for (const one of [["a,"], [",a"], ["", "a"], ["a ,", " , "]]) {
      assert.deepEqual(lines(...one), [`a, ${peer}`, `a, ${via}`], JSON.stringify(one));
    }
    assert.deepEqual(lines("a, ,b", "c,,d"), [`a, b, c, d, ${peer}`, `a, b, c, d, ${via}`]);
    assert.deepEqual(lines("a,b", "c"), [`a,b, c, ${peer}`, `a,b, c, ${via}`], "as it came");
  });

  it("name the prefix that the backend does not see, and never a client's", () => {
    const stripped = { ...TRUSTED, prefix: "/v1" };
    const theirs = ["X-Forwarded-Prefix", "/admin"];
    const name = "X-Forwarded-Prefix";
    const told = (fields: readonly string[]) =>
      fields.filter((_, i) => fields[i - 1] === name && i % 2 === 1);
    assert.deepEqual(told(forwarded(theirs, stripped)), ["/v1"]);
    assert.deepEqual(told(forwarded(theirs, TRUSTED)), []);
    assert.deepEqual(told(forwarded(theirs)), []);
  });

  it("have a Via that grows", () => {
    assert.deepEqual(forwarded(["Via", "1.1 a, 1.0 b", "via", "2 c"]), [
      ...ours({ Via: "1.1 a, 1.0 b, 2 c, 1.1 tollgate" }),
    ]);
  });

  it("pass on the client's trace, and begin none, with its state behind it", () => {
    const parent = `00-${"a".repeat(32)}-${"b".repeat(16)}-01`;
    assert.deepEqual(forwarded(["TraceParent", parent, "TraceState", "a=1", "tracestate", "b=2"]), [
      ...ours({ traceparent: parent, tracestate: "a=1,b=2" }),
    ]);
    assert.deepEqual(forwarded(["traceparent", parent]), ours({ traceparent: parent }));
    assert.deepEqual(forwarded(["tracestate", "a=1"]), ours());
    assert.deepEqual(forwarded(["traceparent", parent, "traceparent", parent]), ours());
  });
});

describe("A client's own X-Request-Id", () => {
  const own = (value: string) => {
    const fields = forwarded(["X-Request-Id", value]);
    const at = fields.indexOf("X-Client-Request-Id");
    return at === -1 ? undefined : fields[at + 1];
  };
  const [before, behind] = [ours().slice(0, 8), ours().slice(8)];

  it("goes on as X-Client-Request-Id, and never as X-Request-Id", () => {
    const fields = [...before, "X-Client-Request-Id", "abc", ...behind];
    assert.deepEqual(forwarded(["x-request-id", "abc"]), fields);
  });

  it("goes on where it is 1 to 128 printable characters without a space, and not otherwise", () => {
    for (const value of ["a", "x".repeat(128), "!~", "{}<>"]) assert.equal(own(value), value);
    for (const value of ["", "x".repeat(129), "a b", " a", "a ", "é", "aé", "éa", "\x7f", "a\t"]) {
      assert.equal(own(value), undefined, JSON.stringify(value));
    }
  });
});

describe("A loop (RFC 9110 7.6)", () => {
  const loops = (...fields: string[]) => isLoop(head(fields));
  const times = (count: number, member = "1.1 tollgate") => Array(count).fill(member).join(", ");

  it("is one where a request has been here more than three times", () => {
    assert.equal(loops("Via", times(3)), false);
    assert.equal(loops("Via", times(4)), true);
    assert.equal(loops("Via", times(2), "Accept", "a", "VIA", times(2)), true);
    assert.equal(loops("Via", times(4, " 1.0 \t tollgate (a comment) ")), true);
  });

  it("is none of what others have written", () => {
    assert.equal(loops(), false);
    assert.equal(loops("X-Via", times(9)), false);
    assert.equal(loops("Accept", times(9)), false);
    for (const member of ["tollgate", "1.1 tollgate2", "1.1 a tollgate", "1.1 Tollgate", ""]) {
      assert.equal(loops("Via", times(9, member)), false, member);
    }
  });
});
