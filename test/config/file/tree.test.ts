import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { parseTree } from "../../../src/config/file/tree.ts";

const OPTIONS = { file: "a.yaml", variables: undefined, valuesMax: 500_000 };

describe("an alias", () => {
  it("means the last anchor of its name before it, in the order of the file", () => {
    const { tree } = parseTree("a: &x 1\nb: *x\nc: &x 2\nd: *x\n", OPTIONS);
    assert.deepEqual(tree?.value, { a: 1, b: 1, c: 2, d: 2 });
  });

  it("does not bring back the anchors inside of what it stands for", () => {
    const text = "a: &x 1\nb: &y { c: &x 2, d: *x }\ne: &x 3\nf: *y\ng: *x\n*x : h\n";
    const { tree } = parseTree(text, OPTIONS);
    assert.deepEqual(tree?.value, {
      a: 1,
      b: { c: 2, d: 2 },
      e: 3,
      f: { c: 2, d: 2 },
      g: 3,
      3: "h",
    });
  });

  it("among twenty thousand is found without a walk over the whole file for each", () => {
    const text = `i: &i { title: t }\nlist:\n${"- *i\n".repeat(20_000)}`;
    // The processor of this thread alone: how busy the machine is otherwise does not count.
    const before = process.threadCpuUsage();
    const { tree, mistakes } = parseTree(text, OPTIONS);
    assert.deepEqual(mistakes, []);
    assert.ok(tree !== undefined);
    const { list } = tree.value as { readonly list: readonly unknown[] };
    assert.equal(list.length, 20_000);
    // The parser's own look-up took 28 s of an idle machine.
    const { user, system } = process.threadCpuUsage(before);
    assert.ok((user + system) / 1_000 < 10_000);
  });
});
