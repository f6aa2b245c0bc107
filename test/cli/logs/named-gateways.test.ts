import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { Incidents } from "../../../src/cli/logs/incidents.ts";

const NOON = Date.UTC(2026, 10, 2, 12);
const HOUR_MS = 3_600_000;
const ACME = { environment: "production", account: "acme" };
const ALWAYS = { fromMs: NOON - HOUR_MS, toMs: NOON + 24 * HOUR_MS };
const since = (hours: number) => ({ fromMs: NOON + hours * HOUR_MS, toMs: ALWAYS.toMs });

type Event = readonly [msg: string, gateway: string | undefined, hours: number];

/** The incidents of these lines, `store_away` among them, while the store lists `names`. */
function read(names: readonly string[], events: readonly Event[]) {
  const incidents = new Incidents();
  for (const [msg, gateway, hours] of events) {
    const named = msg === "store_away" ? { msg: "event", kind: msg } : { msg };
    incidents.event({ ...named, gateway, time: NOON + hours * HOUR_MS });
  }
  incidents.processes.setRunning(names);
  return incidents;
}

const HOURS = [0, 1, 2, 3, 4, 5, 6, 7, 8].map((hours) => [NOON + hours * HOUR_MS, hours]);
const hoursOf = new Map(HOURS as [number, number][]);
/** The hour at which the first gateway was killed whose life reaches behind `from`. */
const killed = (incidents: Incidents, alive: number, from = -1) => {
  const atMs = incidents.processes.killedIn(since(from), alive);
  return atMs === undefined ? undefined : hoursOf.get(atMs);
};

describe("lines that name their gateway", () => {
  const TWO: Event[] = [
    ["serving", "a", 0],
    ["note", undefined, 2],
    ["serving", "b", 3],
    ["note", undefined, 5],
  ];

  it("tell which one was killed, where the one that runs has the earlier last line", () => {
    assert.deepEqual([killed(read(["a"], TWO), 1), killed(read(["b"], TWO), 1)], [5, 2]);
    assert.equal(killed(read(["a", "b"], TWO), 2), undefined);
    assert.equal(killed(read(["other"], TWO), 1), 2, "both, as a third one runs");
    assert.equal(killed(read(["other"], TWO), 1, 3), 5);
  });

  it("leave it to the last lines where a gateway runs that the store does not list, or the lines are older", () => {
    assert.deepEqual([killed(read([], TWO), 1), killed(read([], TWO), 1, 3)], [2, undefined]);
    assert.deepEqual([killed(read(["a"], TWO), 1), killed(read(["a"], TWO), 2)], [5, undefined]);
    const older = TWO.map(([msg, , hours]): Event => [msg, undefined, hours]);
    assert.deepEqual(
      [killed(read(["a"], older), 1), killed(read(["a"], older), 1, 3)],
      [2, undefined],
    );
    const mixed: Event[] = [...TWO, ["serving", undefined, 6]];
    assert.deepEqual(
      [killed(read(["a", "c"], mixed), 2), killed(read(["a", "c"], mixed), 2, 6)],
      [5, undefined],
    );
    assert.equal(killed(read(["a"], mixed), 1, 6), 6, "of the older lines only the first one runs");
  });

  it("end that one with `stopped`, and its outage, whichever began to serve last", () => {
    const away: Event[] = [...TWO, ["store_away", "a", 6], ["store_away", "b", 6]];
    const of = (gateway: string | undefined) => read([], [...away, ["stopped", gateway, 7]]);
    assert.deepEqual([killed(of("a"), 0), killed(of("b"), 0)], [6, 6]);
    assert.equal(of("a").awayIn(ACME, since(6), 0).length > 0, true);
    const both = read([], [...away, ["stopped", "a", 7], ["stopped", "b", 7]]);
    assert.deepEqual(
      [killed(both, 0), both.awayIn(ACME, since(6), 0).length > 0],
      [undefined, false],
    );
    const strange = read([], [...away, ["stopped", "elsewhere", 7]]);
    assert.deepEqual([killed(strange, 0), killed(strange, 0, 6)], [6, 6], "its start is not there");
    const older: Event[] = [
      ["serving", undefined, 0],
      ["stopped", "elsewhere", 1],
      ["note", "a", 2],
    ];
    assert.equal(killed(read([], older), 0), 2, "nor that of any other");
    assert.equal(killed(read([], [...older, ["stopped", undefined, 3]]), 0), undefined);
  });

  it("end an outage with a gateway that was killed, though it was away before it served", () => {
    const events: Event[] = [
      ["serving", "b", 0],
      ["store_away", "a", 1],
      ["serving", "a", 2],
    ];
    const isAway = (names: string[]) =>
      read(names, events).awayIn(ACME, since(3), names.length).length > 0;
    assert.deepEqual([isAway(["b"]), isAway(["a", "b"])], [false, true]);
  });

  it("tell lost charges since the outage of that one, and older ones since that of any", () => {
    const away: Event[] = [
      ["store_away", "a", 0],
      ["store_away", "b", 4],
    ];
    const lostBefore = (gateway: string | undefined, hours: number) => {
      const incidents = read([], away);
      const accounts = "production:acme 3";
      const time = NOON + 6 * HOUR_MS;
      incidents.event({ msg: "charges_lost", gateway, units: 3, accounts, time });
      return incidents.lostOf(ACME, { ...ALWAYS, toMs: NOON + hours * HOUR_MS });
    };
    assert.deepEqual([lostBefore("b", 3), lostBefore("b", 5)], [0, 3]);
    assert.deepEqual([lostBefore("a", 3), lostBefore(undefined, 3)], [3, 3]);
  });

  it("are signs of life of that one alone", () => {
    const told = (gateway: string) => read(["b"], [...TWO, ["note", gateway, 6]]);
    assert.deepEqual([killed(told("a"), 1), killed(told("b"), 1), killed(told("c"), 1)], [6, 2, 2]);
    assert.equal(killed(read(["a"], [...TWO, ["note", "c", 6]]), 1), 5);
    const next: Event[] = [...TWO, ["note", "a", 6], ["note", undefined, 7]];
    assert.equal(killed(read(["b"], next), 1), 7, "what follows is of the same log");
  });
});
