import assert from "node:assert/strict";
import { describe, it } from "vitest";
import {
  addressMatcher,
  formatHostPort,
  hostPortOf,
  isCidr,
  isLoopback,
} from "../../src/core/address.ts";

describe("A set of networks", () => {
  const matches = addressMatcher(["192.0.2.7", "10.1.0.0/16", "2001:db8::7", "2001:db8:1::/48"]);

  it("has a bare address alone, and all addresses of a network", () => {
    for (const address of ["192.0.2.7", "10.1.0.0", "10.1.255.255", "2001:db8::7"]) {
      assert.ok(matches(address), address);
    }
    assert.ok(matches("2001:db8:1:ffff::1"));
    for (const address of ["192.0.2.6", "192.0.2.8", "10.0.255.255", "10.2.0.0"]) {
      assert.ok(!matches(address), address);
    }
    for (const address of ["2001:db8::6", "2001:db8::8", "2001:db8:2::", "2001:db8:0:ffff::"]) {
      assert.ok(!matches(address), address);
    }
  });

  it("has an IPv4 address by networks of IPv4 and of mapped addresses, never by one of IPv6", () => {
    for (const cidr of ["::/0", "::/1", "::/95"]) {
      assert.ok(addressMatcher([cidr])("::1"), cidr);
      assert.ok(!addressMatcher([cidr])("192.0.2.7"), cidr);
    }
    for (const cidr of ["::ffff:192.0.2.0/120", "::ffff:0:0/96", "::ffff:192.0.2.7"]) {
      assert.ok(addressMatcher([cidr])("192.0.2.7"), cidr);
    }
    assert.ok(!addressMatcher(["::ffff:192.0.3.0/120"])("192.0.2.7"));
    assert.ok(!addressMatcher(["::/96"])("192.0.2.7"));
    assert.ok(!addressMatcher(["0.0.0.0/0"])("2001:db8::7"));
  });

  it("has an IPv4 address that is translated to IPv6 by networks of IPv6 alone", () => {
    for (const cidr of ["64:ff9b::/96", "64:ff9b::192.0.2.0/120", "::/0"]) {
      assert.ok(addressMatcher([cidr])("64:ff9b::c000:207"), cidr);
      assert.ok(!addressMatcher([cidr])("192.0.2.7"), cidr);
    }
    assert.ok(isCidr("64:ff9b::192.0.2.0/120"));
    assert.ok(!addressMatcher(["64:ff9b::192.0.3.0/120"])("64:ff9b::c000:207"));
    assert.ok(!addressMatcher(["192.0.2.0/24", "0.0.0.0/0"])("64:ff9b::c000:207"));
  });

  it("has no text that is no address, and nothing where it is empty", () => {
    for (const text of ["", "localhost", "192.0.2.7:80", "[2001:db8::7]"]) {
      assert.ok(!matches(text), text);
    }
    assert.ok(!addressMatcher([])("192.0.2.7"));
  });
});

describe("A network is written", () => {
  it("as an address, or with a length that the address has room for", () => {
    const good = ["10.0.0.1", "10.0.0.0/0", "10.0.0.0/32", "::1", "2001:db8::/0", "2001:db8::/128"];
    for (const text of good) assert.ok(isCidr(text), text);
    const bad = ["", "10.0.0.0/33", "2001:db8::/129", "10.0.0/8", "10.0.0.0/", "10.0.0.0/ 8"];
    for (const text of [...bad, "x10.0.0.0/8", "10.0.0.0/8x", "10.0.0.0/1000"]) {
      assert.ok(!isCidr(text), text);
    }
  });
});

describe("A place to listen", () => {
  it("is shown with brackets around IPv6", () => {
    assert.equal(formatHostPort({ host: "127.0.0.1", port: 80 }), "127.0.0.1:80");
    assert.equal(formatHostPort({ host: "::1", port: 8080 }), "[::1]:8080");
    assert.equal(formatHostPort({ host: "example.com", port: 0 }), "example.com:0");
  });

  it("is where a URL leads, by the usual port of its scheme if it names none", () => {
    assert.deepEqual(hostPortOf(new URL("http://[::1]/v1")), { host: "::1", port: 80 });
    assert.deepEqual(hostPortOf(new URL("https://a.test")), { host: "a.test", port: 443 });
    assert.deepEqual(hostPortOf(new URL("https://a.test:80")), { host: "a.test", port: 80 });
  });

  it("is of this machine alone for localhost, ::1 and 127.0.0.0/8", () => {
    for (const host of ["localhost", "::1", "127.0.0.1", "127.9.9.9"]) {
      assert.ok(isLoopback({ host, port: 1 }), host);
    }
    for (const host of ["0.0.0.0", "::", "128.0.0.1", "12.127.0.1", "127.example.com"]) {
      assert.ok(!isLoopback({ host, port: 1 }), host);
    }
  });
});
