import { describe, expect, it } from "vitest";
import { checkLinePart, encodeFields } from "../../src/http1/write/message-writer.ts";

const LETTERS = [
  ...Array.from({ length: 512 }, (_, code) => String.fromCharCode(code)),
  "\u{1f600}",
];

/** Letters that may stand before, between and behind others; it is checked that each may in all. */
function sendable(write: (text: string) => string): string {
  const isSent = (text: string) => {
    try {
      return write(text).includes(text);
    } catch (error) {
      expect(String(error)).toMatch(/cannot be sent: (it has|a part of its first line has) a byte/);
      return false;
    }
  };
  return LETTERS.filter((letter) => {
    const sent = [`${letter}a`, `a${letter}a`, `a${letter}`].map(isSent);
    expect(new Set(sent).size).toBe(1);
    return sent[0];
  }).join("");
}

const lettersOf = (set: RegExp) => LETTERS.filter((letter) => set.test(letter)).join("");

describe("of all letters, exactly those of the grammar are sent", () => {
  it("in the name of a field", () => {
    expect(sendable((name) => encodeFields([name, "b"]))).toBe(
      lettersOf(/^[!#$%&'*+\-.^_`|~0-9A-Za-z]$/),
    );
  });

  it("in the value of a field", () => {
    expect(sendable((value) => encodeFields(["A", value]))).toBe(
      lettersOf(/^[\t\x20-\x7e\x80-\xff]$/),
    );
  });

  it("in a part of a request line", () => {
    expect(sendable(checkLinePart)).toBe(lettersOf(/^[\x21-\x7e]$/));
  });
});

describe("field lines", () => {
  it("are names and values in turn, and none where there are none", () => {
    expect(encodeFields(["A", "b", "C", ""])).toBe("A: b\r\nC: \r\n");
    expect(encodeFields([])).toBe("");
  });

  it("have a name each, which is told where it cannot be sent", () => {
    expect(() => encodeFields(["", "b"])).toThrow('The field "" cannot be sent');
    expect(() => encodeFields(["A", "b", "X Y", "b"])).toThrow('The field "X Y" cannot be sent');
    expect(() => checkLinePart("")).toThrow("The request cannot be sent");
  });
});
