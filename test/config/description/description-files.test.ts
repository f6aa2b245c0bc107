import assert from "node:assert/strict";
import { it } from "vitest";
import { readDescription } from "../../../src/config/description/openapi.ts";

const AROUND = { file: "api.yaml", basePath: "/v1" };
const noFile = async () => ({ ok: false, line: 1, why: "there is no such file" }) as const;

it("a description has 500,000 values in a file at most, those of aliases included", async () => {
  const thousand = `x-many: &many [${"0,".repeat(1_000)}]\n`;
  for (const [times, isTooMany] of [
    [497, false],
    [498, true],
  ] as const) {
    const text = `openapi: 3.1.0\n${thousand}x-more: [${"*many,".repeat(times)}]\npaths: {}\n`;
    const { mistakes } = await readDescription(text, { ...AROUND, readFile: noFile });
    assert.equal(mistakes.length > 0, isTooMany);
  }
});

it("a description may say that it is YAML 1.1, as other tools write it", async () => {
  const text = "%YAML 1.1\n---\nopenapi: 3.1.0\npaths: { /a: { get: { deprecated: yes } } }\n";
  const { mistakes, operations } = await readDescription(text, { ...AROUND, readFile: noFile });
  assert.deepEqual(mistakes, []);
  assert.equal(operations[0]?.lifecycle.deprecated, true);
});

it("a description may have a file of its folder whose name begins with two points", async () => {
  const text = 'openapi: 3.1.0\npaths: { /a: { $ref: "..a.yaml" } }\n';
  const readFile = async () => ({ ok: true, text: "get: {}\n" }) as const;
  assert.deepEqual((await readDescription(text, { ...AROUND, readFile })).mistakes, []);
});

it("a description has its references inside its folder: no URL, absolute path or escape is asked for", async () => {
  const asked: string[] = [];
  const readFile = async (path: string) => {
    asked.push(path);
    return { ok: true, text: "get: {}\n" } as const;
  };
  const told = async (file: string, reference: string) => {
    const paths = { "/a": { $ref: reference } };
    const text = JSON.stringify({ openapi: "3.1.0", paths });
    const read = await readDescription(text, { file, basePath: "/v1", readFile });
    return read.mistakes[0]?.message ?? "";
  };
  for (const name of ["/a.yaml", "a\\b.yaml", "a%20b.yaml", "a\0.yaml", "file:a", "https://a/b"]) {
    assert.match(await told("api.yaml", name), /\$ref as a reference inside this folder/, name);
  }
  assert.match(await told("api/api.yaml", "../a.yaml"), /it leads out of the folder of the desc/);
  assert.deepEqual(asked, []);
  assert.equal(await told("../other/api.yaml", "sub/../a.yaml"), "");
  assert.deepEqual(asked, ["../other/a.yaml"]);
});
