import assert from "node:assert/strict";
import { describe, it } from "vitest";
import type { Terminal } from "../../../src/cli/framework/terminal.ts";
import type { ProofReport } from "../../../src/cli/prove/judge/proof-report.ts";
import { findBroken, proofText } from "../../../src/cli/prove/proof-text.ts";

const KEPT: ProofReport = {
  ...{ requests: 30, admitted: 20, refused: 10, unanswered: 0, windows: 4 },
  ...{ overLimit: 0, falseRefusals: 0, bannedRefusals: 0, bansIgnored: 0, untrueHeaders: 0 },
  ...{ otherAnswers: 0, shareRefusals: 0, longestWaitMs: 12, examples: ["a: an example"] },
  ...{ gateways: 2, store: "redis", forwarded: 20, doubleForwards: 0 },
  ...{ chargesLost: 0, chargesDoubled: 0, uncertain: 0, historyLost: 0, historyDoubled: 0 },
  killLost: 0,
  ...{ metersOff: 0, lateAnswers: 0, storeAwayMs: 0, gatewaysKilled: 0 },
  ...{ failover: null, failoverLost: 0, away: [] },
};
const PLAIN = { isTty: false, env: {} } as unknown as Terminal;

function toldOf(change: Partial<ProofReport>) {
  const proof = { ...KEPT, ...change };
  const broken = findBroken(proof);
  const lines = proofText(proof, broken, PLAIN).trimEnd().split("\n");
  return { broken, verdict: lines.at(-1), lines };
}

describe("the verdict of a proof", () => {
  it("vouches for the promises where requests were admitted and refused as promised", () => {
    const { broken, verdict, lines } = toldOf({});
    assert.deepEqual([broken, verdict], [[], "Every promise held"]);
    assert.ok(!lines.includes("  a: an example"));
  });

  it("names a single unit that a failover lost", () => {
    const { lines } = toldOf({ failoverLost: 1 });
    assert.ok(lines.includes(`  ok      ${"charges lost".padEnd(36)}  0, and 1 by the failover`));
  });

  it("names the units that a killed gateway had not charged, which break no promise", () => {
    for (const killLost of [1, 2]) {
      const { broken, lines } = toldOf({ killLost });
      const told = `0, and ${killLost} by the gateway that was killed`;
      assert.ok(lines.includes(`  ok      ${"charges lost".padEnd(36)}  ${told}`));
      assert.deepEqual(broken, []);
    }
  });

  it("is the last line of a report that has a line for each promise", () => {
    const counts = { overLimit: 1, falseRefusals: 2, untrueHeaders: 3, doubleForwards: 4 };
    const change: Partial<ProofReport> = {
      ...{ ...counts, forwarded: 19, chargesLost: 5, failoverLost: 6, chargesDoubled: 7 },
      ...{ historyLost: 8, historyDoubled: 9, metersOff: 10, bansIgnored: 11, bannedRefusals: 12 },
      ...{ otherAnswers: 13, unanswered: 14, gateways: 1, store: "memory", storeAwayMs: 2_460 },
      failover: { ok: true, master: "10.0.0.2:6379" } as ProofReport["failover"],
    };
    const all = Object.keys(counts).concat(
      ...["chargesLost", "chargesDoubled", "historyLost", "historyDoubled", "metersOff"],
      ...["bansIgnored", "otherAnswers"],
    );
    assert.equal(
      toldOf(change).lines.join("\n"),
      `1 gateway, store: memory, 30 requests: 20 units admitted, 10 requests refused, 14 without an answer
Meanwhile the store was away for 2.5 s and the store failed over to 10.0.0.2:6379
Not tried: no gateway was killed
  BROKEN  admitted over a limit                 1 in 4 windows
  BROKEN  false refusals                        2 of 10
  BROKEN  headers that were not true            3
  BROKEN  double forwards                       4 of 19
  BROKEN  charges lost                          5, and 6 by the failover
  BROKEN  charges doubled                       7
  BROKEN  units that the history lacks          8
  BROKEN  units too many in the history         9
  BROKEN  units of meters that are off          10
  BROKEN  admitted during a ban                 11, 12 refused
  BROKEN  other answers than are promised       13
  longest wait: 12 ms
  a: an example
Not every promise held: ${all.join(", ")}`,
    );
    const [first, untried, ...lines] = toldOf({ chargesLost: 0 }).lines;
    assert.match(first ?? "", /^2 gateways, store: redis, 30 requests: /);
    assert.equal(untried, "Not tried: the store was not taken away, no gateway was killed");
    assert.equal(lines.filter((line) => line.startsWith("  ok      ")).length, 11);
    assert.ok(lines.includes("  ok      charges lost                          0"));
  });

  it("vouches for nothing where no limit was reached, or nothing was admitted", () => {
    for (const [change, why] of [
      [{ refused: 0 }, "no limit was reached"],
      [{ admitted: 0 }, "no request was admitted"],
      [{ admitted: 0, refused: 0 }, "no request was admitted"],
    ] as const) {
      const { broken, verdict } = toldOf(change);
      assert.deepEqual(broken, ["noLoad"]);
      const hint = "A longer proof sends more requests: --seconds";
      assert.equal(verdict, `Nothing is proven: ${why}. ${hint}`);
    }
  });

  it.for([
    "overLimit",
    "falseRefusals",
    "untrueHeaders",
    "doubleForwards",
    "chargesLost",
    "chargesDoubled",
    "historyLost",
    "historyDoubled",
    "metersOff",
    "bansIgnored",
    "otherAnswers",
  ] as const)("names %s, and the line that shows it", (name) => {
    const { broken, verdict, lines } = toldOf({ [name]: 1 });
    assert.deepEqual([broken, verdict], [[name], `Not every promise held: ${name}`]);
    assert.equal(lines.filter((line) => line.startsWith("  BROKEN  ")).length, 1);
    assert.ok(lines.includes("  a: an example"));
  });

  it("names a broken promise also where no limit was reached", () => {
    const { broken, verdict } = toldOf({ refused: 0, chargesLost: 3 });
    assert.deepEqual(broken, ["chargesLost", "noLoad"]);
    assert.equal(verdict, "Not every promise held: chargesLost, noLoad");
  });

  it("is in bold at a terminal, as is each promise that did not hold", () => {
    const terminal = { isTty: true, env: {} } as unknown as Terminal;
    const text = proofText({ ...KEPT, overLimit: 1 }, ["overLimit"], terminal);
    for (const bold of ["BROKEN", "Not every promise held: overLimit"]) {
      assert.ok(text.includes(`\x1b[1m${bold}\x1b[0m`), bold);
    }
  });

  it("tells what the load went through, and what was not tried", () => {
    const { lines } = toldOf({ storeAwayMs: 1_500, lateAnswers: 3, gatewaysKilled: 1 });
    const done =
      "the store was away for 1.5 s and 3 answers of it came late and a gateway was killed";
    assert.ok(lines.includes(`Meanwhile ${done}`), lines.join("\n"));
    assert.ok(!lines.some((line) => line.startsWith("Not tried")));
    const once = toldOf({ lateAnswers: 1, requests: 1, admitted: 1, refused: 1 });
    const [first = "", second] = once.lines;
    const load = "2 gateways, store: redis, 1 request: 1 unit admitted, 1 request refused";
    assert.ok(first.startsWith(load), first);
    assert.equal(second, "Meanwhile 1 answer of it came late");
    const { lines: calm } = toldOf({ failover: { ok: false, why: "no replica" } });
    const untried = "the store was not taken away, no failover: no replica, no gateway was killed";
    assert.ok(calm.includes(`Not tried: ${untried}`), calm.join("\n"));
  });
});
