import assert from "node:assert/strict";
import { describe, it } from "vitest";
import {
  parseAnchorOption,
  parseCapOptions,
  parseLimitOptions,
  parseMetaOptions,
} from "../../../src/cli/access/limit-options.ts";
import type { Invocation } from "../../../src/cli/framework/verb.ts";

const call = (...given: readonly string[]): Invocation => ({
  ...{ args: [], words: [], flag: () => false },
  text: () => given[0],
  texts: () => given,
});

describe("the options of an account", () => {
  it("--limit takes windows of the plan and of meters, and refuses all where one is wrong", () => {
    assert.deepEqual(parseLimitOptions(call("minute=0", "tokens.day=999999999999999", "day=20")), [
      { window: "minute", limit: 0 },
      { window: "tokens.day", limit: 999_999_999_999_999 },
      { window: "day", limit: 20 },
    ]);
    assert.deepEqual(parseLimitOptions(call()), []);
    for (const text of [
      "minute",
      "minute=",
      "minute=x",
      "decade=1",
      "day=1000000000000000",
      "day=-1",
      "=1",
    ]) {
      const told = `^Cannot read --limit as WINDOW=NUMBER with a window of .*minute.*: the value is "${text}"$`;
      assert.match(String(parseLimitOptions(call("day=1", text))), new RegExp(told));
    }
  });

  it("--cap takes windows of the plan alone", () => {
    const caps = [
      { window: "minute", limit: 5 },
      { window: "month", limit: 0 },
    ];
    assert.deepEqual(parseCapOptions(call("minute=5", "month=0")), caps);
    for (const text of ["tokens.day=5", "decade=5", "day", "day=x", "day=1000000000000000"]) {
      const told = `^Cannot read --cap as WINDOW=NUMBER with a window of .*month.*: the value is "${text}"$`;
      assert.match(String(parseCapOptions(call("day=1", text))), new RegExp(told));
    }
  });

  it("--anchor is a number or a mistake, and nothing where it is not given", () => {
    assert.deepEqual([parseAnchorOption(call()), parseAnchorOption(call("15"))], [undefined, 15]);
    assert.equal(parseAnchorOption(call("999999999")), 999_999_999);
    for (const text of ["", "x", "x15", "15x", "-1", "1.5", "1000000000"]) {
      const told = `Cannot read --anchor as a day of the month from 1 to 31: the value is "${text}"`;
      assert.equal(parseAnchorOption(call(text)), told);
    }
  });

  it("--meta takes a value with =, an empty one too, and each name once", () => {
    const meta = { tenant: "42", filter: "a=b", gone: "" };
    assert.deepEqual(parseMetaOptions(call("tenant=42", "filter=a=b", "gone=")), meta);
    for (const text of ["tenant", "=42", ""]) {
      const told = `Cannot read --meta as NAME=VALUE: the value is ${JSON.stringify(text)}`;
      assert.equal(parseMetaOptions(call("a=b", text)), told);
    }
    const twice = "Cannot use one name of --meta twice: give each name once";
    assert.equal(parseMetaOptions(call("a=1", "b=2", "a=3")), twice);
  });
});
