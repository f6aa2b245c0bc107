import assert from "node:assert/strict";
import { it } from "vitest";
import { luaMutants } from "./lua-mutants.ts";

const shown = (source: string, isLua = true) =>
  luaMutants(source, isLua).map(({ line, before, after }) => `${line}: ${before} -> ${after}`);

it("changes comparisons, arithmetic, numbers, logic and truth, one place at a time", () => {
  assert.deepEqual(shown("if a <= 1 and not b then c = -d + 5000 end").sort(), [
    "1: + -> -",
    "1: - -> ",
    "1: 1 -> 2",
    "1: 5000 -> 10000",
    "1: <= -> <",
    "1: <= -> >",
    "1: and -> or",
    "1: c = -d + 5000 -> ",
    "1: not -> ",
  ]);
  const [first] = luaMutants("return a == b", true);
  assert.equal(first?.text, "return a ~= b");
});

it("leaves comments, strings and declarations as they are", () => {
  assert.deepEqual(shown("-- a < 1\nlocal x = 'y < 2'\nreturn x"), []);
});

it("drops statements that stand by themselves, and no part of one", () => {
  assert.deepEqual(shown("  call('DEL', key)\nset[a], set[b] = f(a,\n  b)\nbreak"), [
    "1: call('DEL', key) -> ",
    "4: break -> ",
  ]);
});

it("finds the scripts in TypeScript, and changes nothing beside them or put into them", () => {
  const put = ["$", "{b + 1}"].join("");
  for (const define of ["defineScript", "defineTaggedScript"]) {
    const source = `const a = 1 < 2;\nconst s = ${define}(\`\nreturn redis.call('GET', '${put}') == 7\`);\n`;
    assert.deepEqual(shown(source, false), ["3: == -> ~=", "3: 7 -> 8"]);
  }
});
