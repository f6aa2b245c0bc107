import assert from "node:assert/strict";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, it } from "vitest";
import { DamagedFileError } from "../../../src/stores/files/damaged.ts";
import type { QuotaStore } from "../../../src/stores/interface/quota-store.ts";
import { createMemoryStore } from "../../../src/stores/memory/memory-store.ts";

let directory: string;
let stateFile: string;
const opened: QuotaStore[] = [];
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "tollgate-state-"));
  stateFile = join(directory, "state.json");
});
afterAll(() => rm(directory, { recursive: true, force: true }));
afterEach(async () => {
  for (const store of opened.splice(0)) await store.close();
});

async function open(): Promise<QuotaStore> {
  const store = await createMemoryStore({ stateFile, now: Date.now, report: () => {} });
  opened.push(store);
  return store;
}

async function counted(store: QuotaStore): Promise<number[]> {
  const limits = [{ window: "day", limit: 5 }] as const;
  const name = { environment: "production", account: "a" };
  return (await store.peek(name, { limits, bans: undefined })).windows.map(({ used }) => used);
}

describe("A damaged state file", () => {
  const good = `{"environment":"production","account":"a","minute":[1784118600000,1,0]}`;
  const inFile = (line: string) => `{"version":1,"accounts":[\n${line}\n]}\n`;
  const cases: readonly (readonly [string, RegExp])[] = [
    ["", /:1:1: .*the file is empty/],
    [inFile(good).slice(0, -4), /:2:72: .*ends too soon/],
    [inFile(good).slice(0, 60), /:2:\d+: Cannot read this as JSON/],
    [inFile(`${good},`), /:3:1: .*a value was expected/],
    ["null", /:1:1: Cannot use the file: it must be an object: found null/],
    [
      `{"version":9,"accounts":[]}`,
      /:1:12: Cannot use version: this gateway reads version 1: found 9/,
    ],
    [
      inFile(good.replace(",1,0]", ",-1,0]")),
      /:2:\d+: Cannot use accounts\[0\]\.minute\[1\]: it must be a whole number/,
    ],
    [
      inFile(good.replace(",1,0]", ",1]")),
      /accounts\[0\]\.minute: it must be \[startMs, count, refusedMs\]/,
    ],
    [inFile(good.replace("minute", "week")), /accounts\[0\]\.week: it is unknown/],
    [inFile(good.replace('"a"', '"a b"')), /accounts\[0\]\.account: it must be 1 to 64/],
    [
      inFile(good.replace("}", `,"ban":{"untilMs":1,"lengthMs":1,"window":"x","offences":1}}`)),
      /ban\.window: it must be one of/,
    ],
    [inFile(good.replace("}", `,"strikesMs":["1"]}`)), /strikesMs\[0\]: it must be a whole number/],
  ];
  for (const [text, expected] of cases) {
    it(`is refused and left as it was: ${expected.source}`, async () => {
      await writeFile(stateFile, text);
      const error: unknown = await open().then(
        () => assert.fail("it was accepted"),
        (cause: unknown) => cause,
      );
      assert.ok(error instanceof DamagedFileError, String(error));
      assert.match(error.message, expected);
      assert.ok(error.message.startsWith(stateFile));
      assert.equal(await readFile(stateFile, "utf8"), text);
      await rm(stateFile);
      assert.deepEqual(await counted(await open()), [0]);
    });
  }
});
