import { describe, expect, it } from "vitest";
import type { HeadError, HeadSizeLimits } from "../../src/http1/parse/head-parser.ts";
import { RequestHeadParser } from "../../src/http1/parse/request-head-parser.ts";
import { ResponseHeadParser } from "../../src/http1/parse/response-head-parser.ts";

const LIMITS = { lineBytesMax: 100, headBytesMax: 300 };

function bytesOf(text: string): Buffer {
  return Buffer.from(text, "latin1");
}

/** Reads a request head: why it is wrong, and how many bytes it took to know. */
function wrongRequest(text: string): [HeadError | undefined, number] {
  const reader = new RequestHeadParser(LIMITS);
  return [wrongIn(reader, text), firstWrong(new RequestHeadParser(LIMITS), text)];
}

type Reader = RequestHeadParser | ResponseHeadParser;

function wrongIn(reader: Reader, text: string): HeadError | undefined {
  reader.read(bytesOf(text), 0, text.length);
  return reader.error;
}

/** How many bytes it took, one by one. */
function firstWrong(reader: Reader, text: string): number {
  const bytes = bytesOf(text);
  for (let i = 0; i < bytes.length; i++) {
    reader.read(bytes.subarray(i, i + 1), 0, 1);
    if (reader.error !== undefined) return i + 1;
  }
  return -1;
}

describe("a request head", () => {
  it("is its line and its fields, as they were sent", () => {
    const reader = new RequestHeadParser(LIMITS);
    const text = "GET /a?b HTTP/1.1\r\nHost: \t a \t\r\nx-Y:\r\nHost:b c\r\nZ: \xe9\r\n\r\nrest";
    const end = reader.read(bytesOf(text), 0, text.length);
    expect(text.slice(end)).toBe("rest");
    expect(reader.head).toEqual({
      method: "GET",
      target: "/a?b",
      version: "1.1",
      rawHeaders: ["Host", "a", "x-Y", "", "Host", "b c", "Z", "\xe9"],
    });
    expect(reader.read(bytesOf("GET"), 0, 3)).toBe(0);
    reader.next();
    expect([reader.begun, reader.head]).toEqual([false, undefined]);
    reader.read(bytesOf("PUT * HTTP/1.0\r\n\r\n"), 0, 18);
    expect(reader.head).toMatchObject({
      method: "PUT",
      target: "*",
      version: "1.0",
      rawHeaders: [],
    });
  });

  it("is read from where it stands, empty lines ahead of it or not", () => {
    const reader = new RequestHeadParser(LIMITS);
    const text = "....\r\n\r\nGET / HTTP/1.1\r\nA: b\r\n\r\n";
    expect(reader.read(bytesOf(text), 4, text.length)).toBe(text.length);
    expect(reader.head).toMatchObject({ method: "GET", target: "/", rawHeaders: ["A", "b"] });
  });

  it("has begun with its first byte, and not with an empty line", () => {
    const reader = new RequestHeadParser(LIMITS);
    reader.read(bytesOf("\r\n\r"), 0, 3);
    expect(reader.begun).toBe(false);
    reader.read(bytesOf("\nG"), 0, 2);
    expect(reader.begun).toBe(true);
  });

  it("takes white space from a value, SP and HTAB, of a Transfer-Encoding too", () => {
    const reader = new RequestHeadParser(LIMITS);
    const text =
      "GET / HTTP/1.1\r\nTransfer-Encoding:\t chunked\t \r\ntransfer-encodinG:\tx\ty\r\n\r\n";
    reader.read(bytesOf(text), 0, text.length);
    expect(reader.head?.rawHeaders.filter((_, i) => i % 2 === 1)).toEqual(["chunked", "x\ty"]);
  });

  it("takes a TAB from any other value, also where the name is as long", () => {
    const reader = new RequestHeadParser(LIMITS);
    const text = "GET / HTTP/1.1\r\nX-Forwarded-Proto:\t https \t\r\n\r\n";
    reader.read(bytesOf(text), 0, text.length);
    expect(reader.head?.rawHeaders).toEqual(["X-Forwarded-Proto", "https"]);
  });

  it.each<[text: string, wrong: HeadError]>([
    ["\n", "line"],
    ["\r\r", "line"],
    [" ", "line"],
    ["G\r", "line"],
    ["G\0", "line"],
    ["GET  ", "line"],
    ["GET\t", "line"],
    ["GET \r", "line"],
    ["GET /\r", "line"],
    ["GET /\t", "line"],
    ["GET /\xe9", "line"],
    ["GET / h", "line"],
    ["GET / 1", "line"],
    ["GET / HTTP1", "line"],
    ["GET / HTTPS", "line"],
    ["GET / R", "line"],
    ["GET / HTTP/x", "line"],
    ["GET / HTTP/2", "version"],
    ["GET / HTTP/11", "version"],
    ["GET / HTTP/1x", "line"],
    ["GET / HTTP/1.2", "version"],
    ["GET / HTTP/1.x", "line"],
    ["GET / HTTP/1.10", "version"],
    ["GET / HTTP/1.1 ", "line"],
    ["GET / HTTP/1.1\n", "line"],
    ["GET / HTTP/1.1\rx", "line"],
    ["GET / HTTP/1.1\r\n ", "field"],
    ["GET / HTTP/1.1\r\n:", "field"],
    ["GET / HTTP/1.1\r\n\n", "field"],
    ["GET / HTTP/1.1\r\nA ", "field"],
    ["GET / HTTP/1.1\r\nA\r", "field"],
    ["GET / HTTP/1.1\r\nA\xe9", "field"],
    ["GET / HTTP/1.1\r\nA: \0", "field"],
    ["GET / HTTP/1.1\r\nA: b\x7f", "field"],
    ["GET / HTTP/1.1\r\nA: b\n", "field"],
    ["GET / HTTP/1.1\r\nA: b\rx", "field"],
    ["GET / HTTP/1.1\r\nA: b\r\n\t", "field"],
    ["GET / HTTP/1.1\r\nA: b\r\n\rx", "field"],
    ["UPDATEREDIRECTREFUPDATERE", "method"],
  ])("is wrong with the last byte of %j: %s", (text, error) => {
    expect(wrongRequest(text)).toEqual([error, text.length]);
    expect(wrongRequest(text.slice(0, -1))).toEqual([undefined, -1]);
    const reader = new RequestHeadParser(LIMITS);
    expect(reader.read(bytesOf(`${text}more`), 0, text.length + 4)).toBe(text.length - 1);
    expect(reader.read(bytesOf("GET / HTTP/1.1\r\n\r\n"), 0, 18)).toBe(0);
  });

  it.each<[what: string, line: number, fields: number, wrong: HeadError | undefined]>([
    ["as long as both limits", 100, 200, undefined],
    ["a byte longer in its line", 101, 10, "line_overflow"],
    ["a byte longer in its fields", 100, 201, "head_overflow"],
  ])("may be %s", (_what, line, fields, error) => {
    const first = `GET /${"a".repeat(line - 16)} HTTP/1.1\r\n`;
    const text = `${first}A:${"b".repeat(fields - 6)}\r\n\r\n`;
    expect([first.length, text.length]).toEqual([line, line + fields]);
    expect(wrongRequest(text)[0]).toBe(error);
    if (error !== undefined)
      expect(wrongRequest(text)[1]).toBe(error === "line_overflow" ? 100 : 300);
  });
});

describe("a status head", () => {
  it.each([
    ["HTTP/1.1 200 OK\r\n\r\n", 200, "1.1"],
    ["HTTP/1.0 404\r\n\r\n", 404, "1.0"],
    ["HTTP/1.1 999 \r\n\r\n", 999, "1.1"],
    ["HTTP/1.1 103 \xe9\t \r\nA: b\r\n\r\n", 103, "1.1"],
  ])("is %j", (text, status, version) => {
    const reader = new ResponseHeadParser(LIMITS);
    reader.read(bytesOf(text), 0, text.length);
    expect(reader.head).toMatchObject({ status, version });
  });

  it.each<[text: string, wrong: HeadError]>([
    ["\r", "line"],
    [" ", "line"],
    ["h", "line"],
    ["1", "line"],
    ["HTTP/2", "version"],
    ["HTTP/1.2", "version"],
    ["HTTP/1.11", "version"],
    ["HTTP/1.1x", "line"],
    ["HTTP/1.1  ", "line"],
    ["HTTP/1.1 0", "line"],
    ["HTTP/1.1 2x", "line"],
    ["HTTP/1.1 20\r", "line"],
    ["HTTP/1.1 2000", "line"],
    ["HTTP/1.1 200\n", "line"],
    ["HTTP/1.1 200 O\x01", "line"],
    ["HTTP/1.1 200 O\n", "line"],
    ["HTTP/1.1 200 O\r\r", "line"],
    ["HTTP/1.1 200 O\r\n ", "field"],
    [`HTTP/1.1 200 ${"a".repeat(87)}`, "line_overflow"],
  ])("is wrong with the last byte of %j: %s", (text, error) => {
    expect(wrongIn(new ResponseHeadParser(LIMITS), text)).toBe(error);
    expect(firstWrong(new ResponseHeadParser(LIMITS), text)).toBe(text.length);
  });
});

const TCHAR = /[!#$%&'*+\-.^_`|~0-9A-Za-z]/;
const VCHAR = /[\x21-\x7e]/;
const VALUE = /[\t\x20-\x7e\x80-\xff]/;

/** Letters that may stand behind a text, by asking for each of the 256. */
function lettersBehind(text: string, reader: (limits: HeadSizeLimits) => Reader): string {
  const letters = Array.from({ length: 256 }, (_, byte) => String.fromCharCode(byte));
  return letters.filter((letter) => wrongIn(reader(LIMITS), text + letter) === undefined).join("");
}

function lettersOf(...sets: readonly RegExp[]): string {
  const letters = Array.from({ length: 256 }, (_, byte) => String.fromCharCode(byte));
  return letters.filter((letter) => sets.some((set) => set.test(letter))).join("");
}

describe("of all bytes, exactly those of the grammar may stand", () => {
  const line = "GET / HTTP/1.1\r\n";
  it.each<[where: string, behind: string, sets: RegExp[]]>([
    ["at the start", "", [TCHAR, /\r/]],
    ["in a method", "G", [TCHAR, / /]],
    ["first in a target", "GET ", [VCHAR]],
    ["in a target", "GET /", [VCHAR, / /]],
    ["first in a version", "GET / ", [/H/]],
    ["last in a version", "GET / HTTP/1.", [/[01]/]],
    ["behind a version", "GET / HTTP/1.0", [/\r/]],
    ["behind a CR", "GET / HTTP/1.0\r", [/\n/]],
    ["first in a field", line, [TCHAR, /\r/]],
    ["in a field name", `${line}A`, [TCHAR, /:/]],
    ["in a field value", `${line}A:`, [VALUE, /\r/]],
    ["behind the CR of a field", `${line}A:\r`, [/\n/]],
    ["behind the last CR", `${line}\r`, [/\n/]],
  ])("%s of a request", (_where, behind, sets) => {
    expect(lettersBehind(behind, (limits) => new RequestHeadParser(limits))).toBe(
      lettersOf(...sets),
    );
  });

  it.each<[where: string, behind: string, sets: RegExp[]]>([
    ["at the start", "", [/H/]],
    ["behind a version", "HTTP/1.1", [/ /]],
    ["first in a status", "HTTP/1.1 ", [/[1-9]/]],
    ["second in a status", "HTTP/1.1 2", [/[0-9]/]],
    ["third in a status", "HTTP/1.1 20", [/[0-9]/]],
    ["behind a status", "HTTP/1.1 200", [/[ \r]/]],
    ["in a reason", "HTTP/1.1 200 ", [VALUE, /\r/]],
    ["behind a CR", "HTTP/1.1 200 \r", [/\n/]],
  ])("%s of a response", (_where, behind, sets) => {
    expect(lettersBehind(behind, (limits) => new ResponseHeadParser(limits))).toBe(
      lettersOf(...sets),
    );
  });
});

describe("a head that comes in pieces", () => {
  const REQUEST =
    "\r\nGET /a?b HTTP/1.0\r\nHost: \t a \t\r\nx-Y:\r\nTransfer-Encoding: \tchunked\r\n\r\n";
  const RESPONSE = "HTTP/1.0 503 Not now\r\nA: b\r\nC:  d\r\n\r\n";
  type HeadOf = { readonly head: unknown; readonly method?: string };
  const cases: readonly (readonly [string, string, () => Reader])[] = [
    ["request", REQUEST, () => new RequestHeadParser(LIMITS)],
    ["response", RESPONSE, () => new ResponseHeadParser(LIMITS)],
  ];
  for (const [what, text, open] of cases) {
    it(`is the same ${what}, wherever it was cut, and so is the next one`, () => {
      const whole = open();
      whole.read(bytesOf(text), 0, text.length);
      const expected = whole.head;
      expect(expected).toBeDefined();
      for (let cut = 0; cut <= text.length; cut++) {
        const reader = open();
        for (let head = 0; head < 3; head++) {
          // Its bytes stand in the middle of others, which are none of it.
          const first = bytesOf(`..${text.slice(0, cut)}..`);
          const rest = bytesOf(`....${text.slice(cut)}GET /`);
          expect(reader.read(first, 2, 2 + cut)).toBe(2 + cut);
          expect(reader.read(rest, 4, rest.length)).toBe(cut === text.length ? 4 : rest.length - 5);
          expect((reader as HeadOf).head).toEqual(expected);
          reader.next();
          expect(reader.head).toBeUndefined();
        }
      }
    });

    it(`is the same ${what} byte by byte, in a buffer that is used for each`, () => {
      const reader = open();
      const byte = Buffer.alloc(1);
      for (const letter of bytesOf(text)) {
        expect(reader.head).toBeUndefined();
        byte[0] = letter;
        expect(reader.read(byte, 0, 1)).toBe(1);
      }
      const whole = open();
      whole.read(bytesOf(text), 0, text.length);
      expect(reader.head).toEqual(whole.head);
    });
  }

  it("tells its method once a space has ended it, and forgets it with the head", () => {
    const reader = new RequestHeadParser(LIMITS);
    const methods = [..."PUT / HTTP/1.1\r\n\r\n"].map((letter) => {
      reader.read(bytesOf(letter), 0, 1);
      return reader.method;
    });
    expect(methods).toEqual(["", "", "", ...Array(15).fill("PUT")]);
    reader.next();
    expect(reader.method).toBe("");
    reader.read(bytesOf("DELETE /"), 0, 8);
    expect(reader.method).toBe("DELETE");
    reader.next();
    reader.read(bytesOf("GE"), 0, 2);
    expect(reader.method).toBe("");
    reader.read(bytesOf("T /a HTTP/1.1\r\n\r\n"), 0, 17);
    expect(reader.head).toMatchObject({ method: "GET", target: "/a" });
  });

  it("is wrong with the byte that makes its method too long, whatever comes with it", () => {
    for (const first of [1, 12, 24]) {
      const reader = new RequestHeadParser(LIMITS);
      expect(reader.read(bytesOf("A".repeat(first)), 0, first)).toBe(first);
      expect(reader.read(bytesOf("A".repeat(60)), 0, 60)).toBe(24 - first);
      expect(reader.error).toBe("method");
    }
  });

  it("keeps to its limits, which begin anew with each head", () => {
    const line = `GET /${"a".repeat(84)} HTTP/1.1\r\n`;
    const text = `${line}A:${"b".repeat(194)}\r\n\r\n`;
    expect([line.length, text.length]).toEqual([100, 300]);
    for (const size of [1, 7, 99, 100, 101, 299]) {
      const reader = new RequestHeadParser(LIMITS);
      for (let head = 0; head < 2; head++) {
        for (let at = 0; at < text.length; at += size) {
          const piece = bytesOf("x".repeat(60) + text.slice(at, at + size));
          expect(reader.read(piece, 60, piece.length)).toBe(piece.length);
        }
        expect([reader.error, reader.head?.rawHeaders]).toEqual([
          undefined,
          ["A", "b".repeat(194)],
        ]);
        reader.next();
      }
    }
  });
});
