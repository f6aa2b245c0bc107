import assert from "node:assert/strict";
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, it } from "vitest";
import { dayOf, formatDay } from "../../../../src/core/quota/days.ts";
import { createMemoryQuotaStore } from "../../../../src/stores/quotas/memory/create-memory-quota-store.ts";
import type { QuotaStore } from "../../../../src/stores/quotas/quota-store.ts";

const DAY_MS = 86_400_000;
const OCTOBER_30 = Date.UTC(2026, 9, 30);
const TODAY = dayOf(OCTOBER_30);
const accountRef = { environment: "production", account: "a" };
const quotaRequest = {
  limits: [{ window: "day", limit: 100 } as const],
  bans: undefined,
  requests: 1,
};

let folder = "";
let nowMs = OCTOBER_30;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "tollgate-days-"));
  nowMs = OCTOBER_30;
});
afterEach(() => rm(folder, { recursive: true }));

/** Writes only at its end. */
function open(historyMs: number | "off" = 400 * DAY_MS) {
  const stateFile = join(folder, "state.json");
  const kept = historyMs === "off" ? {} : { historyMs };
  const common = { now: () => nowMs, report: () => {}, everyMs: 3_600_000 };
  return createMemoryQuotaStore({ stateFile, ...common, ...kept });
}

async function rows(store: QuotaStore): Promise<(readonly [string, number])[]> {
  const [days = []] = await store.history([accountRef], { from: TODAY - 500, to: TODAY + 10 });
  return days.map(({ day, units }) => [formatDay(day), units]);
}

const files = () => readdir(join(folder, "state.history")).then((names) => names.sort());

describe("days of the memory store", () => {
  it("are there after a restart, the running one going on, each in a file of its own", async () => {
    const store = await open();
    await store.charge(accountRef, quotaRequest);
    nowMs += DAY_MS;
    await store.charge(accountRef, quotaRequest);
    await store.charge({ ...accountRef, account: "b" }, { ...quotaRequest, cost: 7 });
    await store.close();
    assert.deepEqual(await files(), ["2026-10-30.jsonl", "2026-10-31.jsonl"]);
    assert.equal(
      await readFile(join(folder, "state.history", "2026-10-31.jsonl"), "utf8"),
      `
{"environment":"production","account":"a","admitted":1,"units":1,"refused":0}
{"environment":"production","account":"b","admitted":1,"units":7,"refused":0}

`,
    );
    const again = await open();
    await again.charge(accountRef, quotaRequest);
    assert.deepEqual(await rows(again), [
      ["2026-10-30", 1],
      ["2026-10-31", 2],
    ]);
    await again.close();
    const last = await open();
    assert.deepEqual(await rows(last), [
      ["2026-10-30", 1],
      ["2026-10-31", 2],
    ]);
    await last.close();
  });

  it("go on on the day that was reached when the clock goes back over midnight", async () => {
    const store = await open();
    nowMs = OCTOBER_30 + DAY_MS;
    await store.charge(accountRef, quotaRequest);
    nowMs -= 1;
    await store.charge(accountRef, quotaRequest);
    assert.deepEqual(await rows(store), [["2026-10-31", 2]]);
    await store.close();
  });

  it("are removed once they were kept for the time of the history, and no sooner", async () => {
    for (const daysLater of [0, 1, 2, 3]) {
      nowMs = OCTOBER_30 + daysLater * DAY_MS;
      const store = await open(2 * DAY_MS);
      await store.charge(accountRef, quotaRequest);
      await store.close();
    }
    assert.deepEqual(await files(), ["2026-10-31.jsonl", "2026-11-01.jsonl", "2026-11-02.jsonl"]);
    nowMs += 100 * DAY_MS;
    const off = await open("off");
    await off.charge(accountRef, quotaRequest);
    await off.close();
    assert.equal((await files()).length, 3, "off removes nothing, and writes nothing");
  });

  it("stay whole and stop the start where their file is damaged, naming the line", async () => {
    const store = await open();
    await store.charge(accountRef, quotaRequest);
    await store.close();
    const file = join(folder, "state.history", "2026-10-30.jsonl");
    const damage = `${await readFile(file, "utf8")}{"environment":"production"}\n`;
    await writeFile(file, damage);
    await assert.rejects(open(), new RegExp(`${file}:4 is damaged`));
    assert.equal(await readFile(file, "utf8"), damage);
    nowMs += DAY_MS;
    const next = await open();
    await assert.rejects(rows(next), /2026-10-30\.jsonl:4 is damaged/);
    await next.close();
  });

  it("stop the start where lines of their file are lost, and are no shorter bill", async () => {
    const store = await open();
    for (const account of ["a", "b", "c"]) {
      await store.charge({ ...accountRef, account }, quotaRequest);
    }
    await store.close();
    const file = join(folder, "state.history", "2026-10-30.jsonl");
    const whole = await readFile(file, "utf8");
    const [, row] = whole.split("\n");
    for (const [cut, why] of [
      [`\n${row}\n`, "was cut: it ends without an empty line"],
      [whole.slice(0, -1), "was cut: it ends without an empty line"],
      ["\n", "was cut: it is empty"],
      ["", "was cut: it is empty"],
    ] as const) {
      await writeFile(file, cut);
      await assert.rejects(open(), (error: Error) => {
        return error.message.startsWith(`Cannot read the history: ${file} ${why}. Restore `);
      });
      assert.equal(await readFile(file, "utf8"), cut, "nothing is written over it");
      nowMs += DAY_MS;
      const next = await open();
      await assert.rejects(rows(next), new RegExp(why));
      await next.close();
      nowMs -= DAY_MS;
    }
    await writeFile(file, `\n${row}\n\n`);
    const repaired = await open();
    assert.deepEqual(await rows(repaired), [["2026-10-30", 1]]);
    await repaired.close();
  });

  it("stop the start where their file cannot be read, and keep it", async () => {
    const file = join(folder, "state.history", "2026-10-30.jsonl");
    await mkdir(file, { recursive: true });
    await assert.rejects(open(), (error: Error) => {
      return error.message.startsWith(`Cannot read the history ${file}: `);
    });
    assert.deepEqual(await files(), ["2026-10-30.jsonl"]);
  });

  it("take no line whose names or counts are none", async () => {
    const file = join(folder, "state.history", "2026-10-30.jsonl");
    await mkdir(join(folder, "state.history"));
    const good = { environment: "production", account: "a", admitted: 1, units: 2, refused: 0 };
    const texts = ["{", "null", "7", JSON.stringify({ ...good, admitted: undefined })];
    for (const wrong of [{ units: -1 }, { refused: 0.5 }, { admitted: "1" }, { account: 7 }]) {
      texts.push(JSON.stringify({ ...good, ...wrong }));
    }
    for (const text of [...texts, JSON.stringify({ ...good, environment: undefined })]) {
      await writeFile(file, `${JSON.stringify(good)}\n${text}\n`);
      await assert.rejects(open(), /2026-10-30\.jsonl:2 is damaged/, text);
    }
    // Versions before wrote no empty lines.
    for (const end of ["\n", "\n\n"]) {
      await writeFile(file, `${JSON.stringify(good)}${end}`);
      const store = await open();
      assert.deepEqual(await rows(store), [["2026-10-30", 2]]);
      await store.close();
    }
  });
});
