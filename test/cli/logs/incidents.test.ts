import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { Incidents } from "../../../src/cli/logs/incidents.ts";
import { accountId, bucketOf } from "../../../src/stores/quotas/account-ref.ts";

const NOON = Date.UTC(2026, 10, 2, 12);
const HOUR_MS = 3_600_000;
const HOUR = { fromMs: NOON, toMs: NOON + HOUR_MS };
const ACME = { environment: "production", account: "acme" };

describe("incidents in logs", () => {
  it("name uncertain units by account and instant, whatever else the line has", () => {
    const incidents = new Incidents();
    const line = { msg: "charges_uncertain", time: NOON + 1 };
    incidents.event({ ...line, accounts: "production:acme 3, production:addr:::1 2, x, y z" });
    incidents.event({ ...line, accounts: `production:acme ${10 ** 15}` });
    incidents.event({ ...line, accounts: `staging:many ${10 ** 15 - 1}` });
    incidents.event({ ...line, accounts: 7 });
    incidents.event({ ...line, time: NOON - HOUR_MS, accounts: "production:acme 5" });
    assert.equal(incidents.uncertainOf(ACME, HOUR), 3);
    assert.equal(incidents.uncertainOf({ ...ACME, account: "addr:::1" }, HOUR), 2);
    assert.equal(incidents.uncertainOf({ ...ACME, environment: "staging" }, HOUR), 0);
    const many = { environment: "staging", account: "many" };
    assert.equal(incidents.uncertainOf(many, HOUR), 10 ** 15 - 1);
  });

  it("add up what one line names twice, of an account and of its meter", () => {
    const incidents = new Incidents();
    const accounts = "production:acme 1, production:acme#tokens 50, production:other 2";
    const twice = `${accounts}, ${accounts}`;
    incidents.event({ msg: "charges_uncertain", time: NOON, accounts: twice });
    incidents.event({ msg: "charges_lost", time: NOON, units: 6, accounts: twice });
    for (const kind of ["uncertainOf", "lostOf"] as const) {
      const units = (account: string) => incidents[kind]({ ...ACME, account }, HOUR);
      assert.deepEqual(["acme", "acme#tokens", "other"].map(units), [2, 100, 4], kind);
    }
  });

  it("are of a period from ten seconds before it until ten after it, as clocks differ", () => {
    const at = (ms: number) => {
      const incidents = new Incidents();
      const accounts = "production:acme 3";
      incidents.event({ msg: "charges_uncertain", time: NOON + ms, accounts });
      return incidents.uncertainOf(ACME, HOUR);
    };
    assert.deepEqual([-10_001, -10_000].map(at), [0, 3]);
    assert.deepEqual([HOUR_MS + 9_999, HOUR_MS + 10_000].map(at), [3, 0]);
  });

  it("add up lost units that are whole numbers", () => {
    const incidents = new Incidents();
    for (const units of [3, 4, "5", 0.5, undefined]) {
      incidents.event({ msg: "charges_lost", time: NOON, units });
    }
    assert.equal(incidents.lostOf(ACME, HOUR), 7);
  });

  it("are lost units of the accounts that a line names, and of all where it names none", () => {
    const incidents = new Incidents();
    const accounts = "production:acme 3, production:other 4, production:acme#tokens 50";
    incidents.event({ msg: "charges_lost", time: NOON, units: 7, accounts });
    const of = (account: string) => incidents.lostOf({ ...ACME, account }, HOUR);
    assert.deepEqual(["acme", "other", "third", "acme#tokens"].map(of), [3, 4, 0, 50]);
    incidents.event({ msg: "charges_lost", time: NOON, units: 2 });
    assert.deepEqual(["acme", "third"].map(of), [5, 2]);
  });

  it("are lost units of each period since the store went away, where they are named or those of a worker", () => {
    const lostIn = (named: boolean, awayMs: number, lostMs: number, more: object = {}) => {
      const incidents = new Incidents();
      const away = { msg: "event", kind: "store_away", gateway: "a", time: NOON + awayMs };
      const accounts = named ? { accounts: "production:acme 3" } : {};
      incidents.event(away);
      incidents.event({ msg: "charges_lost", time: NOON + lostMs, units: 3, ...accounts, ...more });
      return incidents.lostOf(ACME, HOUR);
    };
    assert.equal(lostIn(true, HOUR_MS - 1, 2 * HOUR_MS), 3);
    assert.equal(lostIn(false, HOUR_MS - 1, 2 * HOUR_MS), 0);
    assert.equal(lostIn(false, HOUR_MS - 1, 2 * HOUR_MS, { worker: 2 }), 3);
    assert.equal(lostIn(false, HOUR_MS + 10_000, 2 * HOUR_MS, { worker: 2 }), 0);
    assert.deepEqual(
      [lostIn(true, HOUR_MS + 9_999, 2 * HOUR_MS), lostIn(true, HOUR_MS + 10_000, 2 * HOUR_MS)],
      [3, 0],
    );
    assert.deepEqual([lostIn(true, -HOUR_MS, -10_000), lostIn(true, -HOUR_MS, -10_001)], [3, 0]);
  });

  it("are lost units of each period since the state file could not be written, until it was or its process stopped", () => {
    const lostIn = (end: string) => {
      const [msg = "", gateway] = end.split(" ");
      const incidents = new Incidents();
      const lost = { units: 3, accounts: "production:acme 3", gateway: "a" };
      const unwritten = { msg: "event", kind: "state_file_unwritten", gateway: "a" };
      const lines = [unwritten, { msg, gateway }, { msg: "charges_lost", ...lost }];
      for (const [i, line] of lines.entries()) {
        incidents.event({ ...line, time: NOON + i * HOUR_MS });
      }
      return incidents.lostOf(ACME, HOUR);
    };
    const ends = ["draining a", "state_file_written a", "stopped a", "stopped b"];
    assert.deepEqual(ends.map(lostIn), [3, 0, 0, 3]);
    const incidents = new Incidents();
    for (const [msg, hours] of [
      ["state_file_unwritten", 0],
      ["state_file_unwritten", 2],
      ["charges_lost", 3],
    ] as const) {
      const time = NOON + hours * HOUR_MS;
      incidents.event({ msg, time, gateway: "a", units: 3, accounts: "production:acme 3" });
    }
    assert.equal(incidents.lostOf(ACME, HOUR), 3, "since the first of two lines");
  });

  it("take the latest process for the one that runs, in whatever order the logs come", () => {
    const incidents = new Incidents();
    for (const ms of [60_000, 0]) incidents.event({ msg: "serving", time: NOON + ms });
    assert.equal(incidents.processes.killedIn(HOUR, 1), NOON);
  });

  it("end a process that was killed with its own last line, and not with the start of the next one", () => {
    const incidents = new Incidents();
    const event = (msg: string, ms: number) => incidents.event({ msg, time: NOON + ms });
    event("serving", 0);
    event("keys", 1_000);
    for (const msg of ["serving", "keys"]) event(msg, 3 * HOUR_MS);
    event("serving", 4 * HOUR_MS);
    event("stopped", 5 * HOUR_MS);
    event("store_slow", Number.NaN);
    assert.equal(incidents.processes.killedIn(HOUR, 1), NOON + 1_000);
    const later = { fromMs: NOON + 2 * HOUR_MS, toMs: NOON + 6 * HOUR_MS };
    assert.equal(incidents.processes.killedIn(later, 1), undefined);
    assert.equal(
      incidents.processes.killedIn(later, 0),
      NOON + 3 * HOUR_MS,
      "the later one was killed too",
    );
    const both = { fromMs: NOON, toMs: NOON + 6 * HOUR_MS };
    assert.deepEqual(
      [0, 1, 2, 3].map((alive) => incidents.processes.killedIn(both, alive)),
      [...[NOON + 1_000, NOON + 1_000], ...[undefined, undefined]],
      "the first of them, and none where more run than the logs are of",
    );
  });

  it("end a killed process before the start of the next one, which has lines before it serves", () => {
    const incidents = new Incidents();
    const event = (msg: string, ms: number) => incidents.event({ msg, time: NOON + ms });
    event("serving", 0);
    event("keys", 1_000);
    const start = ["config_warning", "worker_serves", "connections_limited", "serving"];
    for (const msg of start) event(msg, 3 * HOUR_MS);
    assert.equal(incidents.processes.killedIn(HOUR, 1), NOON + 1_000);
  });

  it("have the configuration of the later line where two came at one instant, but no earlier one", () => {
    const incidents = new Incidents();
    const taken = (hash: string, ms: number) => {
      incidents.event({ msg: "event", kind: "config_reloaded", hash, time: NOON + ms });
      return incidents.configs.lastIn(HOUR)?.name;
    };
    assert.deepEqual([taken("a", 1), taken("b", 1), taken("c", 0)], ["a", "b", "b"]);
  });

  it("find a worker that ended, and none that was replaced and drains", () => {
    const incidents = new Incidents();
    const lost = { msg: "worker_lost", time: NOON + 5_000 };
    incidents.event({ ...lost, why: "it did not take the new configuration" });
    assert.equal(incidents.processes.workerLostIn(HOUR), undefined);
    incidents.event({ ...lost, why: "it ended with SIGKILL" });
    incidents.event({ ...lost, time: NOON + 6_000, why: "it ended with SIGKILL" });
    assert.equal(incidents.processes.workerLostIn(HOUR), NOON + 5_000, "the first of them");
    const from = (fromMs: number) => ({ fromMs: NOON + fromMs, toMs: NOON + 2 * HOUR_MS });
    assert.equal(incidents.processes.workerLostIn(from(70_000)), NOON + 5_000, "no line says less");
    assert.equal(incidents.processes.workerLostIn(from(70_001)), NOON + 6_000);
    assert.equal(incidents.processes.workerLostIn(from(71_001)), undefined);
    // When it began to serve is not in these logs.
    const until = (toMs: number) => ({ fromMs: NOON - HOUR_MS, toMs: NOON + toMs });
    assert.equal(
      incidents.processes.workerLostIn(until(-69_999)),
      NOON + 5_000,
      "a minute and the clocks",
    );
    assert.equal(incidents.processes.workerLostIn(until(-70_000)), undefined);
  });

  it("keep each change of an account, in whatever order the logs come", () => {
    const incidents = new Incidents();
    const change = { msg: "event", kind: "account_changed", env: "production", account: "acme" };
    for (const ms of [1, 3 * HOUR_MS]) incidents.event({ ...change, time: NOON + ms });
    const later = { fromMs: NOON + HOUR_MS, toMs: NOON + 2 * HOUR_MS };
    assert.deepEqual(
      [HOUR, later].map((period) => incidents.mayHaveBegun("day", accountId(ACME), period)),
      [true, false],
    );
  });

  it("find a process without a last line, unless it still runs", () => {
    const incidents = new Incidents();
    incidents.event({ msg: "serving", time: NOON });
    // The lines of several files come in any order.
    for (const ms of [5_000, 1_000]) incidents.line(NOON + ms);
    assert.equal(incidents.processes.killedIn(HOUR, 1), undefined, "it is the one that runs");
    assert.equal(incidents.processes.killedIn(HOUR, 0), NOON + 5_000);
    const until = (ms: number) => ({ fromMs: NOON - HOUR_MS, toMs: NOON + ms });
    assert.equal(
      incidents.processes.killedIn(until(-10_000), 0),
      undefined,
      "it did not serve yet",
    );
    assert.equal(
      incidents.processes.killedIn(until(-9_999), 0),
      NOON + 5_000,
      "clocks differ by that much",
    );
    const behind = (ms: number) => ({ fromMs: NOON + 5_000 + ms, toMs: NOON + 2 * HOUR_MS });
    assert.equal(
      incidents.processes.killedIn(behind(65_000), 0),
      NOON + 5_000,
      "no line says less",
    );
    assert.equal(incidents.processes.killedIn(behind(65_001), 0), undefined);
    incidents.event({ msg: "serving", time: NOON + 60_000 });
    assert.equal(incidents.processes.killedIn(HOUR, 1), NOON + 5_000, "the later one runs");
    assert.equal(
      incidents.processes.killedIn({ fromMs: NOON + HOUR_MS, toMs: NOON + 2 * HOUR_MS }, 1),
      undefined,
    );
    incidents.event({ msg: "stopped", time: NOON + 61_000 });
    assert.equal(incidents.processes.killedIn(HOUR, 0), NOON + 5_000, "one has its last line");
  });

  it("end an outage for the gateway that came back, with its last bucket, and for no other", () => {
    const incidents = new Incidents();
    const event = (kind: string, gateway: string, buckets?: string) => {
      incidents.event({ msg: "event", kind, gateway, buckets, time: NOON + 1 });
    };
    event("store_away", "a");
    event("store_away", "b", "2,13");
    event("store_back", "a");
    event("store_back", "b", "2");
    assert.equal(bucketOf(ACME), 13);
    assert.equal(incidents.awayIn(ACME, HOUR, 0).length > 0, true);
    const isAwayUntil = (ms: number) =>
      incidents.awayIn(ACME, { ...HOUR, toMs: NOON + ms }, 0).length > 0;
    assert.deepEqual(
      [isAwayUntil(1), isAwayUntil(2)],
      [false, true],
      "it began behind the period, or in it",
    );
    event("store_back", "b", "13");
    assert.equal(incidents.awayIn(ACME, HOUR, 0).length > 0, false);
  });

  it("end an outage with a gateway that was killed in it, as it counts nothing any more", () => {
    const incidents = new Incidents();
    for (const ms of [-2 * HOUR_MS, 0]) incidents.event({ msg: "serving", time: NOON + ms });
    incidents.event({ msg: "event", kind: "store_away", gateway: "a", time: NOON + 1_000 });
    const isAwayFrom = (ms: number) => {
      return incidents.awayIn(ACME, { fromMs: NOON + ms, toMs: NOON + HOUR_MS }, 1).length > 0;
    };
    assert.equal(isAwayFrom(20_000), true, "it runs");
    incidents.event({ msg: "serving", time: NOON + 20_000 });
    assert.deepEqual([11_000, 11_001].map(isAwayFrom), [true, false], "clocks differ");
  });

  it("end an outage with a gateway that stopped in it, whether or not the logs have its start, and with no other", () => {
    for (const starts of [[], ["serving"]]) {
      const incidents = new Incidents();
      const event = (msg: string, ms: number, more: object = {}) => {
        incidents.event({ msg, time: NOON + ms, ...more });
      };
      const away = { kind: "store_away", gateway: "a" };
      for (const msg of starts) event(msg, 0);
      event("event", 1_000, away);
      event("stopped", 2_000);
      assert.equal(incidents.awayIn(ACME, HOUR, 0).length > 0, false, "it told what it owed");
      const since = [1_500, 3_000, 15_000].map((ms) => incidents.awaySince(ACME, NOON + ms) - NOON);
      assert.deepEqual(since, [-9_000, -9_000, 15_000], "it was away until then");
      for (const msg of ["serving", "serving"]) event(msg, 20_000);
      event("event", 21_000, away);
      event("serving", 22_000);
      event("stopped", 23_000);
      assert.equal(incidents.awayIn(ACME, HOUR, 2).length > 0, true, "another one stopped");
    }
  });
});
