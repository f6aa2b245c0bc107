import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { AnswerReader } from "../../bench/load/answers.ts";
import { sideNames } from "../../bench/measure/side-names.ts";
import { median, medianSlice, noiseOf, ratio } from "../../bench/measure/statistics.ts";
import type { Report } from "../../bench/report/report.ts";
import { isTrusted, isWords } from "../../bench/report/text.ts";
import { withTable } from "../../bench/report/write.ts";
import { othersShare } from "../../bench/stage/cpu.ts";

describe("the benchmark's reader of answers", () => {
  const ANSWERS: readonly [what: string, text: string, status: number][] = [
    ["a body of a known length", "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello", 200],
    ["an empty body", "HTTP/1.1 401 No\r\nContent-Length: 0\r\n\r\n", 401],
    ["chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n", 200],
  ];
  for (const [what, text, status] of ANSWERS) {
    it(`ends with the last byte of ${what}, wherever it is cut in two`, () => {
      const bytes = Buffer.from(text);
      // A chunked end that is cut is never met: one read brings the last five bytes of it.
      const last = what === "chunks" ? bytes.length - 5 : bytes.length - 1;
      for (let cut = 1; cut <= last; cut++) {
        const reader = new AnswerReader();
        const pieces = [bytes.subarray(0, cut), bytes.subarray(cut)];
        const found = pieces.map((piece) => reader.read(piece, piece.length));
        assert.deepEqual(found, [undefined, status], `cut at ${cut}`);
        assert.equal(reader.read(bytes, bytes.length), status);
      }
    });
  }

  it("sees that an answer ends its connection", () => {
    const reader = new AnswerReader();
    const closing = Buffer.from(
      "HTTP/1.1 401 No\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
    );
    reader.read(closing, closing.length);
    assert.equal(reader.closes, true);
  });
});

describe("the benchmark's statistics", () => {
  it("take the middle, or the mean of the two in the middle", () => {
    assert.equal(median([3, 1, 2]), 2);
    assert.equal(median([4, 1, 2, 3]), 2.5);
    assert.ok(Number.isNaN(median([])));
    assert.equal(medianSlice([]), undefined);
  });

  it("call noise how far a copy lies from the median of all, where it is largest", () => {
    assert.equal(noiseOf([[100, 112, 105], [50, 50], [7]]), 7 / 105);
    assert.equal(noiseOf([[7], []]), 0);
  });

  it("tell no difference below the noise, and the ratio above it", () => {
    assert.equal(ratio(104, 100, 0.05), "none");
    assert.equal(ratio(96, 100, 0.05), "none");
    assert.equal(ratio(106, 100, 0.05), 1.06);
  });
});

describe("the benchmark's pages", () => {
  it("put the table between its marks, and nothing else", () => {
    const page = (inside: string) => {
      return `a\n<!-- bench: the table -->\n${inside}<!-- bench: end -->\nb\n`;
    };
    assert.equal(withTable(page(""), "| t |"), page("| t |\n"));
    assert.equal(withTable(page("| old |\n"), "| t |"), page("| t |\n"));
    assert.throws(() => withTable("a\n", "| t |"), /no place for the table/);
  });

  it("leave the README alone unless copies of one variant agreed and all was warm", () => {
    const of = (sumUs: number, warmUpRequests: number) => {
      return { noise: { closed: { sumUs } }, options: { warmUpRequests } } as Report;
    };
    assert.equal(isTrusted(of(0.15, 75_000)), true);
    assert.equal(isTrusted(of(0.151, 75_000)), false);
    assert.equal(isTrusted(of(0.15, 74_999)), false);
    const { options } = of(0.15, 75_000);
    assert.equal(isTrusted({ noise: {}, options }), false);
  });

  it("tell the share of the cores that others took", () => {
    const before = { all: 100, busy: 50, own: 10 };
    assert.equal(othersShare(before, { all: 300, busy: 150, own: 60 }), 0.25);
    // Ticks are coarse: a program of ours may seem to take more than there was.
    assert.equal(othersShare(before, { all: 300, busy: 150, own: 111 }), 0);
  });

  it("set words to the left and figures to the right", () => {
    const rows = [
      ["variant", "keys", "× Tollgate"],
      ["nginx", "1,000", "none"],
    ];
    assert.deepEqual(
      [0, 1, 2].map((column) => isWords(rows, column)),
      [true, false, false],
    );
  });
});

describe("the sides that the benchmark compares", () => {
  it("are called by the last part of their path, and by more of it if another one ends alike", () => {
    assert.deepEqual(sideNames(["/a/new", "old"]), ["new", "old"]);
    assert.deepEqual(sideNames(["/a/x/main", "/a/y/main", "/b/y/main"]), [
      "x/main",
      "a/y/main",
      "b/y/main",
    ]);
    assert.deepEqual(sideNames(["/main", "/a/main/"]), ["main", "a/main"]);
  });

  it("are two if one path is given twice", () => {
    assert.deepEqual(sideNames(["/a/main", "/a/./main"]), ["main", "main again (2)"]);
  });
});
