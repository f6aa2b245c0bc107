import { describe, expect, it } from "vitest";
import { type BodyError, BodyParser } from "../../src/http1/parse/body-parser.ts";

const LIMITS = { trailerBytesMax: 40, trailerCountMax: 2 };

/** Reads a chunked body: its data, and what is wrong; `undefined` where more is to come. */
function chunked(text: string): { data: string; end: BodyError | "done" | undefined; at: number } {
  const reader = new BodyParser();
  reader.startChunked(LIMITS);
  const bytes = Buffer.from(text, "latin1");
  const at = reader.read(bytes, 0, bytes.length);
  const data = bytes.toString("latin1", reader.dataFrom, reader.dataTo);
  return { data, end: reader.error ?? (reader.done ? "done" : undefined), at };
}

describe("a chunked body", () => {
  it.each([
    ["0\r\n\r\n", ""],
    ["3\r\nabc\r\n0\r\n\r\n", "abc"],
    ["1\r\na\r\n2\r\nbc\r\n13\r\n0123456789abcdefghi\r\n00\r\n\r\n", "abc0123456789abcdefghi"],
    ["a\r\n0123456789\r\nB\r\n0123456789a\r\n0\r\n\r\n", "01234567890123456789a"],
    ["3;a\r\nabc\r\n0;b=cd;e\r\n\r\n", "abc"],
    ['3;a="b;\\"\xe9 ";c\r\nabc\r\n0\r\n\r\n', "abc"],
    ["3\r\nabc\r\n0\r\nX-T: 1\r\nY:\r\n\r\n", "abc"],
    ["3\r\nabc\r\n0\r\nContent-Length-More: 1\r\n\r\n", "abc"],
  ])("is %j", (text, data) => {
    expect(chunked(`${text}rest`)).toEqual({ data, end: "done", at: text.length });
  });

  it.each<[text: string, wrong: BodyError]>([
    ["\r", "chunk"],
    [" ", "chunk"],
    ["+", "chunk"],
    ["0x", "chunk"],
    ["g", "chunk"],
    ["5 ", "chunk"],
    ["5\n", "chunk"],
    ["5\r\r", "chunk"],
    ["00000000000001", "chunk"],
    ["1\r\nab", "chunk"],
    ["1\r\na\n", "chunk"],
    ["1\r\na\r\r", "chunk"],
    ["5;;", "chunk"],
    ["5; ", "chunk"],
    ["5;\r", "chunk"],
    ["5;a ", "chunk"],
    ["5;a\n", "chunk"],
    ["5;a=;", "chunk"],
    ["5;a=b=", "chunk"],
    ['5;a="\n', "chunk"],
    ['5;a="\\\n', "chunk"],
    ['5;a="b"c', "chunk"],
    ["0\r\n\n", "trailer"],
    ["0\r\n\r\r", "chunk"],
    ["0\r\n:", "trailer"],
    ["0\r\nA ", "trailer"],
    ["0\r\nA\r", "trailer"],
    ["0\r\nA: \0", "trailer"],
    ["0\r\nA: b\n", "trailer"],
    ["0\r\nA: b\rx", "trailer"],
    ["0\r\nA: b\r\n ", "trailer"],
    ["0\r\nContent-Length:", "trailer"],
    ["0\r\ntransfer-ENCODING:", "trailer"],
    ["0\r\nA:\r\nB:\r\nC", "trailer_overflow"],
    [`0\r\nA:${"b".repeat(39)}`, "trailer_overflow"],
    [`5;${"a".repeat(16_384)}`, "extension_overflow"],
  ])("is wrong with the last byte of %j: %s", (text, error) => {
    expect(chunked(text).end).toBe(error);
    expect(chunked(text.slice(0, -1)).end).toBeUndefined();
    expect(chunked(text).at).toBe(text.length - 1);
  });

  it("counts the extensions of all its chunks together", () => {
    const one = `1;${"a".repeat(999)}\r\nx\r\n`;
    expect(chunked(one.repeat(16)).end).toBeUndefined();
    expect(chunked(one.repeat(17)).end).toBe("extension_overflow");
  });

  it("starts anew behind another", () => {
    const reader = new BodyParser();
    const text = Buffer.from(`1;${"a".repeat(9_000)}\r\nx\r\n0\r\nA:\r\nB:\r\n\r\n`);
    for (let body = 0; body < 7; body++) {
      reader.startChunked(LIMITS);
      expect(reader.read(Buffer.from(text), 0, text.length)).toBe(text.length);
      expect([reader.done, reader.error]).toEqual([true, undefined]);
    }
  });

  it("is final once it is wrong", () => {
    const reader = new BodyParser();
    reader.startChunked(LIMITS);
    reader.read(Buffer.from("z"), 0, 1);
    for (const more of ["0\r\n\r\n", "\r\n", ";a"]) {
      expect(reader.read(Buffer.from(more), 0, more.length)).toBe(0);
      expect([reader.done, reader.dataFrom, reader.dataTo]).toEqual([false, 0, 0]);
    }
  });
});

describe("a chunked body that comes in pieces", () => {
  const text =
    '3;a="b\\";";c=d\r\nabc\r\n14\r\n0123456789abcdefghij\r\n1\r\nx\r\n000;e\r\nA: b\r\n\r\n';
  const data = "abc0123456789abcdefghijx";

  it("is the same wherever it was cut", () => {
    for (let cut = 0; cut <= text.length; cut++) {
      const reader = new BodyParser();
      reader.startChunked(LIMITS);
      let read = "";
      for (const piece of [text.slice(0, cut), text.slice(cut)]) {
        const bytes = Buffer.from(`<${piece}>`, "latin1");
        expect(reader.read(bytes, 1, 1 + piece.length)).toBe(1 + piece.length);
        read += bytes.toString("latin1", reader.dataFrom, reader.dataTo);
      }
      expect([read, reader.done, reader.error]).toEqual([data, true, undefined]);
    }
  });

  it("ends with its last byte, and no earlier", () => {
    const reader = new BodyParser();
    reader.startChunked(LIMITS);
    let read = "";
    for (const letter of text) {
      expect([reader.done, reader.untilClose]).toEqual([false, false]);
      reader.read(Buffer.from(letter, "latin1"), 0, 1);
      if (reader.dataTo > reader.dataFrom) read += letter;
    }
    expect([read, reader.done]).toEqual([data, true]);
  });
});

describe("a body of a length", () => {
  it("ends with its last byte", () => {
    const reader = new BodyParser();
    reader.startLength(5);
    const bytes = Buffer.from("abcdefg");
    expect(reader.read(bytes, 1, 4)).toBe(4);
    expect([reader.done, reader.dataFrom, reader.dataTo]).toEqual([false, 1, 4]);
    expect(reader.read(bytes, 0, 7)).toBe(2);
    expect([reader.done, reader.dataFrom, reader.dataTo]).toEqual([true, 0, 2]);
    expect(reader.read(bytes, 2, 7)).toBe(2);
    reader.startLength(0);
    expect(reader.done).toBe(true);
  });

  it("may be none, and end with the connection", () => {
    const reader = new BodyParser();
    reader.startUntilClose();
    expect(reader.untilClose).toBe(true);
    expect(reader.read(Buffer.from("abc"), 0, 3)).toBe(3);
    expect([reader.done, reader.dataFrom, reader.dataTo]).toEqual([false, 0, 3]);
  });
});

describe("of all bytes, exactly those of the grammar may stand", () => {
  const TCHAR = /[!#$%&'*+\-.^_`|~0-9A-Za-z]/;
  const VALUE = /[\t\x20-\x7e\x80-\xff]/;
  const letters = Array.from({ length: 256 }, (_, byte) => String.fromCharCode(byte));
  it.each<[where: string, behind: string, sets: RegExp[]]>([
    ["at the start", "", [/[0-9a-fA-F]/]],
    ["in a size", "a", [/[0-9a-fA-F]/, /[;\r]/]],
    ["behind a size", "a\r", [/\n/]],
    ["behind data", "1\r\na", [/\r/]],
    ["behind data and a CR", "1\r\na\r", [/\n/]],
    ["behind a chunk", "1\r\na\r\n", [/[0-9a-fA-F]/]],
    ["first in an extension", "1;", [TCHAR]],
    ["in an extension", "1;a", [TCHAR, /[=;\r]/]],
    ["first in its value", "1;a=", [TCHAR, /"/]],
    ["in its value", "1;a=b", [TCHAR, /[;\r]/]],
    ["in its quoted value", '1;a="', [VALUE]],
    ["behind its backslash", '1;a="\\', [VALUE]],
    ["behind its quoted value", '1;a="b"', [/[;\r]/]],
    ["behind the last chunk", "0\r\n", [TCHAR, /\r/]],
    ["in the name of a trailer", "0\r\nA", [TCHAR, /:/]],
    ["in its value", "0\r\nA:", [VALUE, /\r/]],
    ["behind its CR", "0\r\nA:\r", [/\n/]],
    ["behind the last CR", "0\r\n\r", [/\n/]],
  ])("%s of a chunked body", (_where, behind, sets) => {
    const fine = letters.filter((letter) => {
      const { end } = chunked(behind + letter);
      return end === undefined || end === "done";
    });
    const expected = letters.filter((letter) => sets.some((set) => set.test(letter)));
    expect(fine.join("")).toBe(expected.join(""));
  });
});

describe("the size of a chunk", () => {
  it("counts in all sixteen digits", () => {
    for (let size = 1; size < 300; size++) {
      const data = "x".repeat(size);
      for (const digits of [size.toString(16), size.toString(16).toUpperCase().padStart(13, "0")]) {
        expect(chunked(`${digits}\r\n${data}\r\n0\r\n\r\n`)).toMatchObject({ data, end: "done" });
      }
    }
  });

  it("does not move data that stands in one piece, nor bytes beside it", () => {
    const reader = new BodyParser();
    reader.startChunked(LIMITS);
    const text = "3\r\nabc\r\n14\r\n0123456789abcdefghij\r\n2\r\nxy\r\n0\r\n\r\nrest";
    const bytes = Buffer.from(`<<${text}`);
    const end = reader.read(bytes, 2, bytes.length);
    expect(bytes.toString("latin1", end)).toBe("rest");
    expect(reader.dataFrom).toBe(5);
    expect(bytes.toString("latin1", reader.dataFrom, reader.dataTo)).toBe(
      "abc0123456789abcdefghijxy",
    );
    expect(bytes.toString("latin1", 0, 5)).toBe("<<3\r\n");
  });
});
