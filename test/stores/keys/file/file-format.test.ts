import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { decodeKeyFile, encodeKeyFile } from "../../../../src/stores/keys/file/file-format.ts";
import { record, withAccounts } from "../record.ts";

describe("The text of a file of keys, as it is written", () => {
  it("is parsed in pieces, between which the process has its turn", async () => {
    const many = Array.from({ length: 20_000 }, (_, i) => record(`k_${i}`));
    const text = [...encodeKeyFile(withAccounts(...many))].join("");
    const turnsFor = async (content: string) => {
      let turns = 0;
      let turn: NodeJS.Immediate;
      const count = () => {
        turns += 1;
        turn = setImmediate(count);
      };
      turn = setImmediate(count);
      const { records } = await decodeKeyFile("keys.json", content, { nowMs: 0 });
      clearImmediate(turn);
      assert.equal(records.keys.length, many.length);
      return turns;
    };
    const byLine = await turnsFor(text);
    const whole = await turnsFor(text.replace('"keys":', ' "keys":'));
    // A turn for each millisecond: to parse them and to read them, where a whole file is parsed at once.
    assert.ok(whole >= 10 && byLine >= whole + 10, `${byLine} turns, ${whole} for a whole file`);
  });
});
