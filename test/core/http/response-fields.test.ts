import assert from "node:assert/strict";
import { describe, it } from "vitest";
import type { CorsPolicy } from "../../../src/core/http/cors.ts";
import { clientResponseFields } from "../../../src/core/http/forwarded-fields.ts";
import { standardRateLimit } from "../../../src/core/http/rate-limit-fields.ts";
import type { MeterSource } from "../../../src/core/quota/meters.ts";
import { type WindowName, windowEnd, windowStart } from "../../../src/core/quota/windows.ts";
import { ownFieldsOf, replacedBy } from "./answered.ts";

const NOON = Date.UTC(2026, 6, 15, 12);
const ANNOUNCED = ["deprecation", "sunset"];
const CORS = [
  ...["access-control-allow-credentials", "access-control-allow-headers"],
  ...["access-control-allow-methods", "access-control-allow-origin"],
  ...["access-control-allow-private-network", "access-control-expose-headers"],
  "access-control-max-age",
];

const JSON_SOURCE: MeterSource = { from: "json", pointer: ["usage", "tokens"] };
const OURS = [
  ...["ratelimit", "ratelimit-policy", "x-ratelimit-cost", "x-ratelimit-limit"],
  ...["x-ratelimit-remaining", "x-ratelimit-reset", "x-ratelimit-window", "x-request-id"],
];
const POLICY: CorsPolicy = {
  ...{ origins: ["*"], methods: [], headers: [], expose: [] },
  ...{ credentials: false, maxAgeSeconds: 0 },
};

const passed = (raw: readonly string[], status = 200, replaced: readonly string[] = []) =>
  clientResponseFields(raw, { replaced: new Set(replaced), status });

describe("The backend's fields for the client", () => {
  it("pass as it spelled them, in its order and as often", () => {
    const raw = ["set-cookie", "a", "X-CASE", "b", "Set-Cookie", "c", "Link", "", "X_Under", "d"];
    assert.deepEqual(passed(raw), raw);
    assert.deepEqual(passed([]), []);
  });

  const connection = [
    ...["Connection", "Keep-Alive", "Proxy-Connection", "Proxy-Authenticate", "TE", "Trailer"],
    ...["Proxy-Authorization", "Transfer-Encoding", "Upgrade", "HTTP2-Settings", "Close"],
  ];
  for (const name of connection) {
    it(`never include its ${name}, in any case`, () => {
      for (const one of [name, name.toLowerCase(), name.toUpperCase()]) {
        assert.deepEqual(passed(["A", "1", one, "x", "B", "2"]), ["A", "1", "B", "2"]);
      }
    });
  }

  it("have one Date, the first: caches reckon an answer's age by it (RFC 9110 6.6.1)", () => {
    const raw = ["Date", "1", "A", "b", "date", "2", "DATE", "3"];
    assert.deepEqual(passed(raw), ["Date", "1", "A", "b"]);
  });

  it("never include what its Connection names", () => {
    assert.deepEqual(passed(["X-A", "1", "x-b", "2", "connection", "X-B, close"]), ["X-A", "1"]);
  });

  it("leave out those that the gateway answers for, and no others", () => {
    const raw = ["Sunset", "1", "Vary", "2"];
    assert.deepEqual(passed(raw), raw);
    assert.deepEqual(passed(raw, 200, ["sunset"]), ["Vary", "2"]);
  });

  it("tell a length, but not of the body that a 204 has not", () => {
    const raw = ["Content-Length", "5", "A", "b"];
    for (const status of [200, 206, 304, 404]) assert.deepEqual(passed(raw, status), raw);
    assert.deepEqual(passed(raw, 204), ["A", "b"]);
  });
});

describe("The gateway answers", () => {
  const cases: readonly (readonly [string, boolean, boolean, readonly string[]])[] = [
    ["for its own fields alone where it neither announces an end nor does CORS", false, false, []],
    ["for the end of an operation where it announces one", true, false, ANNOUNCED],
    ["for CORS where it does that", false, true, CORS],
    ["for both where it does both", true, true, [...CORS, ...ANNOUNCED]],
  ];
  for (const [claim, deprecated, cors, names] of cases) {
    it(claim, () => {
      const told = replacedBy({ lifecycle: { deprecated }, ...(cors && { cors: POLICY }) });
      assert.deepEqual(told, [...OURS, ...names].sort());
    });
  }

  it("for the stability of an operation where its description names one", () => {
    const lifecycle = { deprecated: false, stability: "beta" } as const;
    assert.deepEqual(replacedBy({ lifecycle }), [...OURS, "x-api-stability"].sort());
  });
});

describe("The fields of a standing", () => {
  const rateLimitInfo = { limit: 60, remaining: 7, resetMs: NOON };

  it("are three and the window's name, with the reset in Unix seconds, rounded up", () => {
    const told = (resetMs: number) =>
      ownFieldsOf({ rateLimitInfo: { ...rateLimitInfo, resetMs } }).slice(2);
    const fields = ["X-RateLimit-Limit", "60", "X-RateLimit-Remaining", "7", "X-RateLimit-Reset"];
    assert.deepEqual(told(NOON), [...fields, String(NOON / 1_000)]);
    for (const overMs of [1, 999, 1_000]) {
      assert.deepEqual(told(NOON + overMs), [...fields, String(NOON / 1_000 + 1)]);
    }
    const named = ownFieldsOf({ rateLimitInfo: { ...rateLimitInfo, window: "day" } });
    assert.deepEqual(named.slice(-2), ["X-RateLimit-Window", "day"]);
  });

  it("tell the cost where it is not 1 and the request was decided", () => {
    assert.deepEqual(ownFieldsOf({ cost: 1 }), ["X-Request-Id", "r"]);
    assert.deepEqual(ownFieldsOf({ cost: 5 }).slice(2), ["X-RateLimit-Cost", "5"]);
    assert.deepEqual(ownFieldsOf({ cost: 0 }).slice(2), ["X-RateLimit-Cost", "0"]);
    assert.deepEqual(ownFieldsOf({ cost: 5, outcome: "none" }), ["X-Request-Id", "r"]);
  });
});

describe("RateLimit and RateLimit-Policy", () => {
  const second = Date.UTC(2028, 1, 10, 12);
  const usage = (window: WindowName, limit: number, used: number) => {
    const resetMs = windowEnd(window, windowStart(window, second));
    return { window, limit, used, resetMs };
  };

  it("name each window with quota, length, what remains and the seconds to its end", () => {
    const windows = [usage("second", 1, 0), usage("day", 2_000, 1_999), usage("month", 1e12, 1e12)];
    assert.deepEqual(standardRateLimit({ windows }, second), {
      policy: '"second";q=1;w=1, "day";q=2000;w=86400, "month";q=1000000000000;w=2505600',
      state: '"second";r=1;t=1, "day";r=1;t=43200, "month";r=0;t=1684800',
    });
    const year = standardRateLimit({ windows: [usage("year", 5, 7)] }, second + 1);
    assert.deepEqual(year, {
      policy: '"year";q=5;w=31622400',
      state: `"year";r=0;t=${Math.ceil((Date.UTC(2029, 0) - second) / 1_000)}`,
    });
  });

  it("name those of operations and keys, leave out the observed, and tell a ban in force", () => {
    const part = { id: "@1", name: "key" };
    const windows = [
      { ...usage("day", 9, 3), part },
      { ...usage("hour", 4, 4), observed: true as const },
    ];
    const ban = { untilMs: second + 1_001, lengthMs: 60_000, window: "day", offences: 1 } as const;
    assert.deepEqual(standardRateLimit({ windows, ban }, second, { requestsAfter: 2 }), {
      policy: '"key.day";q=9;w=86400, "ban";q=0;w=60',
      state: '"key.day";r=8;t=43200, "ban";r=0;t=2',
    });
    const over = standardRateLimit({ windows, ban: { ...ban, untilMs: second } }, second);
    assert.equal(over.state, '"key.day";r=6;t=43200');
  });
});

describe("The fields in which a backend tells what a request used", () => {
  const meter = (name: string, ...used: MeterSource[]) => {
    return { name, hold: 1, max: 2, untold: 1, used };
  };

  it("do not reach the client, of any meter of the operation, and members of a body are none", () => {
    const tokens = meter("tokens", { from: "header", name: "x-tokens" }, JSON_SOURCE);
    const images = meter("images", { from: "header", name: "x-images" });
    assert.deepEqual(replacedBy({ meters: [tokens] }), [...OURS, "x-tokens"].sort());
    const both = { meters: [tokens, images], cors: POLICY };
    assert.deepEqual(replacedBy(both), [...OURS, ...CORS, "x-tokens", "x-images"].sort());
    assert.deepEqual(replacedBy({ meters: [meter("tokens", JSON_SOURCE)] }), OURS);
  });
});

it("pages of other origins may read every field of ours, and those that the policy names", () => {
  const fields = ownFieldsOf({
    cors: { ...POLICY, expose: ["X-Total"] },
    origin: "https://a.example",
  });
  const names = fields[fields.indexOf("Access-Control-Expose-Headers") + 1]?.split(", ");
  assert.deepEqual(names, [
    ...["X-Request-Id", "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"],
    ...["X-RateLimit-Window", "X-RateLimit-Cost", "RateLimit-Policy", "RateLimit"],
    ...["Deprecation", "Sunset", "Link", "X-API-Stability", "Retry-After", "Age"],
    ...["WWW-Authenticate", "Allow", "X-Total"],
  ]);
});
