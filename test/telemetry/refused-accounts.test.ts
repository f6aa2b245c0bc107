import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { mostRefused, RefusedAccounts } from "../../src/telemetry/history/refused-accounts.ts";

const MINUTE_MS = 60_000;

function note(counts: RefusedAccounts, account: string, environment: string, nowMs: number): void {
  counts.note(`${environment}:${account}`, account, nowMs);
}

describe("the most refused accounts", () => {
  it("are those of the last 15 minutes, the most refused first, no more than ten", () => {
    const counts = new RefusedAccounts();
    for (let i = 1; i <= 12; i++) {
      for (let n = 0; n < i; n++) note(counts, `a_${i}`, "production", MINUTE_MS + n);
    }
    const list = counts.list(MINUTE_MS);
    assert.deepEqual(
      list.map(({ requests }) => requests),
      [12, 11, 10, 9, 8, 7, 6, 5, 4, 3],
    );
    assert.deepEqual(list[0], { account: "a_12", environment: "production", requests: 12 });
    assert.equal(counts.list(15 * MINUTE_MS + 59_999).length, 10, "the fifteenth minute counts");
    assert.equal(counts.list(16 * MINUTE_MS).length, 0);
  });

  it("sum over minutes, and forget the oldest one by one", () => {
    const counts = new RefusedAccounts();
    for (let minute = 0; minute < 20; minute++) {
      note(counts, "a_1", "production", minute * MINUTE_MS);
    }
    assert.equal(counts.list(19 * MINUTE_MS)[0]?.requests, 15);
    note(counts, "a_1", "staging", 19 * MINUTE_MS);
    assert.equal(counts.list(19 * MINUTE_MS).length, 2, "environments are kept apart");
  });

  it("of several processes are summed by account", () => {
    const one = { account: "addr:2001:db8:0:0::/64", environment: "production", requests: 2 };
    const other = { ...one, account: "a_1", requests: 3 };
    assert.deepEqual(mostRefused([one, other, one]), [{ ...one, requests: 4 }, other]);
  });
});

it("no number of addresses takes the place of an account", () => {
  const refused = new RefusedAccounts();
  for (let i = 0; i < 20_000; i++) note(refused, `addr:10.0.${i}`, "production", 0);
  for (let i = 0; i < 10_001; i++) note(refused, `a${i}`, "production", 0);
  for (let i = 0; i < 3; i++) note(refused, "a9999", "production", 0);
  for (let i = 0; i < 2; i++) note(refused, "addr:10.0.999", "production", 0);
  for (const late of ["a10000", "addr:10.0.1000"]) {
    for (let i = 0; i < 9; i++) note(refused, late, "production", 0);
  }
  const [first, second] = refused.list(0);
  assert.deepEqual([first?.account, first?.requests], ["a9999", 4]);
  assert.deepEqual([second?.account, second?.requests], ["addr:10.0.999", 3]);
});
