import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { findCredential } from "../../../src/core/keys/credentials.ts";
import {
  checkKeyText,
  containsKey,
  type ForeignKeyFormat,
  maskKeys,
  matchesForeignFormat,
} from "../../../src/core/keys/key.ts";

const OURS = "pets_live_Smuggle0Test0Key0For0Vectors004Lozas";
const FOREIGN: readonly ForeignKeyFormat[] = [{ prefix: "sk.", min: 16 }];
/** Prefixes with characters that no token68 has, as of Laravel Sanctum. */
const ODD: readonly ForeignKeyFormat[] = [
  { prefix: "17|", min: 16 },
  { prefix: "acme:", min: 16 },
];
const THEIRS = `sk.${"a".repeat(14)}_-`;

function read(
  fields: readonly string[],
  keyHeaders = ["authorization", "x-api-key"],
  foreignKeys = FOREIGN,
): string {
  const names = fields.filter((_, i) => i % 2 === 0).map((name) => name.toLowerCase());
  const at = names.indexOf("authorization");
  const authorization = at === -1 ? undefined : fields[2 * at + 1];
  const judged = findCredential(
    { names, rawHeaders: fields, authorization },
    { keyHeaders, foreignKeys },
  );
  return judged.ok ? judged.value : `${judged.refusal.code}: ${judged.refusal.why}`;
}

describe("The fields in which a key may stand", () => {
  it("have it as a bearer token or bare", () => {
    assert.equal(read(["Authorization", `Bearer ${OURS}`]), OURS);
    assert.equal(read(["X-Api-Key", OURS]), OURS);
    assert.equal(read(["X-Api-Key", `Bearer ${OURS}`]), "key_invalid: malformed credentials");
    assert.equal(read(["Authorization", OURS]), "key_invalid: malformed credentials");
    assert.equal(read(["X-Api-Key", "short"]), "key_invalid: malformed credentials");
  });

  it("take in Bearer what a configured prefix has, and only what it has", () => {
    const rest = "a1B2_-".repeat(4);
    const bearer = (token: string, only: readonly string[]) =>
      read(["Authorization", `Bearer ${token}`], [...only], ODD);
    for (const only of [["authorization"], ["authorization", "x-api-key"]]) {
      assert.equal(bearer(`17|${rest}`, only), `17|${rest}`);
      assert.equal(bearer(`acme:${rest}`, only), `acme:${rest}`);
      const longest = `17|${"a".repeat(509)}`;
      assert.equal(bearer(longest, only), longest);
      const malformed = "key_invalid: malformed credentials";
      for (const token of [
        `18|${rest}`,
        `17|${rest}|`,
        `17|${rest}.`,
        `17|${"a".repeat(15)}`,
        `17|${rest},17|${rest}`,
        `17|${rest} 17|${rest}`,
        `17|${"a".repeat(510)}`,
      ]) {
        assert.equal(bearer(token, only), malformed, token);
      }
    }
  });

  it("have it once: two are refused, even if they are equal", () => {
    const two = "key_invalid: credentials in two fields";
    assert.equal(read(["Authorization", `Bearer ${OURS}`, "X-Api-Key", OURS]), two);
    assert.equal(read(["X-Api-Key", OURS, "x-api-key", OURS]), two);
  });

  it("have none where they are empty, and no other field has one", () => {
    assert.equal(read(["X-Api-Key", "", "Authorization", ""]), "key_missing: undefined");
    assert.equal(read(["X-Api-Key", "", "Authorization", `Bearer ${OURS}`]), OURS);
    assert.equal(read(["X-Key", OURS]), "key_missing: undefined");
    assert.equal(
      read(["Authorization", `Bearer ${OURS}`], ["x-api-key"]),
      "key_missing: undefined",
    );
  });
});

describe("A key of another shape", () => {
  const judge = (token: string) => {
    const judged = checkKeyText(token, { keyPrefix: "pets", keyTag: "live", foreignKeys: FOREIGN });
    return judged.ok ? "ok" : judged.refusal.why;
  };

  it("is tried only where the token does not start as ours do", () => {
    assert.equal(judge(OURS), "ok");
    assert.equal(judge(THEIRS), "ok");
    assert.equal(judge("pets_other"), "another prefix or environment");
    assert.equal(judge("xk.aaaaaaaaaaaaaaaaaa"), "another prefix or environment");
  });

  it("has its prefix, and as many plain characters as it must", () => {
    for (const token of [THEIRS.slice(0, -1), `${THEIRS}.`, `${THEIRS} `, "sk."]) {
      assert.equal(matchesForeignFormat(token, FOREIGN), false, token);
    }
    assert.equal(matchesForeignFormat(`${THEIRS}b`, FOREIGN), true);
  });

  it("is masked in a text, and known for a key in an argument, as ours are", () => {
    assert.equal(maskKeys(`/a/${THEIRS}/${OURS}`, FOREIGN), "/a/sk.…/pets_live_…");
    assert.equal(maskKeys("/a/sk.short", FOREIGN), "/a/sk.short");
    assert.equal(containsKey(`--name=${THEIRS}`, FOREIGN), true);
    assert.equal(containsKey(THEIRS), false);
    assert.equal(containsKey(OURS), true);
    assert.equal(containsKey("k_4fPqX1mZ0aBc"), false);
  });

  it("is masked to its end where a part of it looks like another key", () => {
    const shapes = [
      { prefix: "ab", min: 20 },
      { prefix: "sk_live_", min: 24 },
    ];
    const cases = [
      ["/sk_live_ABCDEFGHIJKLMNOPQRSTUV-SECRET_SECRET/x", "/sk_live_…/x"],
      ["/sk_live_AB-xx_yy_ABCDEFGHIJKLMNOPQRSTUV-SECRET/x", "/sk_live_…/x"],
      ["/sk_live_12345ab345678901234567890123/sk_live_short", "/sk_live_…/sk_live_short"],
      [`/${OURS.slice(0, 22)}ab${OURS.slice(24)}?b=${OURS}`, "/pets_live_…?b=pets_live_…"],
    ] as const;
    for (const [text, masked] of cases) assert.equal(maskKeys(text, shapes), masked);
  });

  it("is masked behind another key that ends where it begins", () => {
    const dotted = [{ prefix: "sk.", min: 20 }];
    assert.equal(maskKeys(`/${OURS}${OURS}/x`), "/pets_live_…_live_…/x");
    const two = "sk.ABCDEFGHIJKLMNOPQRSTUVsk.ZYXWVUTSRQPONMLKJIHGFE";
    assert.equal(maskKeys(`/${two}/x`, dotted), "/sk.….…/x");
  });
});
