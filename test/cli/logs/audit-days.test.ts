import assert from "node:assert/strict";
import { describe, it } from "vitest";
import type { OperationResult } from "../../../src/cli/access/account-operations.ts";
import { readDays } from "../../../src/cli/logs/audit-days.ts";
import { type AskedPeriod, parseAskedPeriod } from "../../../src/cli/logs/audit-periods.ts";
import { Ledger } from "../../../src/cli/logs/ledger.ts";
import { LogSpan } from "../../../src/cli/logs/log-span.ts";
import { DAY_MS, dayOf, formatDay } from "../../../src/core/quota/days.ts";
import type { DayReport } from "../../../src/stores/queries/read-history.ts";
import type { LoggedRequest } from "../../../src/telemetry/log/logged-line.ts";

const TODAY = dayOf(Date.UTC(2026, 9, 21));
const NOW = (TODAY + 0.5) * DAY_MS;
const day = (ago: number) => formatDay(TODAY - ago);

type Case = {
  /** By days ago, the units of the history, and those of the logs. */
  readonly history?: Readonly<Record<number, number>>;
  readonly logged?: Readonly<Record<number, number>>;
  /** By days ago, the units of a meter in lines that charged nothing else. */
  readonly metered?: Readonly<Record<number, number>>;
  readonly account?: string;
  readonly asked?: Parameters<typeof parseAskedPeriod>[0];
  readonly keepsHistory?: boolean;
  /** Days ago of the first and the last line. */
  readonly span?: readonly number[];
  readonly isKnown?: boolean;
  readonly nowMs?: number;
  readonly answer?: Partial<OperationResult<undefined>>;
};

async function read({ history = {}, logged = {}, account = "acme", asked = {}, ...more }: Case) {
  const { keepsHistory = true, span: reach = [40, 0], isKnown = true } = more;
  const { answer = {}, nowMs = NOW } = more;
  const accountRef = { environment: "production", account };
  const counts = isKnown ? [{ ...accountRef, plan: "pro", created: 0, at: NOW, windows: [] }] : [];
  const ledger = new Ledger(counts, []);
  for (const [ago, charged] of Object.entries(logged)) {
    const atMs = (TODAY - Number(ago) + 0.5) * DAY_MS;
    const line = { msg: "request", env: accountRef.environment, account, plan: "pro", charged };
    ledger.request({ ...line, time: atMs, decidedAt: atMs } as unknown as LoggedRequest);
  }
  for (const [ago, hold] of Object.entries(more.metered ?? {})) {
    const atMs = (TODAY - Number(ago) + 0.5) * DAY_MS;
    const line = { msg: "request", env: accountRef.environment, account, charged: 0, time: atMs };
    const meters = { tokens: { hold } };
    ledger.request({ ...line, decidedAt: atMs, meters } as unknown as LoggedRequest);
  }
  const span = new LogSpan();
  for (const ago of reach) span.line((TODAY - ago + 0.5) * DAY_MS);
  const wanted: unknown[] = [];
  const { rows, matched, notCompared, isIdle } = await readDays(
    {
      config: {
        plans: new Map(),
        planBounds: new Map(),
        historyMs: keepsHistory ? 400 * DAY_MS : undefined,
      },
      ...{ ledger, span, nowMs },
      asked: parseAskedPeriod(asked) as AskedPeriod | undefined,
    },
    {
      history: async ({ period }, tell) => {
        wanted.push(period);
        const rows = Object.entries(history).map(([ago, units]) => {
          return { ...accountRef, day: day(Number(ago)), units } as unknown as DayReport;
        });
        tell(rows);
        return { ok: true, value: undefined, ...answer } as OperationResult<undefined>;
      },
    },
  );
  const found = rows.map((row) => [TODAY - row.day, row.counted]);
  return { wanted, found, matched, notCompared, isIdle };
}

const NOTHING = { found: [], matched: 0, notCompared: [], isIdle: false };

describe("the days of an audit", () => {
  it("are those since the logs begin, up to today, and those alone that differ are rows", async () => {
    const history = { 0: 9, 1: 5, 2: 7, 3: 4 };
    const told = await read({ history, logged: { 0: 9, 1: 5, 2: 6 } });
    assert.deepEqual(told, { ...NOTHING, wanted: [{ days: 4 }], found: [[2, 7]], matched: 2 });
  });

  it("are that of the day, or those of the month, that was asked for", async () => {
    const units = { 1: 5, 2: 7, 21: 3 };
    const case1 = { history: units, logged: { 1: 6, 2: 8, 21: 4 } };
    const of = async (asked: Case["asked"] & {}) => {
      const { found, wanted } = await read({ ...case1, asked });
      return [found.map(([ago]) => ago), wanted];
    };
    assert.deepEqual(await of({ day: day(2) }), [[2], [{ days: 4 }]]);
    assert.deepEqual(await of({ month: "2026-10" }), [[1, 2], [{ days: 22 }]]);
    assert.deepEqual(await of({ month: "2026-09" }), [[21], [{ days: 52 }]]);
    assert.deepEqual(await of({ day: day(0) }), [[], []], "it is not over");
    assert.deepEqual(await of({ month: "2026-11" }), [[], []]);
    const far = await read({ asked: { day: formatDay(0) } });
    assert.deepEqual(far.wanted, [{ days: 3_660 }], "no more than a history can have");
  });

  it("that only the logs have are rows of accounts that there are, and of no address", async () => {
    const logged = { 1: 5, 2: 7 };
    const history = { 3: 1 };
    const told = await read({ history, logged: { ...logged, 3: 1 } });
    assert.deepEqual(told.found.toSorted(), [
      [1, 0],
      [2, 0],
    ]);
    const unknown = await read({ history, logged: { ...logged, 3: 1 }, isKnown: false });
    assert.deepEqual([unknown.found, unknown.matched], [[], 1]);
    const address = await read({ history, logged: { ...logged, 3: 1 }, account: "addr:::1" });
    assert.deepEqual(address.found, []);
    const answer = { missing: ["bucket 3"] };
    assert.deepEqual((await read({ history, logged: { ...logged, 3: 1 }, answer })).found, []);
  });

  it("on which a meter alone was charged are compared too", async () => {
    const metered = await read({ history: { 3: 1 }, logged: { 3: 1 }, metered: { 1: 5 } });
    assert.deepEqual(metered.found, [[1, 0]]);
  });

  it("of which the history has none are said not to be compared", async () => {
    const told = await read({ logged: { 1: 6, 2: 7 } });
    const why = "there is no history of them";
    assert.deepEqual(told.notCompared, [{ window: "days that are over", why }]);
    assert.deepEqual(told.found, []);
    const asked = await read({ logged: { 1: 6, 2: 7 }, asked: { day: day(2) } });
    assert.deepEqual(asked.notCompared, [{ window: day(2), why }]);
  });

  it("before the first one of the history are not compared, and said not to be", async () => {
    const told = await read({ history: { 1: 5 }, logged: { 1: 6, 2: 7 } });
    const why = "there is no history of them";
    assert.deepEqual(told.notCompared, [{ window: `days before ${day(1)}`, why }]);
    assert.deepEqual(told.found, [[1, 5]]);
  });

  it("are not compared without a history, nor where it cannot be asked, named as they were asked for", async () => {
    const why = "there is no history";
    for (const [asked, window] of [
      [{}, "days that are over"],
      [{ day: day(2) }, day(2)],
      [{ month: "2026-10" }, "2026-10"],
    ] as const) {
      const told = await read({ asked, logged: { 2: 1 }, keepsHistory: false });
      assert.deepEqual(told, { ...NOTHING, wanted: [], notCompared: [{ window, why }] });
    }
    const answer = { ok: false, message: "away" } as const;
    const told = await read({ logged: { 2: 1 }, answer });
    assert.deepEqual(told.notCompared, [{ window: "days that are over", why: "away" }]);
  });

  it("on which nothing was used are idle where the logs hold all of them, which only one day that was asked for can be", async () => {
    const idle = await read({ asked: { day: day(2) } });
    assert.deepEqual([idle.isIdle, idle.notCompared], [true, []]);
    const month = await read({ asked: { month: "2026-10" } });
    assert.deepEqual([month.isIdle, month.notCompared], [false, []], "it is not over");
    assert.equal((await read({ asked: { day: day(2) }, history: { 2: 1 } })).isIdle, false);
    const matched = { history: { 2: 1 }, logged: { 2: 1 } };
    assert.equal((await read({ asked: { day: day(2) }, ...matched })).isIdle, false);
    const short = await read({ asked: { day: day(2) }, span: [2, 0] });
    const [gap] = short.notCompared as { window: string; why: string }[];
    assert.equal(short.isIdle, false);
    assert.equal(gap?.window, day(2));
    assert.match(gap?.why ?? "", /^the logs begin inside it/);
    const endsAgo = async (ago: number) => {
      const told = await read({ asked: { day: day(2) }, span: [40, ago] });
      return [told.isIdle, told.notCompared.length];
    };
    assert.deepEqual(await endsAgo(1.5), [true, 0], "the logs end with the day");
    assert.deepEqual(await endsAgo(1.5 + 30_000 / DAY_MS), [false, 1], "half a minute sooner");
    const lastDayMs = Date.UTC(2026, 9, 31, 12);
    const running = { asked: { month: "2026-10" }, span: [40, -12], nowMs: lastDayMs };
    assert.equal((await read(running)).isIdle, false, "its last day is not over");
  });
});
