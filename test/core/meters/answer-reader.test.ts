import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { AnswerReader, readsBody } from "../../../src/core/meters/answer-reader.ts";
import { loggedMeter, loggedUnits, meterCharge } from "../../../src/core/meters/meter-charge.ts";
import { formatMeterSource, parseMeterSource } from "../../../src/core/meters/meter-source.ts";
import type { MeterSource, OperationMeter } from "../../../src/core/quota/meters.ts";

function sourcesOf(texts: readonly string[]): MeterSource[] {
  return texts.map((text) => {
    const source = parseMeterSource(text);
    assert.ok(source !== undefined, text);
    return source;
  });
}

function meter(...used: readonly string[]): OperationMeter {
  return { name: "tokens", hold: 10, max: 100, untold: 30, used: sourcesOf(used) };
}

type Answer = {
  readonly method?: string;
  readonly status?: number;
  readonly fields?: readonly string[];
  readonly body?: string;
  readonly meteredBytes?: number;
};

const JSON_TYPE = ["Content-Type", "application/json"];
const ALL = ["header X-Used", "json /used", "sse /used"];

function told(used: readonly string[], answer: Answer): number | undefined {
  const { method = "POST", status = 200, fields = [], body = "", meteredBytes = 1_000 } = answer;
  const reader = new AnswerReader(
    [meter(...used)],
    { method, status, rawHeaders: fields },
    meteredBytes,
  );
  reader.read(Buffer.from(body));
  return reader.used[0];
}

describe("a field that tells what was used", () => {
  const field = (...values: readonly string[]) => {
    return told(["header x-used"], { fields: values.flatMap((value) => ["X-Used", value]) });
  };

  it("is digits alone, from 0 to 10^12, and there once", () => {
    assert.equal(field("137"), 137);
    assert.equal(field("0"), 0);
    assert.equal(field("007"), 7);
    assert.equal(field("1000000000000"), 1e12);
    for (const value of ["1000000000001", "9".repeat(400), "-1", "+1", "1.0", "1e3", "", "0x1"]) {
      assert.equal(field(value), undefined, value);
    }
    for (const value of ["1 2", "1,2", "١", "a", "null"]) {
      assert.equal(field(value), undefined, value);
    }
    assert.equal(field(), undefined);
    assert.equal(field("1", "1"), undefined);
    assert.equal(field("1", ""), undefined);
  });
});

describe("what an answer tells", () => {
  it("is the number of the first source in the list that tells one", () => {
    const json = { fields: [...JSON_TYPE, "x-used", "5"], body: '{"used":6}' };
    assert.equal(told(["header x-used", "json /used"], json), 5);
    assert.equal(told(["json /used", "header x-used"], json), 6);
    assert.equal(told(["json /else", "json /used", "header x-used"], json), 6);
    assert.equal(told(["json /else", "header x-used"], json), 5);
    const broken = { fields: [...JSON_TYPE, "x-used", "-5"], body: '{"used":6}' };
    assert.equal(told(["header x-used", "json /used"], broken), 6);
  });

  it("is read from a body by its one media type", () => {
    const typed = (type: string, body = '{"used":6}') => {
      return told(["json /used", "sse /used"], { fields: ["content-type", type], body });
    };
    assert.equal(typed("application/json"), 6);
    assert.equal(typed("Application/JSON ; charset=utf-8"), 6);
    assert.equal(typed("application/vnd.api+json"), 6);
    assert.equal(typed("application/problem+json;x=1"), 6);
    assert.equal(typed("text/event-stream; charset=utf-8", 'data: {"used":7}\n\n'), 7);
    assert.equal(typed("text/event-stream"), undefined);
    assert.equal(typed("application/json", 'data: {"used":7}\n\n'), undefined);
    for (const type of [
      "text/json",
      "application/jsonl",
      "application/x-ndjson",
      "text/plain",
      "",
    ]) {
      assert.equal(typed(type), undefined, type);
    }
    assert.equal(told(["json /used"], { body: '{"used":6}' }), undefined);
    const twice = [...JSON_TYPE, ...JSON_TYPE];
    assert.equal(told(["json /used"], { fields: twice, body: '{"used":6}' }), undefined);
    assert.equal(told(["sse /used"], { fields: JSON_TYPE, body: '{"used":6}' }), undefined);
  });

  it("is nothing in a coded body, but a field still tells", () => {
    const coded = (...codings: readonly string[]) => {
      const fields = codings.flatMap((coding) => ["Content-Encoding", coding]);
      return told(["json /used"], { fields: [...JSON_TYPE, ...fields], body: '{"used":6}' });
    };
    assert.equal(coded("identity"), 6);
    assert.equal(coded("Identity"), 6);
    assert.equal(coded(""), 6, "no coding at all");
    assert.equal(coded(" \t"), 6);
    assert.equal(coded("", "gzip"), undefined);
    for (const coding of ["gzip", "br", "identity, gzip", "x"]) {
      assert.equal(coded(coding), undefined, coding);
    }
    assert.equal(coded("identity", "gzip"), undefined);
    const fields = [...JSON_TYPE, "Content-Encoding", "gzip", "X-Used", "9"];
    assert.equal(told(["json /used", "header x-used"], { fields }), 9);
  });

  it("is in a field alone for HEAD, 204, 206 and 304", () => {
    const answers: Answer[] = [
      { method: "HEAD" },
      ...[204, 206, 304].map((status) => ({ status })),
    ];
    for (const answer of answers) {
      const whole = { ...answer, fields: [...JSON_TYPE, "x-used", "5"], body: '{"used":6}' };
      assert.equal(told(["json /used", "header x-used"], whole), 5);
      assert.equal(told(["json /used"], whole), undefined);
    }
  });

  it("is read from so many bytes of a JSON body and no more", () => {
    const body = '{"used":6}';
    const within = (meteredBytes: number) =>
      told(["json /used"], { fields: JSON_TYPE, body, meteredBytes });
    assert.equal(within(body.length), 6);
    assert.equal(within(body.length - 1), undefined);
  });

  it("is told of each meter by itself", () => {
    const meters = [meter("json /a"), meter("json /b", "header x-used"), meter("sse /a"), meter()];
    const rawHeaders = [...JSON_TYPE, "x-used", "5"];
    const reader = new AnswerReader(meters, { method: "GET", status: 200, rawHeaders }, 100);
    reader.read(Buffer.from('{"a":'));
    assert.deepEqual(reader.used, [undefined, 5, undefined, undefined]);
    reader.read(Buffer.from('1,"b":2}'));
    assert.deepEqual(reader.used, [1, 2, undefined, undefined]);
  });

  it("reads no body where nothing in it can tell more than a field did", () => {
    const reads = (used: readonly string[], rawHeaders: readonly string[]) => {
      return new AnswerReader([meter(...used)], { method: "GET", status: 200, rawHeaders }, 9)
        .readsBody;
    };
    assert.ok(reads(ALL, JSON_TYPE));
    assert.ok(!reads(ALL, [...JSON_TYPE, "x-used", "5"]));
    assert.ok(!reads(["header x-used"], JSON_TYPE));
    assert.ok(!reads(ALL, ["Content-Type", "text/plain"]));
    assert.deepEqual([readsBody([meter("header a")]), readsBody([meter(...ALL)])], [false, true]);
  });
});

describe("a charge", () => {
  const charged = (used: number | undefined, end: "free" | "answered") => {
    return meterCharge(meter(), used, end).units;
  };

  it("is what was told, up to max", () => {
    assert.deepEqual([charged(0, "answered"), charged(99, "answered")], [0, 99]);
    assert.deepEqual([charged(100, "answered"), charged(101, "answered")], [100, 100]);
    assert.equal(charged(7, "free"), 7);
  });

  it("is what untold says where nothing was told, and nothing for a request that is free", () => {
    assert.deepEqual([charged(undefined, "answered"), charged(undefined, "free")], [30, 0]);
  });

  it("is in the line of its request, with what differs from what was told or held", () => {
    const logged = (used: number | undefined, end: "free" | "answered") => {
      const line = loggedMeter(meterCharge(meter(), used, end));
      assert.equal(loggedUnits(line), charged(used, end));
      return line;
    };
    assert.deepEqual(logged(7, "answered"), { hold: 10, used: 7 });
    assert.deepEqual(logged(101, "answered"), { hold: 10, used: 101, charged: 100 });
    assert.deepEqual(logged(undefined, "answered"), { hold: 10, charged: 30 });
    assert.deepEqual(logged(undefined, "free"), { hold: 10, charged: 0 });
    const held = { ...meter(), untold: 10 };
    assert.deepEqual(loggedMeter(meterCharge(held, undefined, "answered")), { hold: 10 });
  });
});

describe("a source", () => {
  it("is written as it was read", () => {
    for (const text of ["header x-used", "json /a", "sse /a~1b/~0/0//é", "json /"]) {
      assert.equal(formatMeterSource(sourcesOf([text])[0] as MeterSource), text);
    }
    assert.deepEqual(parseMeterSource("header X-Used"), { from: "header", name: "x-used" });
    assert.deepEqual(parseMeterSource("json /~01"), { from: "json", pointer: ["~1"] });
  });

  it.each([
    "",
    "json",
    "json ",
    "json a",
    "json /~",
    "json /~2",
    "header",
    "header a b",
    "xml /a",
    "json  /a",
  ])("is not %j", (text) => assert.equal(parseMeterSource(text), undefined));
});
