import assert from "node:assert/strict";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, it } from "vitest";
import { DamagedFileError } from "../../../../src/stores/files/damaged-file.ts";
import { createMemoryQuotaStore } from "../../../../src/stores/quotas/memory/create-memory-quota-store.ts";
import type { QuotaStore } from "../../../../src/stores/quotas/quota-store.ts";

let directory: string;
let stateFile: string;
const opened: QuotaStore[] = [];
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "tollgate-state-"));
  stateFile = join(directory, "state.json");
});
afterAll(() => rm(directory, { recursive: true, force: true }));
afterEach(closeAll);

async function closeAll(): Promise<void> {
  for (const store of opened.splice(0)) await store.close();
}

async function open(): Promise<QuotaStore> {
  const store = await createMemoryQuotaStore({ stateFile, now: Date.now, report: () => {} });
  opened.push(store);
  return store;
}

async function counted(store: QuotaStore): Promise<number[]> {
  const limits = [{ window: "day", limit: 5 }] as const;
  const accountRef = { environment: "production", account: "a" };
  return (await store.peek(accountRef, { limits, bans: undefined })).windows.map(
    ({ used }) => used,
  );
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
    [inFile(good.replace("minute", "fortnight")), /accounts\[0\]\.fortnight: it is unknown/],
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

describe("A state file with a month beyond the last instant of a calendar", () => {
  for (const startMs of [8_640_000_000_000_001, 9_007_199_254_740_000]) {
    it(`(${startMs}) has that month moved to the present, with its count`, async () => {
      const line = `{"environment":"production","account":"a","month":[${startMs},7,0]}`;
      await writeFile(stateFile, `{"version":1,"accounts":[\n${line}\n]}\n`);
      const store = await open();
      const accountRef = { environment: "production", account: "a" };
      const limits = [{ window: "month", limit: 9 }] as const;
      const answer = await store.charge(accountRef, { limits, bans: undefined, requests: 1 });
      assert.ok("decision" in answer);
      const [usage] = answer.decision.windows;
      assert.deepEqual([answer.decision.repaired, usage?.used], [true, 8]);
      assert.ok((usage?.resetMs ?? 0) > Date.now());
      assert.ok((usage?.resetMs ?? 0) <= Date.now() + 31 * 86_400_000);
      await closeAll();
      await rm(stateFile);
    });
  }
});

describe("A state file with windows of operations", () => {
  it("is read as it was written, a ban by such a window too", async () => {
    const operation = { id: "1z141z3", name: "createPet" };
    const limits = [{ window: "day", limit: 1, part: operation }] as const;
    const bans = {
      ...{ strikes: 1, withinMs: 60_000, graceMs: 0, durationMs: 60_000, factor: 1 },
      ...{ maxMs: 60_000, forgetAfterMs: 60_000 },
    };
    const accountRef = { environment: "production", account: "a" };
    const first = await open();
    for (let i = 0; i < 3; i++) {
      await first.charge(accountRef, { limits, bans, requests: 1 });
      await new Promise((resolve) => setTimeout(resolve, 3));
    }
    const before = await first.peek(accountRef, { limits, bans });
    await closeAll();
    const after = await (await open()).peek(accountRef, { limits, bans });
    assert.deepEqual(after.windows, before.windows);
    assert.deepEqual(after.ban, before.ban);
    assert.equal(after.ban?.operation, "1z141z3");
  });

  it("is refused where the number of one is none", async () => {
    const line = `{"environment":"production","account":"a","A-b.day":[1,1,0]}`;
    await writeFile(stateFile, `{"version":1,"accounts":[\n${line}\n]}\n`);
    await assert.rejects(open(), /accounts\[0\]\.A-b\.day: it is unknown/);
    await rm(stateFile);
  });
});
