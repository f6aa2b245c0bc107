import { describe, expect, it } from "vitest";
import {
  type FramingError,
  type FramingInfo,
  isFramingError,
  parseFraming,
} from "../../src/http1/parse/framing.ts";

const BOTH = "length_and_coding";

const NONE: FramingInfo = { framing: undefined, closesConnection: false, keepAliveS: undefined };

describe("the fields of a head", () => {
  it.each<[what: string, fields: string[], said: Partial<FramingInfo>]>([
    ["nothing", [], {}],
    ["a length", ["Content-Length", "5"], { framing: 5 }],
    ["a length of fifteen digits", ["content-length", "9".repeat(15)], { framing: 1e15 - 1 }],
    ["chunks", ["TRANSFER-ENCODING", "Chunked"], { framing: "chunked" }],
    ["close", ["Connection", "close"], { closesConnection: true }],
    ["close in any case", ["CONNECTION", "Close"], { closesConnection: true }],
    ["close in a list", ["Connection", "x ,\t close\t , y"], { closesConnection: true }],
    [
      "close on its first line",
      ["Connection", "close", "Connection", "x"],
      { closesConnection: true },
    ],
    [
      "close on its last line",
      ["Connection", "x", "Connection", "close"],
      { closesConnection: true },
    ],
    ["a name that ends in close", ["Connection", "disclose"], {}],
    ["a name that begins with close", ["Connection", "closed"], {}],
    ["two words", ["Connection", "x close y"], {}],
    ["a time", ["Keep-Alive", "timeout=5"], { keepAliveS: 5 }],
    ["a time of six digits", ["Keep-Alive", "TIMEOUT=123456"], { keepAliveS: 123_456 }],
    ["a time behind others", ["Keep-Alive", "max=3,\t timeout=10, x"], { keepAliveS: 10 }],
    ["a time behind a semicolon", ["Keep-Alive", "max=3;timeout=10"], { keepAliveS: 10 }],
    ["the time of another name", ["Keep-Alive", "xtimeout=5"], {}],
    ["a time that is no number", ["Keep-Alive", "timeout=x"], {}],
    ["no time", ["Keep-Alive", "max=3"], {}],
    [
      "a time, and then none",
      ["Keep-Alive", "timeout=5", "Keep-Alive", "max=3"],
      { keepAliveS: 5 },
    ],
    ["a length behind fields of others", ["A", "b", "Content-Lengths", "7"], {}],
    ["names that are as long as those that count", ["Accept-Len", "5", "X-Content-Leng", "5"], {}],
    ["a value that is a name", ["X-A", "Content-Length", "X-B", "close"], {}],
  ])("say %s", (_what, fields, said) => {
    expect(parseFraming("1.1", fields)).toEqual({ ...NONE, ...said });
  });

  it.each<[what: string, fields: string[], why: FramingError, version?: "1.0"]>([
    ["two lengths", ["Content-Length", "5", "Content-Length", "5"], "length"],
    ["a length behind chunks", ["Transfer-Encoding", "chunked", "Content-Length", "5"], BOTH],
    ["chunks behind a length", ["Content-Length", "0", "Transfer-Encoding", "chunked"], BOTH],
    ["chunks twice", ["Transfer-Encoding", "chunked", "Transfer-Encoding", "chunked"], "coding"],
    ["chunks for HTTP/1.0", ["Transfer-Encoding", "chunked"], "coding_on_1_0", "1.0"],
    ["another coding", ["Transfer-Encoding", "gzip"], "coding"],
    ["a coding and chunks", ["Transfer-Encoding", "gzip, chunked"], "coding"],
    ["an empty length", ["Content-Length", ""], "length"],
    ["a length with a sign", ["Content-Length", "+5"], "length"],
    ["a length with a letter behind it", ["Content-Length", "5x"], "length"],
    ["a length of sixteen digits", ["Content-Length", "0".repeat(16)], "length"],
  ])("do not say where the body ends by %s", (_what, fields, why, version = undefined) => {
    const { framing } = parseFraming(version ?? "1.1", fields);
    expect([framing, isFramingError(framing)]).toEqual([why, true]);
  });
});
