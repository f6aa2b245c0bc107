import assert from "node:assert/strict";
import { describe, it, onTestFinished, vi } from "vitest";
import { RecentRefusals } from "../../src/telemetry/history/diagnostics.ts";
import type { AccessLogEntry } from "../../src/telemetry/log/access-log-entry.ts";

let count = 0;

const openRecall = () => new RecentRefusals({ open: () => [], tellStore: async () => {} });

/** Notes a refused request, and gives its id. */
function refuse(
  diagnostics: RecentRefusals,
  account: string | undefined,
  env = "production",
): string {
  const id = `r${count++}`;
  const of = account === undefined ? {} : { account };
  diagnostics.add({ id, env, code: "rate_limited", ...of } as AccessLogEntry);
  return id;
}

describe("what is remembered of refusals", () => {
  it("is the last 10,000 of an account that is alone with them", async () => {
    const diagnostics = openRecall();
    const ids = Array.from({ length: 10_001 }, () => refuse(diagnostics, "a"));
    assert.equal(await diagnostics.refusal(ids[0] as string), undefined);
    for (const i of [1, 5_000, 10_000])
      assert.ok(await diagnostics.refusal(ids[i] as string), `${i}`);
  });

  it("is not pushed out by another account, or by any number of addresses or of requests without either", async () => {
    const diagnostics = openRecall();
    const mine = Array.from({ length: 5 }, () => refuse(diagnostics, "customer"));
    for (let i = 0; i < 25_000; i++) refuse(diagnostics, "attacker");
    for (let i = 0; i < 25_000; i++) refuse(diagnostics, `addr:10.0.${i}`);
    for (let i = 0; i < 25_000; i++) refuse(diagnostics, undefined);
    const latest = refuse(diagnostics, "customer");
    for (const id of [...mine, latest]) assert.ok(await diagnostics.refusal(id), id);
  });

  it("has one place for all addresses, which they share as accounts do", async () => {
    const diagnostics = openRecall();
    const quiet = refuse(diagnostics, "addr:192.0.2.1");
    for (let i = 0; i < 12_000; i++) refuse(diagnostics, "addr:192.0.2.2");
    const accounts = Array.from({ length: 9_000 }, (_, i) => refuse(diagnostics, `a${i % 3}`));
    assert.ok(await diagnostics.refusal(quiet), "the address that asked once");
    for (const id of accounts.slice(-2_000)) assert.ok(await diagnostics.refusal(id), id);
    const kept = [1_499, 1_500].map((i) => diagnostics.refusal(accounts[i] as string));
    const found = (await Promise.all(kept)).map((entry) => entry !== undefined);
    assert.deepEqual(found, [false, true], "three in four of 10,000");
  });

  it("has as much of all addresses as of the account that has the most, and no more", async () => {
    const diagnostics = openRecall();
    const ids = ["addr:192.0.2.1", "a"].map((account) => {
      return Array.from({ length: 5_000 }, () => refuse(diagnostics, account))[0] ?? "";
    });
    const kept = async () => {
      return (await Promise.all(ids.map((id) => diagnostics.refusal(id)))).map((entry) => !!entry);
    };
    refuse(diagnostics, "b");
    assert.deepEqual(await kept(), [true, false], "the account had as much");
    refuse(diagnostics, "b");
    assert.deepEqual(await kept(), [false, false], "now the addresses have more");
  });

  it("counts as refused what the account asked too much or wrongly, and not what failed behind it", async () => {
    const diagnostics = openRecall();
    for (const status of [429, 403, 400, 499, 500, 502, 503]) {
      const line = { id: `s${status}`, env: "production", account: "a", code: "code", status };
      diagnostics.add(line as AccessLogEntry);
      assert.ok(await diagnostics.refusal(line.id), "all of them can be explained");
    }
    assert.deepEqual(await diagnostics.refused(), [
      { account: "a", environment: "production", requests: 4 },
    ]);
  });

  it("counts those of the last 15 minutes, however long the process runs", async () => {
    vi.useFakeTimers({ toFake: ["performance"] });
    onTestFinished(() => void vi.useRealTimers());
    const diagnostics = openRecall();
    const refused = async () => (await diagnostics.refused()).map(({ requests }) => requests);
    vi.advanceTimersByTime(3_600_000);
    const line = { id: "r", env: "production", account: "a", code: "rate_limited", status: 429 };
    diagnostics.add(line as AccessLogEntry);
    assert.deepEqual(await refused(), [1]);
    vi.advanceTimersByTime(15 * 60_000);
    assert.deepEqual(await refused(), []);
  });

  it("is the last 1,000 of those without an account or an environment", async () => {
    const diagnostics = openRecall();
    const ids = Array.from({ length: 1_001 }, () => refuse(diagnostics, undefined));
    const kept = [0, 1, 1_000].map((i) => diagnostics.refusal(ids[i] as string));
    const found = (await Promise.all(kept)).map((entry) => entry !== undefined);
    assert.deepEqual(found, [false, true, true]);
    const line = { id: "elsewhere", account: "a", code: "host_unknown", status: 421 };
    diagnostics.add(line as AccessLogEntry);
    assert.equal((await diagnostics.refusal("elsewhere"))?.status, 421);
    assert.deepEqual(await diagnostics.refused(), [], "they are of no account");
  });

  it("tells accounts of two environments apart", async () => {
    const diagnostics = openRecall();
    const id = refuse(diagnostics, "a", "staging");
    for (let i = 0; i < 25_000; i++) refuse(diagnostics, "a", "production");
    assert.ok(await diagnostics.refusal(id));
  });

  it("has no line of a request that was answered", async () => {
    const diagnostics = openRecall();
    diagnostics.add({ id: "fine", env: "production", account: "a" } as AccessLogEntry);
    assert.equal(await diagnostics.refusal("fine"), undefined);
  });
});
