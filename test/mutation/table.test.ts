import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, it } from "vitest";
import { each } from "../support/each.ts";
import { readResults } from "./results.ts";
import { PLACES, withFigures } from "./table.ts";

describe("The figures of mutants", () => {
  for (const { path, text } of each(PLACES)) {
    it(`stand in ${path} as they were measured (npm run mutate -- --write)`, () => {
      const page = readFileSync(path, "utf8");
      assert.equal(page, withFigures(page, text(readResults())));
    });
  }

  const file = (mutants: number, tried: string, alive = {}) => {
    return { hash: "h", mutants, tried, late: 1, alive };
  };
  const RESULTS = {
    rooms: { core: 30, stores: 2_000 },
    files: {
      "src/core/a.ts": file(20, "0-19", { 3: "x" }),
      "src/core/b.ts": file(10, "0-9", { 3: "x", 4: "x", 5: "x" }),
      "src/stores/c.ts": file(500, "7,9"),
      "src/stores/few.ts": file(500, "4", { 4: "x" }),
    },
  };

  it("are a row for each room that was measured, with what a sample says of all", () => {
    const [{ text }] = PLACES as unknown as [(typeof PLACES)[number]];
    const lines = text(RESULTS).split("\n");
    assert.ok(lines.includes("| `core` | 30 | 30 | 26 | 2 | 86.7 % | all were tried |"));
    assert.ok(lines.includes("| `stores` | 2,000 | 3 | 2 | 2 | 66.7 % | 20.8 to 93.9 % |"));
    assert.ok(lines.includes("| `src/core/b.ts` | 10 | 10 | 7 | 1 | 70.0 % |"));
    assert.equal(lines.filter((line) => line.includes("src/")).length, 1);
    assert.ok(!text(RESULTS).includes("gateway"));
  });

  it("are one sentence for the README", () => {
    const [, { text }] = PLACES as unknown as [unknown, (typeof PLACES)[number]];
    assert.equal(
      text(RESULTS),
      "at least core 86.7 %, stores 66.7 % of the 33 tried of 2,030 mutants",
    );
  });

  it("are refused a page without their marks", () => {
    assert.throws(() => withFigures("# A page", "x"), /marks .* missing/);
  });
});
