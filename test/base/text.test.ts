import assert from "node:assert/strict";
import { it } from "vitest";
import { cleanText, errorMessage, formatCount, quoteValue } from "../../src/base/messages.ts";
import { positionAt } from "../../src/base/text-position.ts";

it("a value is quoted with its first hundred characters", () => {
  const [most, over] = ["a".repeat(100), "a".repeat(101)];
  assert.deepEqual([quoteValue(most), quoteValue(over)], [`"${most}"`, `"${most}…"`]);
  assert.equal(quoteValue([over]), `["${"a".repeat(98)}…`);
  assert.equal(quoteValue("https://me:p@ss/w@h:1/x"), '"https://***@h:1/x"');
  assert.equal(quoteValue("me@example.com"), '"me@example.com"');
  assert.deepEqual([quoteValue('"'), quoteValue(undefined)], ['"\\""', "undefined"]);
});

it("a quoted value reaches a terminal without characters that move its cursor or reverse its text", () => {
  assert.equal(
    quoteValue("a\u202eb\u2066\u200f\u009b31m\u007f"),
    '"a\\u202eb\\u2066\\u200f\\u009b31m\\u007f"',
  );
  assert.equal(quoteValue(["\u009b"]), '["\\u009b"]');
});

it("a character that moves the cursor is escaped with four digits at least", () => {
  assert.equal(cleanText("a\u001b\u2028\u{e0001}"), "a\\u001b\\u2028\\ue0001");
});

it("what was thrown is told by its message alone, and one thing is not many", () => {
  assert.deepEqual([errorMessage(new Error("no")), errorMessage("secret")], ["no", "unknown"]);
  const counts = [0, 1, 2].map((count) => formatCount(count, "key"));
  assert.deepEqual(counts, ["0 keys", "1 key", "2 keys"]);
});

it("the position of a character has its line and column from 1, also on both sides of an end of a line", () => {
  const places = [0, 1, 2, 3].map((offset) => positionAt("a\nbc", offset));
  assert.deepEqual(
    places.map(({ line, column }) => `${line}:${column}`),
    ["1:1", "1:2", "2:1", "2:2"],
  );
});
