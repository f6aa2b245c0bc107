import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { Ledger } from "../../../src/cli/logs/ledger.ts";
import { DAY_MS } from "../../../src/core/quota/days.ts";
import type { LoggedEvent, LoggedRequest } from "../../../src/telemetry/log/logged-line.ts";

const ACME = { environment: "production", account: "acme" };
const DAY = 20_000;
const FROM = DAY * DAY_MS;
/** The instant at which the store was asked. */
const AT = FROM + 5_000;

function ledgerOf(...events: readonly LoggedEvent[]) {
  const windows = [{ window: "day", used: 0, from: FROM, to: FROM + DAY_MS }];
  const ledger = new Ledger([{ ...ACME, plan: "free", created: null, at: AT, windows }], []);
  for (const event of events) ledger.event(event);
  return ledger.of(ACME.environment, ACME.account);
}

describe("resets in a ledger", () => {
  const resetAt = (at: unknown): LoggedEvent => ({
    ...{ msg: "account_reset", env: "production", account: "acme", time: AT },
    ...{ resetAt: at, windows: [{ window: "day", units: 7 }] },
  });
  const units = (at: unknown) => ledgerOf(resetAt(at))?.windows.get("day")?.reset ?? 0;

  it("are of the window that they were made in, from its first instant on", () => {
    assert.deepEqual([FROM - 1, FROM, AT].map(units), [0, 7, 7]);
    assert.equal(units(undefined), 7, "older lines have only the time of the line");
  });

  it("are of none where the store was asked before, or where the instant cannot be read", () => {
    assert.deepEqual([AT + 1, FROM + DAY_MS, "noon", {}].map(units), [0, 0, 0, 0]);
  });
});

describe("two resets in a ledger", () => {
  it("are added up, those of whole units alone", () => {
    const reset = (units: unknown): LoggedEvent => ({
      ...{ msg: "account_reset", env: "production", account: "acme", time: AT },
      windows: [null, { window: "day", units }],
    });
    const events = [7, 5, 0.5, "3", null].map(reset);
    const ledger = ledgerOf(...events, { ...reset(9), windows: undefined });
    assert.equal(ledger?.windows.get("day")?.reset, 12);
  });
});

describe("a reset of the caps of keys in a ledger", () => {
  const day = { used: 0, from: FROM, to: FROM + DAY_MS };
  const capped = [["k_1", "k_2"], ["k_3"]].map((keys) => {
    return { ...day, window: `key.day of ${keys.join(", ")}`, keys };
  });
  const resets = (windows: readonly unknown[], all = capped) => {
    const ledger = new Ledger([{ ...ACME, plan: "free", created: null, at: AT, windows: all }], []);
    ledger.event({ msg: "account_reset", env: "production", account: "acme", time: AT, windows });
    const known = ledger.of("production", "acme")?.windows;
    return all.map(({ window }) => known?.get(window)?.reset ?? 0);
  };
  const reset = (units: number, ...keys: string[]) => ({ window: "key.day", units, keys });

  it("is of the window of that length whose keys it names, also if it names some of them", () => {
    assert.deepEqual(resets([reset(7, "k_1"), reset(5, "k_3")]), [7, 5]);
    assert.deepEqual(resets([reset(7, "k_4"), { ...reset(5, "k_3"), window: "key.hour" }]), [0, 0]);
    assert.deepEqual(resets([{ window: "day", units: 7 }]), [0, 0]);
  });

  it("that names no keys, as older lines, is of the window of an account that has one", () => {
    const older = { window: "key.day", units: 7 };
    assert.deepEqual(resets([older], capped.slice(1)), [7]);
    assert.deepEqual(resets([older]), [0, 0]);
  });
});

describe("charges in a ledger", () => {
  const lineAt = (decidedAt: number, config: string) => {
    const line = { env: "production", account: "acme", charged: 1, config, plan: "free" };
    return { ...line, time: decidedAt, durationMs: 0, decidedAt } as unknown as LoggedRequest;
  };

  it("of the very millisecond in which the store was asked may be counted or not, later ones are not", () => {
    const windows = [{ window: "day", used: 0, from: FROM, to: FROM + DAY_MS }];
    const ledger = new Ledger([{ ...ACME, plan: "free", created: null, at: AT, windows }], []);
    for (const ms of [-1, 0, 0, 1]) ledger.request(lineAt(AT + ms, "c"));
    const sum = ledger.of("production", "acme")?.windows.get("day");
    assert.deepEqual([sum?.charged, sum?.atEdge, ledger.charged], [1, 2, 3]);
    for (const ms of [-1, 0]) ledger.request(lineAt(FROM + ms, "c"));
    assert.deepEqual([sum?.charged, ledger.charged], [2, 5], "one came before the window began");
  });

  it("are of the same day and configuration in whatever order the logs come", () => {
    const ledger = new Ledger([], []);
    ledger.request(lineAt(FROM + DAY_MS, "b"));
    ledger.request({ ...lineAt(FROM + 9, "a"), time: FROM + 12, durationMs: 3 });
    ledger.request(lineAt(FROM + 2, "a"));
    assert.equal(ledger.firstDay, DAY);
    const { configs = [], plans = [] } = ledger.of("production", "acme")?.days.get(DAY) ?? {};
    assert.deepEqual([...configs], [["a", { units: 2, firstMs: FROM + 2, lastMs: FROM + 9 }]]);
    assert.deepEqual([...plans], [["free", 2]]);
  });

  it("are of the accounts that lines name, and none of a line that charged nothing", () => {
    const ledger = new Ledger([], []);
    const line = lineAt(FROM, "a");
    const none = [{ charged: 0 }, { decidedAt: undefined }, { env: undefined }];
    for (const more of [...none, { account: undefined }]) ledger.request({ ...line, ...more });
    assert.deepEqual([[...ledger.accounts], ledger.firstDay, ledger.charged], [[], undefined, 0]);
  });

  it("of a meter alone are of no day of the account's units", () => {
    const ledger = new Ledger([], []);
    const meters = { tokens: { hold: 5 } };
    ledger.request({ ...lineAt(FROM, "a"), charged: 0, meters });
    const known = ledger.of("production", "acme");
    const days = () => [known?.days.size, known?.meters.get("tokens")?.days.size];
    assert.deepEqual(days(), [0, 1]);
    const late = { ...lineAt(FROM, "a"), charged: 0, time: FROM + 2 * DAY_MS };
    for (const used of [4, 5]) ledger.request({ ...late, meters: { tokens: { hold: 5, used } } });
    assert.deepEqual(days(), [0, 1], "no raise was settled once the day had closed");
  });
});

it("an outage that goes on is of a ledger up to the very millisecond in which the store was asked", () => {
  const windows = [{ window: "day", used: 0, from: FROM, to: FROM + DAY_MS }];
  const counts = [{ ...ACME, plan: "free", created: null, at: AT, windows }];
  const awayIn = (fromMs: number) => {
    const away = [{ fromMs, toMs: Number.POSITIVE_INFINITY }];
    const ledger = new Ledger(counts, [], (_, { toMs }) => (fromMs < toMs ? away : []));
    return ledger.of("production", "acme")?.windows.get("day")?.away.length;
  };
  assert.deepEqual([AT, AT + 1].map(awayIn), [1, undefined]);
});

describe("the window of keys in a ledger", () => {
  it("has what requests of these keys charged, and no part of what their meters did", () => {
    const keys = ["k_1", "k_2"];
    const day = { used: 0, from: FROM, to: FROM + DAY_MS };
    const windows = [
      { ...day, window: "key.day of k_1, k_2", keys, formerKeys: ["k_3"] },
      { ...day, window: "tokens.day" },
    ];
    const ledger = new Ledger([{ ...ACME, plan: "free", created: null, at: AT, windows }], []);
    for (const [key, charged] of [
      ["k_1", 1],
      ["k_2", 2],
      ["k_3", 4],
      [undefined, 8],
    ] as const) {
      const meters = { tokens: { hold: 100, used: 70 } };
      const line = { env: "production", account: "acme", charged, meters, time: AT, durationMs: 1 };
      ledger.request({ ...line, ...(key && { key }), decidedAt: FROM } as unknown as LoggedRequest);
    }
    const sums = ledger.of("production", "acme")?.windows;
    const of = (window: string) => {
      const { charged, settling } = sums?.get(window) ?? {};
      return [charged, settling?.unsettledIn(FROM, FROM)];
    };
    assert.deepEqual(of("key.day of k_1, k_2"), [3, 0]);
    const former = ["key.day of k_1, k_2", "tokens.day"].map((window) => sums?.get(window)?.former);
    assert.deepEqual(former, [4, 0], "of a key that lost the cap");
    assert.deepEqual(of("tokens.day"), [280, 120]);
  });
});

describe("the window of an operation in a ledger", () => {
  it("has its requests, HEAD as GET, and none of another operation", () => {
    const limit = { window: "minute", limit: 9, part: { id: "GET /v1/pets", name: "listPets" } };
    const operation = { method: "GET", template: "/v1/pets", limits: { windows: [limit] } };
    const routes = { operations: [operation] };
    const environments = [{ name: "production", routes, services: [] }];
    const windows = [{ window: "listPets.minute", used: 0, from: FROM, to: FROM + 60_000 }];
    const counts = [{ ...ACME, plan: "free", created: null, at: AT, windows }];
    const ledger = new Ledger(counts, environments as never);
    for (const [method, route, charged] of [
      ["GET", "/v1/pets", 1],
      ["HEAD", "/v1/pets", 2],
      ["POST", "/v1/pets", 4],
      ["GET", "/v1/pets/{petId}", 8],
    ] as const) {
      const line = { env: "production", account: "acme", method, route, charged, time: AT };
      ledger.request({ ...line, decidedAt: FROM } as unknown as LoggedRequest);
    }
    assert.equal(ledger.of("production", "acme")?.windows.get("listPets.minute")?.charged, 3);
  });
});

describe("lost settlements in a ledger", () => {
  it("are of the day that they name, and of none where that is no day", () => {
    const lost = (day: unknown): LoggedEvent => ({
      ...{ msg: "settlement_lost", ...ACME, meter: "tokens", units: 5, day },
    });
    const named = [lost("2024-10-04"), lost("2024-10-04T12:00:00Z"), lost("some day"), lost(null)];
    const lostBy = (...events: readonly LoggedEvent[]) => {
      return [...(ledgerOf(...events)?.meters.get("tokens")?.lost ?? [])];
    };
    assert.deepEqual(lostBy(...named), [[DAY, 5]]);
    assert.deepEqual(lostBy(...named, lost("2024-10-04")), [[DAY, 10]], "they are added up");
    const unread = ["5", 0.5, null].map((units) => ({ ...lost("2024-10-04"), units }));
    assert.deepEqual(lostBy(...unread, { ...lost("2024-10-04"), meter: "images" }), []);
  });
});
