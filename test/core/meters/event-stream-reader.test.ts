import assert from "node:assert/strict";
import { createParser } from "eventsource-parser";
import fc from "fast-check";
import { describe, it } from "vitest";
import { EventStreamReader } from "../../../src/core/meters/event-stream-reader.ts";

const MAX = 1_000;

/** The number that a stream tells in one piece, and byte by byte: both must be the same. */
function told(stream: string | Buffer, max = MAX, cuts: readonly number[] = []) {
  const bytes = Buffer.from(stream);
  const readers = [[], cuts, [...bytes.keys()]].map((ends) => {
    const reader = new EventStreamReader(["u", "n"], max);
    let from = 0;
    for (const end of [...ends, bytes.length]) {
      reader.read(bytes.subarray(from, end));
      from = end;
    }
    return reader.used;
  });
  assert.ok(
    readers.every((one) => one === readers[0]),
    `by how it was cut: ${readers}`,
  );
  return readers[0];
}

const usage = (n: unknown) => `data: {"u":{"n":${n}}}\n\n`;

describe("a stream of events", () => {
  it("tells the number of the last event that has one", () => {
    assert.equal(told(usage(1)), 1);
    assert.equal(told(usage(1) + usage(2)), 2);
    assert.equal(told(`${usage(1)}data: {"u":null}\n\ndata: [DONE]\n\n`), 1);
    assert.equal(told(`data: {"x":1}\n\n${usage(3)}: bye\n\n`), 3);
    assert.equal(told("data: [DONE]\n\n"), undefined);
    assert.equal(told(""), undefined);
  });

  it("tells nothing if the last event that has the place has no number there", () => {
    assert.equal(told(usage(1) + usage(-5)), undefined);
    assert.equal(told(usage(1) + usage("null")), undefined);
    assert.equal(told(usage(1) + usage('"2"')), undefined);
    assert.equal(told(usage(-5) + usage(1)), 1);
  });

  it("passes over an event whose data is no JSON, or not whole", () => {
    assert.equal(told(`${usage(1)}data: {"u":{"n":2}} x\n\n`), 1);
    assert.equal(told(`${usage(1)}data: {"u":{"n":2}\n\n`), 1);
    assert.equal(told(`${usage(1)}data: {"u":{"n":2}}}\n\n`), 1);
  });

  it("reads lines that end in LF, CR or CRLF, and any mixture", () => {
    for (const end of ["\n", "\r", "\r\n"]) {
      assert.equal(told(usage(7).replaceAll("\n", end)), 7);
      assert.equal(told((usage(6) + usage(7)).replaceAll("\n", end)), 7);
    }
    assert.equal(told('data: {"u":\r\ndata: {"n":7}}\r\r\n'), 7);
    assert.equal(told('data: {"u":{"n":7}}\n\r'), 7);
  });

  it("takes a CR at the end of a piece and an LF after it for one line end", () => {
    const stream = 'data: {"u":\r\ndata: {"n":7}}\r\n\r\n';
    for (let cut = 0; cut <= stream.length; cut++) assert.equal(told(stream, MAX, [cut]), 7);
  });

  it("joins the lines of data of one event", () => {
    assert.equal(told('data: {"u":\ndata:{"n":\ndata: 7}}\n\n'), 7);
    assert.equal(told('data: {"u":{"n":1\ndata: 7}}\n\n'), undefined);
    assert.equal(told('data\ndata: {"u":{"n":7}}\ndata\n\n'), 7);
    assert.equal(told('data: {"u":{"n":7}}\nevent: x\nid: 4\n: note\nretry: 9\n\n'), 7);
  });

  it("reads no other field as data, and only one space after the colon is no data", () => {
    assert.equal(told('dat: {"u":{"n":7}}\n\n'), undefined);
    assert.equal(told('dataa: {"u":{"n":7}}\n\n'), undefined);
    assert.equal(told('Data: {"u":{"n":7}}\n\n'), undefined);
    assert.equal(told(' data: {"u":{"n":7}}\n\n'), undefined);
    assert.equal(told('data : {"u":{"n":7}}\n\n'), undefined);
    assert.equal(told(':data: {"u":{"n":7}}\n\n'), undefined);
    assert.equal(told('data:{"u":{"n":7}}\n\n'), 7);
    assert.equal(told('data:  {"u":{"n":7}}\n\n'), 7);
  });

  it("does not count an event that no empty line ends", () => {
    assert.equal(told(`${usage(1)}data: {"u":{"n":2}}\n`), 1);
    assert.equal(told(`${usage(1)}data: {"u":{"n":2}}`), 1);
  });

  it("passes over one byte order mark at the very beginning, and no other", () => {
    assert.equal(told(`\ufeff${usage(7)}`), 7);
    assert.equal(told(`\ufeff\ufeff${usage(7)}`), undefined);
    assert.equal(told(`\n\ufeff${usage(7)}`), undefined);
    const cut = Buffer.concat([Buffer.from([0xef, 0xbb]), Buffer.from(usage(7))]);
    assert.equal(told(cut), undefined);
  });

  it("reads events of exactly the most bytes, and passes over one that is longer", () => {
    const event = `: ${"x".repeat(500)}\ndata: {"u":{"n":7}}\n\n`;
    const bytes = event.replaceAll("\n", "").length;
    assert.equal(told(event, bytes), 7);
    assert.equal(told(event, bytes - 1), undefined);
    assert.equal(told(usage(1) + event, bytes - 1), 1);
    assert.equal(told(event + usage(2), bytes - 1), 2);
  });

  it("goes on reading after 64 MiB of events without keeping anything", () => {
    const reader = new EventStreamReader(["u", "n"], MAX);
    const piece = Buffer.from(`data: {"x":"${"y".repeat(60_000)}"}\n`.repeat(17));
    const before = process.memoryUsage().arrayBuffers;
    for (let i = 0; i < 64; i++) reader.read(piece);
    assert.ok(process.memoryUsage().arrayBuffers - before < 1024 ** 2);
    reader.read(Buffer.from(`\n${usage(8)}`));
    assert.equal(reader.used, 8);
  });
});

const line = fc.oneof(
  fc.constantFrom(
    "data: {",
    "data:}",
    "data",
    "data:",
    ": x",
    "event: a",
    "",
    "",
    "x",
    "data: [1]",
  ),
  fc.nat(99).map((n) => `data: {"u":{"n":${n}}}`),
  fc.constantFrom('data: {"u":', 'data: {"n":5}}', 'data: {"u":{"n":-1}}', "data: [DONE]", "dat"),
);
const lines = fc.array(fc.tuple(line, fc.constantFrom("\n", "\r", "\r\n")), { maxLength: 24 });
const cuts = fc.array(fc.nat(300), { maxLength: 6 }).map((all) => all.sort((a, b) => a - b));

/** The number of the last event in the list that is JSON and has the place. */
function lastOf(events: readonly string[]): number | undefined {
  let last: number | undefined;
  for (const data of events) {
    try {
      const n = JSON.parse(data)?.u?.n;
      if (n !== undefined) last = n >= 0 ? n : undefined;
    } catch {}
  }
  return last;
}

describe("beside other readers of events", () => {
  it("tells the same as a simple model of the HTML Standard", () => {
    let numbers = 0;
    fc.assert(
      fc.property(lines, cuts, (all, at) => {
        const stream = all.map(([text, end]) => text + end).join("");
        const events: string[] = [];
        let data: string[] = [];
        for (const one of stream.split(/\r\n|\r|\n/).slice(0, -1)) {
          if (one === "") {
            if (data.length > 0) events.push(data.join("\n"));
            data = [];
          } else if (one === "data" || one.startsWith("data:")) {
            data.push(one.slice(5).replace(/^ /, ""));
          }
        }
        const expected = lastOf(events);
        assert.equal(told(stream, MAX, at), expected, JSON.stringify(stream));
        if (expected !== undefined) numbers += 1;
      }),
      { numRuns: 5_000 },
    );
    assert.ok(numbers > 100, `${numbers} streams told a number`);
  });

  it("tells the same as eventsource-parser", () => {
    fc.assert(
      fc.property(lines, cuts, (all, at) => {
        const stream = all.map(([text, end]) => text + end).join("");
        const events: string[] = [];
        createParser({ onEvent: ({ data }) => events.push(data) }).feed(`${stream}: end`);
        assert.equal(told(stream, MAX, at), lastOf(events), JSON.stringify(stream));
      }),
      { numRuns: 5_000 },
    );
  });
});
