import assert from "node:assert/strict";
import { appendFile, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "vitest";
import type { DayReport } from "../../../src/stores/queries/read-history.ts";
import { startTestUpstream } from "../../support/gateway/backend.ts";
import { eventually } from "../../support/poll.ts";
import { type Asked, audited, type Line, line, openAudited, type Told } from "../audit-kit.ts";
import { jsonOf, runVerb } from "../kit.ts";

describe("audit", () => {
  it("finds that what was charged is what the store counts, also after a reset", async () => {
    await using house = await openAudited();
    const [one, two] = [await house.issue(), await house.issue({ plan: "pro" })];
    // A minute may end in between, so that its limit is reached only in the next one.
    let asked = 0;
    for (let refused = 0; refused < 10; asked++) {
      const answer = await house.ask(one.key);
      await answer.text();
      if (answer.status === 429) refused += 1;
    }
    await (await house.ask(two.key)).text();
    const path = `/api/accounts/${one.account}/reset`;
    assert.equal((await house.admin(path, { method: "POST", body: "{}" })).status, 200);
    for (let i = 0; i < 3; i++) await (await house.ask(one.key)).text();
    await eventually(() => assert.equal(house.lines.length, asked + 4));
    const { status, told, log } = await audited(house);
    assert.deepEqual([told.drift, told.open], [[], []]);
    const units = house.lines.reduce((sum, { charged }) => sum + charged, 0);
    assert.ok(units <= asked + 4 - 10, `${units} units of ${asked + 4} requests`);
    assert.deepEqual([status, told.accounts, told.charged], [0, 2, units]);
    const text = await runVerb(["audit", "--log", log, "--config", house.file]);
    assert.ok(text.out.startsWith(`${units} units in the logs, from 20`), text.out);
    assert.match(text.out, /^What was charged is what the store counts$/m);
  });

  it("ends with 1, and names account and units, where a line is missing or is there twice", async () => {
    await using house = await openAudited();
    const one = await house.issue();
    for (let i = 0; i < 5; i++) await (await house.ask(one.key)).text();
    await eventually(() => assert.equal(house.lines.length, 5));
    const { status, told, log } = await audited(house, { leaveOut: 2 });
    assert.equal(status, 1);
    const day = told.drift.find(({ window }) => window === "day");
    assert.deepEqual([day?.account, day?.drift], [one.account, 2]);
    await appendFile(log, await readFile(log));
    // A log that is named twice counts once.
    const twice = await runVerb(["audit", "--log", log, log, "--config", house.file]);
    assert.equal(twice.status, 1);
    assert.match(twice.out, new RegExp(`${one.account} +production +day +6 +5 +0 +0 +-1\n`));
  });

  it("says of an account that only the log knows that nothing is known to compare", async () => {
    await using house = await openAudited();
    const one = await house.issue();
    await (await house.ask(one.key)).text();
    await eventually(() => assert.equal(house.lines.length, 1));
    const log = join(house.directory, "gateway.log");
    const lines = [house.lines[0], { ...house.lines[0], account: "a_gone" }];
    await writeFile(log, lines.map((line) => `${JSON.stringify(line)}\n`).join(""));
    const said = await runVerb(["audit", "--log", log, "--config", house.file, "--json"]);
    const { drift, notCompared, accounts, charged } = jsonOf<Told>(said);
    assert.deepEqual([said.status, drift, accounts, charged], [0, [], 2, 2]);
    const [gone] = notCompared.filter(({ account }) => account === "a_gone");
    assert.deepEqual([gone?.window, gone?.charged], ["all periods", 1]);
    assert.match(gone?.why ?? "", /^its counts are not known: Cannot find "a_gone"/);
    const today = new Date(house.lines[0]?.decidedAt ?? 0).toISOString().slice(0, 10);
    const asked = (...period: string[]) => {
      return runVerb(["audit", "--log", log, "--config", house.file, ...period]);
    };
    const ofToday = await asked("--day", today);
    assert.equal(ofToday.status, 1);
    assert.match(ofToday.out, /^a_gone +\d{4}-\d\d-\d\d +its counts are not known: /m);
    const ofAnother = await asked("--month", "2020-01");
    assert.doesNotMatch(ofAnother.out, /a_gone/);
  });

  it("lists what is under way apart from drift", async () => {
    const answered = Promise.withResolvers<void>();
    const backend = await startTestUpstream(async (_seen, response) => {
      await answered.promise;
      response.end("{}");
    });
    await using house = await openAudited({ backend });
    const one = await house.issue();
    const asked = house.ask(one.key);
    await eventually(() => assert.equal(backend.seen.length, 1));
    const { status, told } = await audited(house);
    assert.deepEqual([status, told.drift], [0, []]);
    assert.deepEqual(
      told.open
        .filter(({ window }) => window === "day")
        .map(({ account, open }) => [account, open]),
      [[one.account, 1]],
    );
    answered.resolve();
    await (await asked).text();
  });

  it("compares days that are over with the history, over midnight and the end of a month", async () => {
    const clock = { nowMs: Date.UTC(2026, 9, 30, 23, 59, 59) };
    await using house = await openAudited({
      now: () => clock.nowMs,
      config: { history: "400d", bans: "off", stateFile: "./state.json" },
    });
    const one = await house.issue();
    const other = await house.issue({ plan: "pro" });
    for (const [days, times] of [
      [0, 3],
      [1, 2],
      [2, 4],
    ] as const) {
      clock.nowMs = Date.UTC(2026, 9, 30 + days, 23, 59, 59);
      for (let i = 0; i < times; i++) await (await house.ask(one.key)).text();
      await (await house.ask(other.key)).text();
    }
    clock.nowMs = Date.UTC(2026, 10, 2);
    await (await house.ask(one.key)).text();
    await eventually(() => assert.equal(house.lines.length, 13));
    const asked = ["usage", "--days", "30", "--json", "--config", house.file];
    const rows = jsonOf<DayReport[]>(await runVerb(asked, { nowMs: clock.nowMs }));
    const ofOne = rows.filter(({ account }) => account === one.account);
    assert.deepEqual(
      ofOne.map(({ day, units }) => `${day} ${units}`),
      ["2026-10-30 3", "2026-10-31 2", "2026-11-01 4", "2026-11-02 1"],
    );
    const charged = house.lines.reduce((sum, entry) => sum + entry.charged, 0);
    assert.equal(
      rows.reduce((sum, { units }) => sum + units, 0),
      charged,
    );
    const right = await audited(house, { nowMs: clock.nowMs });
    assert.deepEqual([right.status, right.told.drift], [0, []]);

    const wrong = await audited(house, { nowMs: clock.nowMs, leaveOut: 2 });
    const found = wrong.told.drift.filter(({ window }) => window.startsWith("2026-"));
    assert.deepEqual(
      [wrong.status, found.map(({ account, window, drift }) => [account, window, drift])],
      [1, [[one.account, "2026-10-30", 2]]],
    );
  });

  it("needs a log, and says that it has nothing to compare, or that the gateway does not answer", async () => {
    await using house = await openAudited();
    const without = await runVerb(["audit", "--config", house.file]);
    assert.deepEqual([without.status, without.out], [64, ""]);
    assert.match(without.err, /^Missing --log FILE/);
    const log = join(house.directory, "empty.log");
    const events = house.said.filter(({ msg }) => msg === "serving");
    await writeFile(log, events.map((line) => `${JSON.stringify(line)}\n`).join(""));
    const idle = await runVerb(["audit", "--log", log, "--config", house.file]);
    const why = "no line of the logs charged an account";
    assert.match(
      idle.out,
      new RegExp(`1 not compared\nNot compared:\n.*\nall +all periods +${why}\n`),
    );
    assert.equal(idle.status, 1);
    await house.gateway.stop();
    const away = await runVerb(["audit", "--log", log, "--config", house.file]);
    assert.equal(away.status, 1);
    assert.match(away.err, /admin\.listen/);
  });
});

const MIDNIGHT = Date.UTC(2026, 10, 1);
const DAY_MS = 86_400_000;

/** A gateway whose account asked thrice a day for three days, and an hour into the fourth. */
async function openForDays(config: Readonly<Record<string, unknown>>) {
  const clock = { nowMs: MIDNIGHT };
  const house = await openAudited({
    now: () => clock.nowMs,
    config: { bans: "off", stateFile: "./state.json", ...config },
  });
  const one = await house.issue();
  for (const day of [0, 1, 2]) {
    for (const hour of [0, 12, 23]) {
      clock.nowMs = MIDNIGHT + day * DAY_MS + hour * 3_600_000;
      await (await house.ask(one.key)).text();
    }
  }
  clock.nowMs = MIDNIGHT + 3 * DAY_MS + 3_600_000;
  await (await house.ask(one.key)).text();
  await eventually(() => assert.equal(house.lines.length, 10));
  return { house, one, clock };
}

const SECOND_DAY = ["--day", "2026-11-02"];

/** Each kind of tampering with the lines of the second day, which are 3 to 5. */
const TAMPERED: readonly [what: string, edit: NonNullable<Asked["edit"]>, drift: number][] = [
  ["removed", (lines) => lines.toSpliced(4, 1), 1],
  ["doubled", (lines) => [...lines, line(lines, 4)], -1],
  ["edited up", (lines) => lines.with(4, { ...line(lines, 4), charged: 5 }), -4],
  ["edited down", (lines) => lines.with(4, { ...line(lines, 4), charged: 0 }), 1],
  [
    "moved to the day after",
    (lines) => lines.with(4, { ...line(lines, 4), decidedAt: line(lines, 4).decidedAt + DAY_MS }),
    1,
  ],
  [
    "moved to the day before",
    (lines) => lines.with(4, { ...line(lines, 4), decidedAt: line(lines, 4).decidedAt - DAY_MS }),
    1,
  ],
  ["given to another account", (lines) => lines.with(4, { ...line(lines, 4), account: "x" }), 1],
];

describe("audit of a day that is over", () => {
  it("finds each kind of tampering with its lines, to the unit", async () => {
    const { house, one, clock } = await openForDays({ history: "400d" });
    await using _ = house;
    const { nowMs } = clock;
    for (const args of [[], SECOND_DAY, ["--month", "2026-11"]]) {
      const right = await audited(house, { nowMs, args });
      assert.deepEqual([right.status, right.told.drift], [0, []], args.join(" "));
      assert.ok(right.told.matched > 0);
    }
    for (const [what, edit, drift] of TAMPERED) {
      const wrong = await audited(house, { nowMs, edit, args: SECOND_DAY });
      const found = wrong.told.drift.map((each) => [each.account, each.window, each.drift]);
      assert.deepEqual([wrong.status, found], [1, [[one.account, "2026-11-02", drift]]], what);
    }
  });

  it("without a history is not compared, which ends with 1 only where it was asked for", async () => {
    const { house, clock } = await openForDays({});
    await using _ = house;
    const { nowMs } = clock;
    const asked = await audited(house, { nowMs, args: SECOND_DAY });
    assert.equal(asked.status, 1);
    assert.deepEqual(
      asked.told.notCompared.map(({ window, why }) => [window, why]),
      [["2026-11-02", "there is no history"]],
    );
    const all = await audited(house, { nowMs });
    assert.deepEqual([all.status, all.told.drift], [0, []]);
    assert.ok(all.told.notCompared.some(({ why }) => why === "there is no history"));
  });

  it("is compared with a rotated file of its own, but for units whose lines are in another", async () => {
    const { house, clock } = await openForDays({ history: "400d" });
    await using _ = house;
    const { nowMs } = clock;
    const rotated = (lines: readonly Line[]) => lines.slice(3, 6);
    const own = await audited(house, { nowMs, bare: true, edit: rotated, args: SECOND_DAY });
    assert.deepEqual([own.status, own.told.matched], [0, 1]);
    // The other windows that run began before the file, and go on after it.
    const all = await audited(house, { nowMs, bare: true, edit: rotated });
    assert.deepEqual([all.status, all.told.drift], [0, []]);
    const late = await audited(house, {
      ...{
        nowMs,
        bare: true,
        args: SECOND_DAY,
        edit: (lines: readonly Line[]) => lines.slice(3, 5),
      },
    });
    assert.deepEqual([late.status, late.told.drift], [1, []]);
    assert.match(late.told.notCompared[0]?.why ?? "", /the logs end inside it: their first line/);
  });

  it("is not judged before it closes, 15 minutes after its end, and may match before", async () => {
    const { house, clock } = await openForDays({ history: "400d" });
    await using _ = house;
    const edit = (lines: readonly Line[]) => lines.toSpliced(7, 1);
    const third = ["--day", "2026-11-03"];
    clock.nowMs = MIDNIGHT + 3 * DAY_MS + 15 * 60_000 - 1;
    const { nowMs } = clock;
    const early = await audited(house, { nowMs, edit, args: third });
    assert.deepEqual([early.status, early.told.drift], [1, []]);
    assert.match(early.told.notCompared[0]?.why ?? "", /closes 15 minutes after its end/);
    assert.equal((await audited(house, { nowMs, args: third })).status, 0);
    clock.nowMs += 1;
    const closed = await audited(house, { nowMs: clock.nowMs, edit, args: third });
    assert.deepEqual([closed.status, closed.told.drift.length], [1, 1]);
  });

  it("refuses a period that is none, and two of them, with 64", async () => {
    await using house = await openAudited();
    for (const [args, says] of [
      [
        ["--day", "2026-02-30"],
        /Cannot read --day as a day such as 2026-11-21: the value is "2026-02-30"/,
      ],
      [["--day", "today"], /Cannot read --day/],
      [
        ["--month", "2026-13"],
        /Cannot read --month as a month such as 2026-11: the value is "2026-13"/,
      ],
      [
        ["--day", "2026-11-02", "--month", "2026-11"],
        /--day and --month are two periods: give one of them/,
      ],
    ] as const) {
      const said = await runVerb(["audit", "--log", "x", "--config", house.file, ...args]);
      assert.deepEqual([said.status, said.out], [64, ""]);
      assert.match(said.err, says);
    }
  });
});
