import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { describe, it } from "vitest";
import { compareCharges } from "../../../../src/cli/prove/judge/charge-comparison.ts";

type Told = {
  readonly used: number;
  /** Units by day. With `reset`, all but the last are of days that are over. */
  readonly days: readonly number[];
  /** The end of the running day, in Unix seconds. */
  readonly reset?: number;
  readonly status?: number;
  /** The status of the history. */
  readonly historyStatus?: number;
  /** The history, if it is none. */
  readonly answer?: unknown;
};

/**
 * The comparison of an account of which 10 units were admitted and 2 never answered, with an admin
 * listener that tells so much of it, each time the next.
 */
async function compareWith(
  answers: readonly Told[],
  waitMs: number,
  { uncertain = 0, killLost = 0, accounts = ["a_1"] } = {},
) {
  let asked = 0;
  const admin = createServer(({ url = "" }, response) => {
    const isHistory = url === "/api/history?days=3&limit=10000";
    if (!isHistory && url !== "/api/usage/a_1") return void response.writeHead(404).end();
    const {
      used,
      days,
      status = 200,
      historyStatus = 200,
      answer,
      reset = 0,
    } = answers[Math.min(asked, answers.length - 1)] as Told;
    if (!isHistory) asked += 1;
    const windows = [{ window: "minute", used: 99, reset }].concat({ window: "day", used, reset });
    const history = days.map((units, i) => {
      const fromS = reset - (days.length - i) * 86_400;
      const day = new Date(fromS * 1_000).toISOString().slice(0, 10);
      return { account: "a_1", units, ...(reset === 0 ? {} : { day }) };
    });
    response.statusCode = isHistory ? historyStatus : status;
    response.end(JSON.stringify(isHistory ? (answer ?? history) : { windows }));
  });
  await once(admin.listen(0, "127.0.0.1"), "listening");
  try {
    return await compareCharges({
      adminUrl: `http://127.0.0.1:${(admin.address() as AddressInfo).port}`,
      accounts,
      checker: { admittedOf: () => 10, unansweredOf: () => 2 },
      uncertain: () => uncertain,
      killLostOf: (account) => (account === "a_1" ? killLost : Number.NaN),
      waitMs,
    });
  } finally {
    admin.close();
  }
}

const NONE = {
  ...{ chargesLost: 0, chargesDoubled: 0, historyLost: 0, historyDoubled: 0, uncertain: 0 },
  killLost: 0,
};

describe("what was admitted, compared with what is counted", () => {
  it("is all there between the units admitted and those besides that were never answered", async () => {
    for (const used of [10, 12]) {
      assert.deepEqual(await compareWith([{ used, days: [3, used - 3] }], 0), NONE);
    }
  });

  it("is lost below and doubled above, in the count and in the history", async () => {
    const fewer = await compareWith([{ used: 9, days: [1, 5] }], 0);
    assert.deepEqual(fewer, { ...NONE, chargesLost: 1, historyLost: 4 });
    const more = await compareWith([{ used: 15, days: [16] }], 0, { uncertain: 1 });
    assert.deepEqual(more, { ...NONE, chargesDoubled: 2, historyDoubled: 3, uncertain: 1 });
  });

  it("has the days before the running one too, as the count of the day begins again at midnight", async () => {
    const reset = Date.UTC(2026, 10, 27) / 1_000;
    const over = (used: number, days: readonly number[]) => {
      return compareWith([{ used, days, reset }], 0);
    };
    assert.deepEqual(await over(1, [9, 1]), NONE);
    assert.deepEqual(await over(0, [4, 6, 0]), NONE);
    assert.deepEqual(await over(1, [8, 1]), { ...NONE, chargesLost: 1, historyLost: 1 });
    assert.deepEqual(await over(3, [10, 3]), { ...NONE, chargesDoubled: 1, historyDoubled: 1 });
  });

  it("may lack what a killed gateway had not charged, which is told, and no unit more", async () => {
    const ofKilled = (used: number, kept: number) => {
      return compareWith([{ used, days: [kept] }], 0, { killLost: 3 });
    };
    assert.deepEqual(await ofKilled(10, 10), NONE);
    assert.deepEqual(await ofKilled(7, 7), { ...NONE, killLost: 3 });
    assert.deepEqual(await ofKilled(10, 8), { ...NONE, killLost: 2 });
    assert.deepEqual(await ofKilled(8, 10), { ...NONE, killLost: 2 });
    const more = await ofKilled(6, 5);
    assert.deepEqual(more, { ...NONE, killLost: 3, chargesLost: 1, historyLost: 2 });
    const doubled = await ofKilled(13, 14);
    assert.deepEqual(doubled, { ...NONE, chargesDoubled: 1, historyDoubled: 2 });
  });

  it("is compared again while charges may still arrive", async () => {
    // Each in the count alone, in the history alone, and in both.
    for (const first of [
      ...[
        { used: 8, days: [8] },
        { used: 8, days: [10] },
        { used: 10, days: [8] },
      ],
      // Late answers are taken back.
      ...[
        { used: 13, days: [13] },
        { used: 13, days: [12] },
        { used: 12, days: [13] },
        // As much is missing in one as the other has too much.
        { used: 8, days: [14] },
      ],
    ]) {
      const answers = [first, { used: 11, days: [11] }];
      const startMs = performance.now();
      assert.deepEqual(await compareWith(answers, 60_000), NONE, JSON.stringify(first));
      assert.ok(performance.now() - startMs > 90, "it pauses before it asks again");
    }
  });

  it("is waited for no longer where what is too many was told as uncertain", async () => {
    const found = await compareWith([{ used: 13, days: [13] }], 600_000, { uncertain: 1 });
    assert.deepEqual(found, { ...NONE, uncertain: 1 });
  });

  it("is added up over the accounts", async () => {
    const accounts = ["a_1", "a_1"];
    const fewer = await compareWith([{ used: 9, days: [6] }], 0, { accounts });
    assert.deepEqual(fewer, { ...NONE, chargesLost: 2, historyLost: 8 });
    const more = await compareWith([{ used: 13, days: [14] }], 0, { accounts });
    assert.deepEqual(more, { ...NONE, chargesDoubled: 2, historyDoubled: 4 });
  });

  it("is not in a history that is off, and was told as uncertain only as far as it is doubled", async () => {
    const off = await compareWith([{ used: 12, days: [], historyStatus: 409 }], 0, {
      uncertain: 5,
    });
    assert.deepEqual(off, { ...NONE, historyLost: 10 });
  });

  it("is not known where what to compare cannot be read, which says what, why, and the way out", async () => {
    const cannot = "Cannot compare the charges: cannot read";
    await assert.rejects(compareWith([{ used: 10, days: [10], status: 500 }], 0), {
      message: `${cannot} the usage of a_1: 500`,
    });
    const answer = { message: "The rate limit store is unavailable: ECONNREFUSED" };
    await assert.rejects(compareWith([{ used: 10, days: [], historyStatus: 503, answer }], 0), {
      message: `${cannot} the usage by day: ${answer.message}. Start the store again, and then the proof`,
    });
  });
});
