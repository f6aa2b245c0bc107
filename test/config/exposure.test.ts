import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { maskedConfig } from "../../src/config/queries/masked-config.ts";
import { loadFiles } from "./folder.ts";

const BASE =
  "environments: { production: { listen: 127.0.0.1:0, keyTag: live, upstreams: [http://127.0.0.1:9] } }\nplans: { free: { minute: 60 } }\n";

/** The configuration with these networks of clients. */
function allowing(networks: string): string {
  return BASE.replace(" } }\n", `, allow: [${networks}] } }\n`);
}
const SECRET = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz";

async function warned(lines: string, base = BASE): Promise<string[]> {
  const loaded = await loadFiles({ "tollgate.yaml": `${base}${lines}\n` });
  assert.ok(loaded.ok, JSON.stringify(loaded));
  return loaded.warnings.map(({ line, column, message }) => `${line}:${column}: ${message}`);
}

describe("check warns", () => {
  for (const [lines, expected] of [
    [
      "trustedProxies: [10.0.0.0/8, 0.0.0.0/00, 10.0.0.0/10]",
      /^3:\d+: 0\.0\.0\.0\/0 is every address/,
    ],
    ['trustedProxies: ["::/0"]', /^3:\d+: ::\/0 is every address/],
    ['trustedProxies: ["::ffff:0:0/96"]', /^3:\d+: ::ffff:0:0\/96 is every address/],
    [
      `events: { url: http://hooks.example/in, secret: ${SECRET} }`,
      /^3:\d+: Events go to another machine over http/,
    ],
    [
      `admin: { listen: 127.0.0.1:0, token: ${"a".repeat(32)} }`,
      /^3:\d+: The token is one character again and again/,
    ],
  ] as const) {
    it(`of ${lines}`, async () => {
      const [first, ...others] = await warned(lines);
      assert.match(first ?? "", expected);
      assert.deepEqual(others, []);
      assert.doesNotMatch(first ?? "", /aaaa/);
    });
  }

  for (const lines of [
    "trustedProxies: [10.0.0.0/8, 192.0.2.1]",
    `events: { url: https://hooks.example/in, secret: ${SECRET} }`,
    `events: { url: http://127.0.0.1:8080/in, secret: ${SECRET} }`,
    `events: { url: "http://[::1]:8080/in", secret: ${SECRET} }`,
    `admin: { listen: 127.0.0.1:0, token: ${"ab".repeat(16)} }`,
  ]) {
    it(`not of ${lines}`, async () => assert.deepEqual(await warned(lines), []));
  }

  for (const [allow, trusted, isWarned] of [
    ["10.1.0.0/16, 10.2.0.1", "10.0.0.0/8", true],
    ["192.0.2.0/24, 2001:db8:1::/48", "2001:db8::/32, 192.0.2.0/24", true],
    ["10.1.0.0/16, 192.0.2.0/24", "10.0.0.0/8", false],
    ["10.0.0.0/8", "10.1.0.0/16", false],
    ["0.0.0.0/0", "10.0.0.0/8", false],
    ["2001:db8::1", "10.0.0.0/8", false],
    ["", "10.0.0.0/8", false],
  ] as const) {
    it(`${isWarned ? "" : "not "}of allow: [${allow}] behind proxies in ${trusted}`, async () => {
      const warnings = await warned(`trustedProxies: [${trusted}]`, allowing(allow));
      assert.equal(warnings.length, isWarned ? 1 : 0, warnings.join("\n"));
      if (isWarned) assert.match(warnings[0] ?? "", /^1:\d+: No client outside of trustedProxies/);
    });
  }

  it("not twice of allow where every address is a trusted proxy", async () => {
    for (const every of ["0.0.0.0/0", '"::ffff:0:0/96"']) {
      const warnings = await warned(`trustedProxies: [${every}]`, allowing("10.0.0.0/8"));
      assert.deepEqual(
        warnings.map((text) => text.includes("is every address")),
        [true],
        every,
      );
    }
  });
});

describe("check warns of an upstream that is a listener of the file", () => {
  const service = (listen: string, upstreams: string, more = "") =>
    `environments: { production: { listen: "${listen}", keyTag: live, upstreams: ["${upstreams}"]${more} } }\nplans: { free: { minute: 60 } }\n`;
  for (const [listen, upstream, isWarned] of [
    ["127.0.0.1:8080", "http://127.0.0.1:8080", true],
    ["0.0.0.0:8080", "http://127.0.0.1:8080", true],
    ["[::]:8080", "http://[::1]:8080", true],
    ["localhost:8080", "http://127.0.0.1:8080", true],
    ["127.0.0.1:80", "http://localhost", true],
    ["10.0.0.5:8080", "http://10.0.0.5:8080", true],
    ["127.0.0.1:8080", "http://127.0.0.1:8081", false],
    ["127.0.0.1:8080", "http://127.0.0.2:8080", false],
    ["0.0.0.0:8080", "http://backend:8080", false],
    ["0.0.0.0:8080", "http://10.0.0.6:8080", false],
    ["10.0.0.5:8080", "http://localhost:8080", false],
    ["localhost:8080", "http://127.0.0.2:8080", false],
    ["127.0.0.2:8080", "http://localhost:8080", false],
    ["0.0.0.0:8080", "http://localhost:8080", true],
    ["0.0.0.0:8080", "http://[::1]:8080", false],
  ] as const) {
    it(`${isWarned ? "" : "not "}${upstream} behind ${listen}`, async () => {
      const warnings = await warned("admin: off", service(listen, upstream));
      assert.equal(warnings.length, isWarned ? 1 : 0, warnings.join("\n"));
      if (isWarned)
        assert.match(warnings[0] ?? "", /^1:\d+: http\S+ is \S+ of environment production: /);
    });
  }

  it("a backend's too, and one that is the admin listener", async () => {
    const backends = ", backends: [{ path: /v1/b, upstreams: [http://127.0.0.1:9090] }]";
    const base = service("127.0.0.1:8080", "http://127.0.0.1:9", backends);
    const [first = "", ...others] = await warned("admin: { listen: 127.0.0.1:9090 }", base);
    assert.match(first, /^1:\d+: http:\S+ is 127\.0\.0\.1:9090 of the admin listener: /);
    assert.deepEqual(others, []);
  });
});

describe("check warns of environments that share a listener and differ in its limits", () => {
  const sharing = (production: string, staging: string, port = 8080) => {
    const of = (keyTag: string, limits: string) =>
      `{ listen: 127.0.0.1:${port}, keyTag: ${keyTag}, hosts: [${keyTag}.test], upstreams: [http://127.0.0.1:9], limits: { ${limits} } }`;
    return `environments:\n  production: ${of("live", production)}\n  staging: ${of("test", staging)}\nplans: { free: { minute: 60 } }\n`;
  };
  const all = "connections: 10, connectionsPerAddress: 6, headersTimeout: 1s";

  it("and says which value the listener has", async () => {
    const told = (await warned("", sharing("", all))).map((text) => text.replace(/:\d+:/, ":"));
    const start = "3: Environments production, staging share 127.0.0.1:8080 and differ in limits.";
    assert.deepEqual(told, [
      `${start}connections: the listener has the largest; write the same in each`,
      `${start}connectionsPerAddress: the listener has the smallest above 0; write the same in each`,
      `${start}headersTimeout: the listener has the longest; write the same in each`,
    ]);
  });

  it("not where they agree, differ in other limits, or share nothing", async () => {
    for (const [general, base] of [
      ["", sharing(all, all)],
      [`limits: { ${all} }`, sharing(all, "")],
      ["", sharing("bodyBytes: 1KiB", "tunnelsPerKey: 1")],
      ["", sharing(all, "", 0)],
    ] as const) {
      assert.deepEqual(await warned(general, base), [], `${general} ${base}`);
    }
  });
});

describe("check warns of localhost beside an address that it may be", () => {
  const listening = (one: string, two: string) =>
    `environments:\n  one: { listen: "${one}", keyTag: live, upstreams: [http://127.0.0.1:9] }\n  two: { listen: "${two}", keyTag: test, upstreams: [http://127.0.0.1:9] }\nplans: { free: { minute: 60 } }\n`;

  it("with both listeners, at the name, in either order", async () => {
    assert.deepEqual(await warned("", listening("127.0.0.1:8080", "localhost:8080")), [
      "3:10: localhost:8080 of environment two may be 127.0.0.1:8080 of environment one, as the machine says which address a name has; the start fails if so: write both alike, or choose another port",
    ]);
    const [turned, ...others] = await warned("", listening("localhost:8080", "[::1]:8080"));
    assert.match(turned ?? "", /^2:10: localhost:8080 of environment one may be \[::1\]:8080 of/);
    assert.deepEqual(others, []);
    const admin = await warned(
      "admin: { listen: localhost:8080 }",
      listening("127.0.0.1:8080", "127.0.0.1:0"),
    );
    assert.match(
      admin.join(),
      /^5:10: localhost:8080 of the admin listener may be 127\.0\.0\.1:8080 of/,
    );
  });

  it("not on other ports, other addresses or port 0", async () => {
    for (const [one, two] of [
      ["127.0.0.1:8080", "localhost:8081"],
      ["127.0.0.2:8080", "localhost:8080"],
      ["127.0.0.1:0", "localhost:0"],
    ] as const) {
      assert.deepEqual(await warned("", listening(one, two)), [], `${one} ${two}`);
    }
  });
});

describe("The shown configuration", () => {
  it("has of events.url its origin alone: services put their token into the path", async () => {
    const url = "https://hooks.example:8443/services/T0/B0/canary?key=canary";
    const text = `${BASE}events: { url: "${url}", secret: ${SECRET} }\n`;
    const loaded = await loadFiles({ "tollgate.yaml": text });
    assert.ok(loaded.ok);
    const shown = maskedConfig(loaded.config) as { events: { url: string; secret: string } };
    assert.equal(shown.events.url, "https://hooks.example:8443/***");
    assert.doesNotMatch(JSON.stringify(shown), /canary|whsec/);
  });
});

describe("check warns of a history that is too short to bill a month", () => {
  const including = BASE.replace("minute: 60", "month: 60, included: { month: 9 }");
  for (const [history, base, isWarned] of [
    ["61d", including, true],
    ["62d", including, false],
    ["off", including, false],
    ["1d", BASE, false],
    ["1d", including.replace("included: { month: 9 }", "day: 9, included: { day: 9 }"), false],
  ] as const) {
    it(`${isWarned ? "" : "not "}of ${history} with ${base.split("free:")[1]}`, async () => {
      const warnings = await warned(`history: ${history}`, base);
      assert.equal(warnings.length, isWarned ? 1 : 0, warnings.join("\n"));
      if (isWarned)
        assert.match(
          warnings[0] ?? "",
          /^3:1: The history is too short to bill a month of plan free while the next one lasts: /,
        );
    });
  }
});
