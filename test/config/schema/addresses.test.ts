import assert from "node:assert/strict";
import { describe, it } from "vitest";
import {
  parseCollector,
  parseHttpUrl,
  parseListen,
  parseNetwork,
  parseOrigin,
  parseRedisUrl,
  parseStoreAddress,
} from "../../../src/config/schema/addresses.ts";
import { formatHostPort, isLoopback } from "../../../src/core/address.ts";

function found<T>(read: { readonly value: T } | { readonly why: string }): T | undefined {
  return "value" in read ? read.value : undefined;
}

describe("a store address", () => {
  const rows: readonly (readonly [url: string, kind: string, shown: string])[] = [
    ["redis://h", "redis", "redis://h"],
    ["redis://h:6379/0", "redis", "redis://h:6379/0"],
    ["redis://[::1]:6379", "redis", "redis://[::1]:6379"],
    ["rediss://user:p%40ss@h:6380/2", "redis", "rediss://user:***@h:6380/2"],
    ["redis://:pass@h", "redis", "redis://:***@h"],
    ["redis://pass@h", "redis", "redis://***@h"],
    ["redis://user:p@ss:w@h", "redis", "redis://user:***@h"],
    [
      "redis+sentinel://u:pass@a:26379,b:26379/main",
      "sentinel",
      "redis+sentinel://u:***@a:26379,b:26379/main",
    ],
    ["rediss+sentinel://a/main", "sentinel", "rediss+sentinel://a/main"],
    ["redis+cluster://a:7000,b:7001", "cluster", "redis+cluster://a:7000,b:7001"],
    ["rediss+cluster://u:pass@a", "cluster", "rediss+cluster://u:***@a"],
  ];
  for (const [url, kind, shown] of rows) {
    it(`${shown} is of kind ${kind} and shows no password`, () => {
      assert.deepEqual(found(parseStoreAddress(url)), { kind, url, shown });
      assert.doesNotMatch(shown, /pass|p%40ss|p@ss/);
    });
  }

  it("may hold a user, an escaped password, several hosts and a name", () => {
    const login = `us%40er:${encodeURIComponent("p@ss:w/rd")}`;
    assert.deepEqual(found(parseRedisUrl(`rediss+sentinel://${login}@a:1,[::1]:2,c/main`)), {
      kind: "sentinel",
      tls: true,
      hosts: [
        { host: "a", port: 1 },
        { host: "::1", port: 2 },
        { host: "c", port: 26_379 },
      ],
      username: "us@er",
      password: "p@ss:w/rd",
      database: 0,
      master: "main",
    });
  });

  it("without a port means 6379, and has the number of its database", () => {
    const read = found(parseRedisUrl("redis://user:p@ss:w@h/3"));
    assert.deepEqual(read?.hosts, [{ host: "h", port: 6379 }]);
    assert.deepEqual([read?.tls, read?.username, read?.password], [false, "user", "p@ss:w"]);
    assert.equal(read?.database, 3);
    assert.equal(found(parseRedisUrl("redis+cluster://a,b:1"))?.hosts[0]?.port, 6379);
  });

  it("memory is one", () =>
    assert.deepEqual(found(parseStoreAddress("memory")), { kind: "memory", shown: "memory" }));

  const wrong = [
    "",
    "Memory",
    "redis:",
    "redis://",
    "redis://h:0",
    "redis://h:65536",
    "redis://[::g]:1",
  ];
  for (const url of [
    ...wrong,
    "redis://a:1,",
    "redis://h/0/1",
    "http://h",
    "redis+cluster://a/1",
  ]) {
    it(`${JSON.stringify(url)} is none, and why does not repeat it`, () => {
      const read = parseStoreAddress(url);
      assert.ok("why" in read);
    });
  }
});

describe("an address to listen on", () => {
  for (const [text, host, port] of [
    ["127.0.0.1:0", "127.0.0.1", 0],
    ["0.0.0.0:65535", "0.0.0.0", 65_535],
    ["[::1]:8080", "::1", 8080],
    ["LocalHost:80", "localhost", 80],
  ] as const) {
    it(`${text} is read and written back`, () => {
      const address = found(parseListen(text));
      assert.deepEqual(address, { host, port });
      assert.equal(address && formatHostPort(address), text.toLowerCase());
    });
  }

  it("of IPv6 is the same in each of its forms, as the shortest, and as IPv4 if it is IPv4-mapped", () => {
    for (const [text, host] of [
      ["[2001:db8:0:0:0:0:0:1]:0", "2001:db8::1"],
      ["[2001:0DB8::0001]:0", "2001:db8::1"],
      ["[0:0:0:0:0:0:0:1]:0", "::1"],
      ["[0:0:0:0:0:0:0:0]:0", "::"],
      ["[::ffff:127.0.0.1]:0", "127.0.0.1"],
      ["[::FFFF:7f00:1]:0", "127.0.0.1"],
      ["[::ffff:0.0.0.0]:0", "0.0.0.0"],
      ["[::fffe:127.0.0.1]:0", "::fffe:7f00:1"],
    ] as const) {
      assert.deepEqual(found(parseListen(text)), { host, port: 0 }, text);
    }
  });

  for (const text of [
    "8080",
    ":8080",
    "*:80",
    "::1:80",
    "[fe80::1%eth0]:80",
    "a b:80",
    "h:-1",
    "h:65536",
  ]) {
    it(`${text} is none`, () => assert.equal(found(parseListen(text)), undefined));
  }

  it("is loopback only for 127/8, ::1 and localhost", () => {
    const hosts = [
      "127.0.0.1",
      "127.255.255.254",
      "::1",
      "localhost",
      "0.0.0.0",
      "::",
      "127.example.com",
    ];
    assert.deepEqual(
      hosts.filter((host) => isLoopback({ host, port: 1 })),
      hosts.slice(0, 4),
    );
  });
});

describe("an origin", () => {
  it("is written without its default port and in lower case", () => {
    assert.equal(found(parseOrigin("http://A:80")), "http://a");
    assert.equal(found(parseOrigin("https://[::1]:9443")), "https://[::1]:9443");
  });
  for (const text of [
    "http://",
    "http://a/",
    "http://a#b",
    "http://a\\b",
    "ws://a",
    "http://u@a",
    "http://a:99999",
    "http://a:0",
  ]) {
    it(`${text} is none`, () => assert.equal(found(parseOrigin(text)), undefined));
  }
});

describe("an address that something is sent to", () => {
  it("has no port 0, which no server has", () => {
    for (const parse of [parseHttpUrl, parseCollector]) {
      assert.equal(found(parse("https://a:443/b")), "https://a/b");
      assert.deepEqual(parse("https://a:0/b"), { why: "no server has port 0" });
    }
  });
});

describe("a network", () => {
  for (const text of [
    "",
    "10.0.0.0/",
    "10.0.0.0/33",
    "10.0.0/8",
    "::/129",
    "fe80::1%eth0",
    "a/8",
  ]) {
    it(`${JSON.stringify(text)} is none`, () => assert.equal(found(parseNetwork(text)), undefined));
  }
});
