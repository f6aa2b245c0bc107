import assert from "node:assert/strict";
import fc from "fast-check";
import { describe, it } from "vitest";
import { JsonPointerReader, USED_MAX } from "../../../src/core/meters/json-pointer-reader.ts";

/** Reads the text in pieces that end at these places; without places, byte by byte. */
function readPieces(text: string | Buffer, pointer: string, cuts?: readonly number[]) {
  const bytes = Buffer.from(text);
  const reader = new JsonPointerReader(tokensOf(pointer));
  const ends = cuts ?? Array.from({ length: bytes.length }, (_, i) => i);
  let from = 0;
  for (const end of [...ends, bytes.length]) {
    reader.read(bytes.subarray(from, end));
    from = end;
  }
  return reader;
}

function tokensOf(pointer: string): string[] {
  const parts = pointer.slice(1).split("/");
  return parts.map((part) => part.replaceAll("~1", "/").replaceAll("~0", "~"));
}

/** The number that a whole text tells, "none", or "malformed" where it is no JSON. */
function told(text: string, pointer: string): number | string {
  const reader = readPieces(text, pointer);
  const atOnce = readPieces(text, pointer, []);
  assert.equal(atOnce.used, reader.used, "in one piece and byte by byte");
  assert.equal(atOnce.isWhole, reader.isWhole);
  assert.equal(atOnce.isThere, reader.isThere);
  return reader.isMalformed ? "malformed" : (reader.used ?? "none");
}

const STRING_OR_NUMBER = /"(?:\\.|[^"\\])*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;

/**
 * The same by JSON.parse. It cannot tell 7 from 7.0, so each number is replaced by its text, and
 * each string by letters: the JSON.parse of V8 14.6 takes the member \u0061 for another member \
 * that it has read after the same members.
 */
function toldByParse(text: string, pointer: string): number | string {
  try {
    JSON.parse(text);
  } catch {
    return "malformed";
  }
  const letters = (word: string) => `s${Buffer.from(word, "utf16le").toString("hex")}`;
  const plain = text.replace(STRING_OR_NUMBER, (found) => {
    return `"${found.startsWith('"') ? letters(JSON.parse(found)) : found}"`;
  });
  let value: unknown = JSON.parse(plain.replace(/^\ufeff/, ""));
  for (const token of tokensOf(pointer)) {
    const name = Array.isArray(value) && /^(?:0|[1-9]\d*)$/.test(token) ? token : letters(token);
    if (typeof value !== "object" || value === null || !Object.hasOwn(value, name)) return "none";
    value = (value as Record<string, unknown>)[name];
  }
  const isUnits = typeof value === "string" && /^\d+$/.test(value) && Number(value) <= USED_MAX;
  return isUnits ? Number(value) : "none";
}

const POINTER = "/usage/total_tokens";

describe("a JSON text", () => {
  it.each([
    ['{"usage":{"total_tokens":137}}', 137],
    ['{"usage":{"total_tokens":0}}', 0],
    [' {\r\n\t"usage" : { "total_tokens" : 137 } } \n', 137],
    [`{"usage":{"total_tokens":${USED_MAX}}}`, USED_MAX],
    [`{"usage":{"total_tokens":${USED_MAX + 1}}}`, "none"],
    [`{"usage":{"total_tokens":${"9".repeat(5_000)}}}`, "none"],
    ['{"usage":{"total_tokens":-1}}', "none"],
    ['{"usage":{"total_tokens":-0}}', "none"],
    ['{"usage":{"total_tokens":1.0}}', "none"],
    ['{"usage":{"total_tokens":1e3}}', "none"],
    ['{"usage":{"total_tokens":1E+3}}', "none"],
    ['{"usage":{"total_tokens":"137"}}', "none"],
    ['{"usage":{"total_tokens":null}}', "none"],
    ['{"usage":{"total_tokens":true}}', "none"],
    ['{"usage":{"total_tokens":[137]}}', "none"],
    ['{"usage":{"total_tokens":{"total_tokens":137}}}', "none"],
    ['{"usage":null}', "none"],
    ['{"usage":137}', "none"],
    ['[{"usage":{"total_tokens":137}}]', "none"],
    ['"usage"', "none"],
  ])("%s tells %s", (text, expected) => {
    assert.equal(told(text, POINTER), expected);
  });

  it("tells the last of a repeated member, at each depth", () => {
    assert.equal(told('{"usage":{"total_tokens":1,"total_tokens":2}}', POINTER), 2);
    assert.equal(told('{"usage":{"total_tokens":1},"usage":{"total_tokens":2}}', POINTER), 2);
    assert.equal(told('{"usage":{"total_tokens":1,"total_tokens":"x"}}', POINTER), "none");
    assert.equal(told('{"usage":{"total_tokens":1},"usage":{}}', POINTER), "none");
    assert.equal(told('{"usage":{"total_tokens":1},"usage":null}', POINTER), "none");
    assert.equal(told('{"usage":{"total_tokens":1,"total_tokens":-2}}', POINTER), "none");
  });

  it("is not misled by places that look alike", () => {
    assert.equal(told('{"x":{"usage":{"total_tokens":1}},"usage":{"total_tokens":2}}', POINTER), 2);
    assert.equal(told('{"usage":{"total_tokens":2,"x":{"total_tokens":1}}}', POINTER), 2);
    assert.equal(told('{"usage":{"total_tokens":2},"total_tokens":1}', POINTER), 2);
    assert.equal(told('{"usage":[{"total_tokens":1}]}', POINTER), "none");
    assert.equal(told('{"x":"\\"usage\\":{\\"total_tokens\\":1}"}', POINTER), "none");
    assert.equal(told('{"usage":{"total_tokens_":1,"total_token":2,"":3}}', POINTER), "none");
    assert.equal(told('{"usage":{"x":{"usage":{"total_tokens":1}}}}', POINTER), "none");
    assert.equal(told('{"x":{"y":3},"usage":{"z":[[],{}],"total_tokens":4}}', POINTER), 4);
  });

  it("reads member names as JSON writes them", () => {
    assert.equal(told('{"\\u0075sage":{"total\\u005ftokens":7}}', POINTER), 7);
    assert.equal(told('{"\\ud83d\\ude00":7}', "/😀"), 7);
    assert.equal(told('{"😀":7}', "/😀"), 7);
    assert.equal(told('{"\\ud83d":7}', "/\ufffd"), "none");
    assert.equal(told('{"a\\/b":7}', "/a~1b"), 7);
    assert.equal(told('{"~1":7}', "/~01"), 7);
    assert.equal(told('{"":7}', "/"), 7);
    assert.equal(told('{"__proto__":7}', "/__proto__"), 7);
    assert.equal(told('{"\\n":7}', "/\n"), 7);
  });

  it("takes whole numbers without a zero in front for elements of arrays", () => {
    assert.equal(told('[5,{"a":[6,7]}]', "/1/a/1"), 7);
    assert.equal(told("[5,6]", "/01"), "none");
    assert.equal(told("[5,6]", "/-"), "none");
    assert.equal(told("[5,6]", "/2"), "none");
    assert.equal(told('{"1":6}', "/1"), 6);
    assert.equal(told("[[1,2],[3,4]]", "/1/0"), 3);
    assert.equal(told("[[1,2],[3,4]]", "/0/1"), 2);
    assert.equal(told("[[],[],[[]],9]", "/3"), 9);
  });

  it.each([
    ...["{", "}", "[1,]", "{,}", '{"a"}', '{"a":}', '{"a":1,}', "{a:1}", "[1 2]", "01", "-", "+1"],
    ...["1.", ".5", "1e", "1e+", "tru", "truE", "nul", "[1}", '{"a":1]', '"\\x"', '"\\u12g4"'],
    ...['"\n"', '"\t"', "'a'", "1 1", "{}{}", "// c\n{}", "NaN", "\u00a0{}", "", "[1.]", "[-]"],
    ...["[1e]", "[00]", "[-01]", "[1.e5]", "[0x1]", "[1_0]"],
  ])("reads %j as JSON.parse does", (text) => {
    const reader = readPieces(text, "/0");
    assert.throws(() => JSON.parse(text));
    assert.ok(!reader.isWhole);
  });

  it("tells nothing once it is malformed, even if the number came before", () => {
    assert.equal(told('{"usage":{"total_tokens":137}}}', POINTER), "malformed");
    assert.equal(told('{"usage":{"total_tokens":137},}', POINTER), "malformed");
  });

  it("tells a number that is complete before a cut, and none that is not", () => {
    const text = '{"usage":{"total_tokens":137}}';
    const at = text.indexOf("137");
    for (let cut = 0; cut <= text.length; cut++) {
      const reader = readPieces(text.slice(0, cut), POINTER);
      assert.equal(reader.used, cut > at + 3 ? 137 : undefined, `cut at ${cut}`);
      assert.equal(reader.isWhole, cut === text.length);
    }
  });

  it("may begin with a byte order mark, whole and before anything else", () => {
    assert.equal(told('\ufeff{"a":1}', "/a"), 1);
    assert.equal(told('{"a":\ufeff1}', "/a"), "malformed");
    assert.equal(told('\ufeff\ufeff{"a":1}', "/a"), "malformed");
    assert.ok(readPieces(Buffer.from([0xef, 0xbb, 0x7b, 0x7d]), "/a").isMalformed);
  });

  it("is found under 100,000 open arrays", () => {
    const depth = 100_000;
    const text = `{"x":${"[".repeat(depth)}${"]".repeat(depth)},"a":5}`;
    assert.equal(readPieces(text, "/a", []).used, 5);
    assert.ok(readPieces(text, "/a", []).isWhole);
  });

  it("has the kind of each open container, however many there are", () => {
    for (const depth of [1, 2, 31, 32, 33, 34, 63, 64, 65, 66, 129]) {
      const kinds = Array.from({ length: depth }, (_, i) => i % 3 === 0 || i % 7 === 0);
      const opened = kinds.map((isObject) => (isObject ? '{"x":' : "[")).join("");
      const closed = kinds.map((isObject) => (isObject ? "}" : "]")).reverse();
      const at = (place: number) => closed.with(place, closed[place] === "}" ? "]" : "}").join("");
      assert.equal(told(`{"y":${opened}0${closed.join("")},"a":5}`, "/a"), 5);
      for (let i = 0; i < depth; i++) {
        assert.equal(told(`{"y":${opened}0${at(i)},"a":5}`, "/a"), "malformed", `${depth}, ${i}`);
      }
    }
  });

  it("is under a name of bytes that are no UTF-8 only where the pointer has U+FFFD", () => {
    const bytes = Buffer.from('{"\xff":7}', "latin1");
    assert.equal(readPieces(bytes, "/\ufffd", []).used, 7);
    assert.equal(readPieces(bytes, "/\u00ff", []).used, undefined);
    assert.equal(readPieces('{"\ufffd":7}', "/\ufffd", []).used, 7);
    assert.equal(readPieces('{"\ufffd":7}', "/\ud83d", []).used, undefined);
  });

  it("begins again after reset, whatever came before", () => {
    const reader = readPieces('{"a":{"b":[1', "/a/b");
    reader.reset();
    reader.read(Buffer.from('{"a":{"b":2}}'));
    assert.equal(reader.used, 2);
    reader.reset();
    assert.equal(reader.used, undefined);
    assert.ok(!reader.isThere && !reader.isWhole);
  });
});

/** Names that meet those of the pointers, and values of all kinds. */
const name = fc.constantFrom("a", "0", "é😀", '"/~\\');
const leaf = fc.oneof(
  { arbitrary: fc.nat(), weight: 5 },
  fc.double(),
  fc.integer(),
  fc.constantFrom(USED_MAX, USED_MAX + 1, 1e21, true, false, null),
  fc.string({ unit: "binary" }),
);
/** JSON texts of which members may be repeated, and pointers that often lead to a value. */
const { text } = fc.letrec<{ text: string }>((tie) => ({
  text: fc.oneof(
    { maxDepth: 5, withCrossShrink: true },
    leaf.map((value) => JSON.stringify(value)),
    fc.array(tie("text"), { maxLength: 4 }).map((all) => `[${all.join(" , ")}]`),
    fc
      .array(fc.tuple(spelled(name), tie("text")), { maxLength: 5 })
      .map((all) => `{${all.map(([key, value]) => `${key}:\n${value}`).join(",")}}`),
  ),
}));
const pointer = fc.array(name, { minLength: 1, maxLength: 3 }).map((tokens) => {
  return tokens.map((one) => `/${one.replaceAll("~", "~0").replaceAll("/", "~1")}`).join("");
});

/** A name as a JSON string, each letter written as it is or escaped. */
function spelled(names: fc.Arbitrary<string>): fc.Arbitrary<string> {
  return fc.tuple(names, fc.boolean()).map(([word, isEscaped]) => {
    if (!isEscaped) return JSON.stringify(word);
    const units = Array.from({ length: word.length }, (_, i) => word.charCodeAt(i));
    return `"${units.map((unit) => `\\u${unit.toString(16).padStart(4, "0")}`).join("")}"`;
  });
}

const cuts = fc.array(fc.nat(400), { maxLength: 8 }).map((all) => all.sort((a, b) => a - b));

describe("beside JSON.parse", () => {
  it("tells the same of whole texts, cut anywhere", () => {
    let numbers = 0;
    fc.assert(
      fc.property(text, pointer, cuts, (json, place, at) => {
        const expected = toldByParse(json, place);
        const container = /^[[{]/.test(json);
        const reader = readPieces(json, place, at);
        assert.equal(reader.isMalformed, false);
        if (container) assert.ok(reader.isWhole);
        assert.equal(reader.used ?? "none", expected);
        if (typeof expected === "number") numbers += 1;
      }),
      { numRuns: 20_000 },
    );
    assert.ok(numbers > 200, `${numbers} texts told a number`);
  });

  it("takes and refuses the same texts with a byte changed, left out or put in", () => {
    let malformed = 0;
    const edit = fc.record({
      at: fc.nat(),
      kind: fc.constantFrom("change", "drop", "insert"),
      byte: fc.constantFrom(...'[]{},:"\\0123456789-+.eEtfnu \n\tx/'.split("")),
    });
    fc.assert(
      fc.property(
        text,
        pointer,
        fc.array(edit, { minLength: 1, maxLength: 3 }),
        (json, place, all) => {
          let changed = json;
          for (const { at, kind, byte } of all) {
            const here = at % (changed.length + 1);
            const rest = changed.slice(kind === "insert" ? here : here + 1);
            changed = changed.slice(0, here) + (kind === "drop" ? "" : byte) + rest;
          }
          if (!changed.isWellFormed()) return;
          const expected = toldByParse(changed, place);
          const reader = readPieces(changed, place);
          if (expected === "malformed") {
            assert.ok(!reader.isWhole, `whole: ${changed}`);
            malformed += 1;
          } else {
            assert.ok(!reader.isMalformed, `malformed: ${changed}`);
            assert.equal(reader.used ?? "none", expected);
          }
        },
      ),
      { numRuns: 20_000 },
    );
    assert.ok(malformed > 5_000, `${malformed} texts were malformed`);
  });
});
