import assert from "node:assert/strict";
import fc from "fast-check";
import { describe, it } from "vitest";
import { addressGroup, addressMatcher, normalizeAddress } from "../../../src/core/address.ts";
import { clientAddress } from "../../../src/gateway/client/client-address.ts";
import { startTestGateway } from "../../support/gateway/house.ts";
import { openClient } from "../../support/wire/client.ts";
import { onlyValue } from "../../support/wire/response.ts";

const trusted = addressMatcher(["10.0.0.0/8", "192.0.2.1/32", "2001:db8:1::/48", "::1/128"]);
const PROXY = "10.0.0.1";

describe("the client's address", () => {
  const rows: readonly (readonly [
    what: string,
    peer: string,
    forwardedFor: string | undefined,
    client: string,
  ])[] = [
    ["is the peer's where nothing is forwarded", PROXY, undefined, PROXY],
    ["is the peer's where the peer is not trusted", "203.0.113.9", "198.51.100.1", "203.0.113.9"],
    ["is what a trusted proxy says", PROXY, "198.51.100.1", "198.51.100.1"],
    [
      "is the rightmost that is not trusted",
      PROXY,
      "1.1.1.1, 198.51.100.1, 10.9.9.9",
      "198.51.100.1",
    ],
    ["is not what the client itself put first", PROXY, "6.6.6.6, 198.51.100.1", "198.51.100.1"],
    [
      "is the leftmost of a chain that is trusted throughout",
      PROXY,
      "10.0.0.3, 10.0.0.2",
      "10.0.0.3",
    ],
    ["may have a port", PROXY, "198.51.100.1:4711", "198.51.100.1"],
    ["may have brackets", PROXY, "[2001:db8::7]", "2001:db8::7"],
    ["may have brackets and a port", PROXY, "[2001:db8::7]:4711", "2001:db8::7"],
    ["may be bare IPv6", PROXY, "2001:db8::7", "2001:db8::7"],
    ["is IPv4 when it is mapped into IPv6", PROXY, "::ffff:198.51.100.1", "198.51.100.1"],
    ["is IPv4 when it is mapped in capitals", PROXY, "::FFFF:198.51.100.1", "198.51.100.1"],
    ["is IPv4 when it is mapped in hexadecimal", PROXY, "::ffff:c633:6401", "198.51.100.1"],
    ["is found behind a mapped proxy", PROXY, "198.51.100.1, ::ffff:10.0.0.2", "198.51.100.1"],
    ["ignores white space", PROXY, " \t198.51.100.1 \t,  10.0.0.2 ", "198.51.100.1"],
    ["is the last proxy's where a member is garbage", PROXY, "198.51.100.1, unknown", PROXY],
    ["is the last one before garbage", PROXY, "6.6.6.6, _hidden, 10.0.0.2", "10.0.0.2"],
    ["is not read across an empty member", PROXY, "6.6.6.6, , 10.0.0.2", "10.0.0.2"],
    ["is the peer's where the field is empty", PROXY, "", PROXY],
    ["is not an IPv4 address with too much", PROXY, "198.51.100.1.2", PROXY],
    ["is not an IPv4 address with a leading zero", PROXY, "198.51.100.01", PROXY],
    ["is not a name", PROXY, "client.example", PROXY],
    ["is told through a proxy on ::1", "::1", "198.51.100.1", "198.51.100.1"],
    ["is told through a trusted IPv6 network", "2001:db8:1::5", "2001:db8:2::5", "2001:db8:2::5"],
    ["is IPv6 in small letters", PROXY, "2001:DB8::ABCD", "2001:db8::abcd"],
    ["is IPv6 without leading zeros", PROXY, "[2001:0db8:0:0::0007]:443", "2001:db8::7"],
    ["is IPv6 with :: for more than one 0", PROXY, "2001:db8:0:1:1:1:1:1", "2001:db8:0:1:1:1:1:1"],
    ["is IPv6 as the socket of a peer tells it", PROXY, "2001:db8:77:0:0:0:0:1", "2001:db8:77::1"],
    ["keeps a zone away", PROXY, "fe80::1%eth0", "fe80::1"],
  ];
  for (const [what, peer, forwardedFor, client] of rows) {
    it(what, () => assert.equal(clientAddress(peer, forwardedFor, trusted), client));
  }

  it("is the peer's, or one that was told, whatever the field holds; nothing throws", () => {
    const member = fc.oneof(
      fc.ipV4(),
      fc.ipV6(),
      fc.string(),
      fc.constantFrom("10.0.0.2", "[::1]:", "[", "]", "::", ":", "1:2", "%", "::ffff:1.2.3.4"),
    );
    fc.assert(
      fc.property(fc.array(member), fc.oneof(fc.ipV4(), fc.ipV6()), (members, peer) => {
        const field = members.join(",");
        assert.equal(
          clientAddress(peer, field, () => false),
          peer,
        );
        const client = clientAddress(peer, field, () => true);
        assert.equal(typeof addressGroup(client), "string");
        assert.doesNotMatch(addressGroup(client), /NaN|undefined/);
      }),
      { numRuns: 1_000 },
    );
  });
});

describe("whose failures count together", () => {
  for (const [address, group] of [
    ["198.51.100.1", "198.51.100.1"],
    ["2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"],
    ["2001:db8:1:2::", "2001:db8:1:2::/64"],
    ["2001:0DB8:0001:0002::9", "2001:db8:1:2::/64"],
    ["2001:db8::1", "2001:db8:0:0::/64"],
    ["::1", "0:0:0:0::/64"],
    ["::", "0:0:0:0::/64"],
    ["fe80::1%eth0", "fe80:0:0:0::/64"],
    ["64:ff9b::192.0.2.33", "192.0.2.33"],
    ["0064:FF9B:0:0:0:0:C000:221", "192.0.2.33"],
    ["64:ff9b::", "0.0.0.0"],
    ["64:ff9b::1:192.0.2.33", "64:ff9b:0:0::/64"],
    ["64:ff9b:1::192.0.2.33", "64:ff9b:1:0::/64"],
    ["65:ff9b::192.0.2.33", "65:ff9b:0:0::/64"],
    ["::192.0.2.33", "0:0:0:0::/64"],
    ["1:2:3:4:5:6:1.2.3.4", "1:2:3:4::/64"],
    ["", ""],
  ] as const) {
    it(`${address || "nobody"}: ${group || "nobody"}`, () => {
      assert.equal(addressGroup(address), group);
    });
  }

  it("is the same for any two spellings of one /64, and any two of its addresses", () => {
    const words = fc.array(fc.integer({ min: 0, max: 65_535 }), { minLength: 8, maxLength: 8 });
    fc.assert(
      fc.property(words, words, (one, two) => {
        const spelled = [...one.slice(0, 4), ...two.slice(4)].map((word) => word.toString(16));
        const padded = one.map((word) => word.toString(16).toUpperCase().padStart(4, "0"));
        assert.equal(addressGroup(spelled.join(":")), addressGroup(padded.join(":")));
      }),
    );
  });
});

describe("an address as the socket tells it", () => {
  it("is IPv4 when it is mapped, in any spelling, and unchanged otherwise", () => {
    assert.equal(normalizeAddress("::ffff:1.2.3.4"), "1.2.3.4");
    assert.equal(normalizeAddress("::FFFF:1.2.3.4"), "1.2.3.4");
    assert.equal(normalizeAddress("::ffff:102:304"), "1.2.3.4");
    assert.equal(normalizeAddress("::ffff:1.2.3.400"), "::ffff:1.2.3.400");
    assert.equal(normalizeAddress("::1"), "::1");
    assert.equal(normalizeAddress(undefined), "");
  });
});

describe("trustedProxies", () => {
  it("are networks: both of their edges are in, and what lies beside them is not", () => {
    const isTrusted = addressMatcher(["192.0.2.64/26", "2001:db8::/127"]);
    for (const [address, is] of [
      ...([
        ["192.0.2.64", true],
        ["192.0.2.127", true],
      ] as const),
      ...([
        ["192.0.2.63", false],
        ["192.0.2.128", false],
      ] as const),
      ...([
        ["2001:db8::1", true],
        ["2001:db8::2", false],
        ["", false],
        ["x", false],
      ] as const),
    ] as const) {
      assert.equal(isTrusted(address), is, address);
    }
  });

  it("hold over several X-Forwarded-For lines, in order, through a whole gateway", async () => {
    await using house = await startTestGateway({
      config: { trustedProxies: ["127.0.0.1"], unauthenticated: { day: 60 } },
    });
    await using client = await openClient(house.port);
    const remaining = async (...lines: readonly string[]) => {
      const fields = lines.map((line) => ["X-Forwarded-For", line] as const);
      return onlyValue(await client.ask({ fields }), "X-RateLimit-Remaining");
    };
    assert.equal(await remaining("6.6.6.6", "198.51.100.1"), "59");
    assert.equal(await remaining("7.7.7.7, 198.51.100.1", "127.0.0.1"), "58");
    assert.equal(await remaining("198.51.100.1", "198.51.100.2"), "59");
    assert.equal(await remaining("2001:db8::1"), "59");
    assert.equal(await remaining("2001:db8::ffff"), "58", "one /64");
    assert.equal(await remaining("2001:db8:0:1::1"), "59");
    assert.equal(await remaining(), "59", "the proxy itself");
    assert.equal(await remaining("64:ff9b::203.0.113.7"), "59");
    assert.equal(await remaining("64:ff9b::203.0.113.8"), "59", "another IPv4 client");
    assert.equal(await remaining("203.0.113.7"), "58", "the same one without a translator");
  });
});
