import assert from "node:assert/strict";
import { crc32 } from "node:zlib";
import fc from "fast-check";
import { describe, it } from "vitest";
import { parseBearer } from "../../../src/core/keys/credentials.ts";
import {
  BASE62,
  checkKeyFormat,
  checksum,
  digestKey,
  makeKey,
  maskKeys,
  maskKeysInPath,
} from "../../../src/core/keys/key.ts";

/** Well-formed by itself (docs/reference/keys.md#key-shape). */
const EXAMPLE = "pets_live_Smuggle0Test0Key0For0Vectors004Lozas";

const why = (judged: ReturnType<typeof checkKeyFormat>) =>
  judged.ok ? "ok" : `${judged.refusal.code}: ${judged.refusal.why}`;

describe("The checksum of a key", () => {
  it("is that of the example", () => {
    assert.equal(checkKeyFormat(EXAMPLE, "pets", "live").ok, true);
    assert.equal(checksum(EXAMPLE.slice(0, -6)), "4Lozas");
  });

  it("is CRC-32 in base62, digits before capitals before small letters, padded with 0", () => {
    fc.assert(
      fc.property(fc.string(), (body) => {
        const text = checksum(body);
        assert.match(text, /^[0-9A-Za-z]{6}$/);
        let value = 0;
        for (const digit of text) value = value * 62 + BASE62.indexOf(digit);
        assert.equal(value, crc32(body));
      }),
    );
    assert.equal(checksum(""), "000000");
    assert.equal(
      BASE62,
      [..."0123456789", ..."ABCDEFGHIJKLMNOPQRSTUVWXYZ", ..."abcdefghijklmnopqrstuvwxyz"].join(""),
    );
  });
});

describe("A formed key", () => {
  it("has prefix, tag and 30 characters by the dice, and is judged well-formed", () => {
    fc.assert(
      fc.property(fc.infiniteStream(fc.nat()), (dice) => {
        const key = makeKey("pets", "live", (max) => Number(dice.next().value) % max);
        assert.match(key, /^pets_live_[0-9A-Za-z]{36}$/);
        assert.deepEqual(checkKeyFormat(key, "pets", "live"), { ok: true, value: key });
      }),
    );
    assert.ok(makeKey("p", "t", () => 61).startsWith(`p_t_${"z".repeat(30)}`));
  });
});

/** The example with 256 added to the last character of its `part`. */
function wide(part: string): string {
  const at = EXAMPLE.lastIndexOf(part) + part.length - 1;
  return (
    EXAMPLE.slice(0, at) + String.fromCharCode(EXAMPLE.charCodeAt(at) + 256) + EXAMPLE.slice(at + 1)
  );
}

describe("The shape of a key is refused without a look-up", () => {
  const last = EXAMPLE.at(-1);
  const cases: readonly (readonly [string, string, string])[] = [
    ["of another environment", EXAMPLE.replace("live", "test"), "another prefix or environment"],
    ["of another prefix", EXAMPLE.replace("pets", "cats"), "another prefix or environment"],
    ["of another case", EXAMPLE.replace("pets", "Pets"), "another prefix or environment"],
    ["a character short", EXAMPLE.slice(0, -1), "wrong length"],
    ["a character long", `${EXAMPLE}0`, "wrong length"],
    ["with a character that is not base62", EXAMPLE.replace("Smuggle0", "Smuggle-"), "not base62"],
    ["with a character that ends like one of base62", wide("Smuggle0"), "not base62"],
    ["with a character of the checksum that does", wide(EXAMPLE.slice(-1)), "not base62"],
    ["with one character changed", EXAMPLE.replace("Smuggle0", "Smuggle1"), "wrong checksum"],
    [
      "with another checksum",
      `${EXAMPLE.slice(0, -1)}${last === "0" ? "1" : "0"}`,
      "wrong checksum",
    ],
    ["with nothing in it", "", "another prefix or environment"],
  ];
  for (const [name, token, reason] of cases) {
    it(name, () =>
      assert.equal(why(checkKeyFormat(token, "pets", "live")), `key_invalid: ${reason}`),
    );
  }
});

describe("The Authorization field", () => {
  const MALFORMED = "key_invalid: malformed credentials";
  const TOO_LONG = "key_invalid: too long";
  const token = "a".repeat(16);
  const longest = "b".repeat(512);
  const cases: readonly (readonly [string, string | undefined, string])[] = [
    ["absent is a missing key", undefined, "key_missing: undefined"],
    ["empty is a missing key", "", "key_missing: undefined"],
    ["of another scheme is an invalid key", `Basic ${token}`, MALFORMED],
    ["of a scheme that begins alike is an invalid key", `Bearers ${token}`, MALFORMED],
    ["with the scheme alone is an invalid key", "Bearer", MALFORMED],
    ["with the scheme and a space is an invalid key", "Bearer ", MALFORMED],
    ["with 15 characters is an invalid key", `Bearer ${token.slice(1)}`, MALFORMED],
    ["with 16 is read", `Bearer ${token}`, token],
    ["with 512 is read", `Bearer ${longest}`, longest],
    ["with 513 is an invalid key", `Bearer ${"b".repeat(513)}`, MALFORMED],
    ["with far more is an invalid key", `Bearer ${"b".repeat(9_999)}`, TOO_LONG],
    ["has its scheme in any case", `bEARER ${token}`, token],
    ["may have several spaces", `Bearer   ${token}`, token],
    ["may have ten before the longest", `Bearer${" ".repeat(10)}${longest}`, longest],
    ["may not have eleven before it", `Bearer${" ".repeat(11)}${longest}`, TOO_LONG],
    ["may not have a thousand", `Bearer${" ".repeat(1_000)}${token}`, TOO_LONG],
    ["has nothing before its scheme", `xBearer ${token}`, MALFORMED],
    ["may have padding", `Bearer ${token}==`, `${token}==`],
    ["has its token68 and nothing else", `Bearer ${token}._~+/-`, `${token}._~+/-`],
    ["with padding inside is an invalid key", `Bearer ${token}=a`, MALFORMED],
    ["with a second token is an invalid key", `Bearer ${token} ${token}`, MALFORMED],
    ["with a comma is an invalid key", `Bearer ${token},${token}`, MALFORMED],
    ["with a space behind is an invalid key", `Bearer ${token} `, MALFORMED],
    ["with a tab for the space is an invalid key", `Bearer\t${token}`, MALFORMED],
    ["with more than ASCII is an invalid key", `Bearer ${token}é`, MALFORMED],
  ];
  for (const [name, field, expected] of cases) {
    it(name, () => {
      const judged = parseBearer(field);
      assert.equal(judged.ok ? judged.value : why(judged), expected);
    });
  }
});

describe("A key in a text for the log", () => {
  it("is hidden, however often it comes, and nothing else is", () => {
    const text = `/v1/pets/${EXAMPLE}?a=${EXAMPLE}&b=snake_case_name&c=pets_live_short`;
    const masked = "/v1/pets/pets_live_…?a=pets_live_…&b=snake_case_name&c=pets_live_short";
    assert.equal(maskKeys(text), masked);
    assert.equal(maskKeys("/v1/pets"), "/v1/pets");
  });

  it("is hidden in a path whatever of it is an escape, and a path without one stays as it came", () => {
    const escaped = [...EXAMPLE].map((one) => `%${one.charCodeAt(0).toString(16)}`).join("");
    for (const key of [EXAMPLE, EXAMPLE.replaceAll("_", "%5F"), escaped]) {
      assert.equal(maskKeysInPath(`/v1//${key}/%2F%zz`), "/v1//pets_live_…//%zz");
    }
    const twice = EXAMPLE.replaceAll("_", "%25255f");
    assert.equal(maskKeysInPath(`/v1/${twice}`), "/v1/pets_live_…");
    const inParts = EXAMPLE.replace("l", "%25%36C");
    assert.equal(maskKeysInPath(`/v1/${inParts}`), "/v1/pets_live_…");
    const foreign = [{ prefix: "sk:", min: 8 }];
    assert.equal(maskKeysInPath("/v1//sk%3A%61bcdefgh", foreign), "/v1//sk:…");
    const slashed = [{ prefix: "acme/", min: 8 }];
    assert.equal(maskKeysInPath("/v1/acme%2f%61bcdefgh", slashed), "/v1/acme/…");
    for (const path of ["/v1/%70ets_live%5Fshort", "/v1/%25%5F%", "/v1/%c3%a4"]) {
      assert.equal(maskKeysInPath(path, foreign), path);
    }
  });
});

describe("A key at rest", () => {
  it("is the SHA-256 of the key, in hex", () => {
    assert.equal(
      digestKey("abc"),
      "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
    );
  });
});
