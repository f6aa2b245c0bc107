import assert from "node:assert/strict";
import { isIPv6 } from "node:net";
import fc from "fast-check";
import { describe, it } from "vitest";
import { hostName, NAME } from "../../../src/config/schema/value-types.ts";

const accepts = (text: string) => hostName.safeParse(text).success;

describe("a host name in brackets", () => {
  for (const text of [
    ...["::", "::1", "1::", "1:2:3:4:5:6:7:8", "fe80::1:2", "1:2:3:4:5:6:7::", "::2:3:4:5:6:7:8"],
    ...["::ffff:192.0.2.1", "1:2:3:4:5:6:192.0.2.1"],
  ]) {
    it(`may be ${text}`, () => assert.ok(accepts(`[${text}]`) && isIPv6(text)));
  }

  for (const text of [
    ":::::1",
    ":::",
    "1:2:3",
    "1::2::3",
    "1:2:3:4:5:6:7:8:9",
    "::g",
    "",
    ":1",
    ".",
  ]) {
    it(`is not ${JSON.stringify(text)}`, () => assert.ok(!accepts(`[${text}]`) && !isIPv6(text)));
  }

  it("is an IPv6 address, whatever colons and words there are", () => {
    const part = fc.constantFrom(":", "::", "0", "1f", "ffff", "12345", ".");
    fc.assert(
      fc.property(fc.array(part, { maxLength: 17 }), (parts) => {
        const text = parts.join("");
        assert.equal(accepts(`[${text}]`), isIPv6(text), text);
      }),
    );
  });
});

describe("a host name", () => {
  it("is of labels in lower case, without a port, of at most 253 characters", () => {
    for (const text of ["a", "a.b", "_x.y-z", "192.0.2.1", "x".repeat(253)])
      assert.ok(accepts(text));
    for (const text of [
      "",
      "A",
      "a:1",
      "a..b",
      "-a",
      "a-",
      ".",
      "x".repeat(254),
      "a\u202eb",
      "::1",
    ]) {
      assert.ok(!accepts(text), text);
    }
  });
});

it("the name of an environment or a plan has 1 to 64 letters, digits, dots, dashes and underscores", () => {
  for (const text of ["a", "A.b-c_9", "x".repeat(64)]) assert.ok(NAME.test(text), text);
  for (const text of ["", "x".repeat(65), "a b", "é", "a\n"]) assert.ok(!NAME.test(text), text);
});
