import assert from "node:assert/strict";
import { describe, it } from "vitest";
import {
  capsByAccount,
  capsError,
  DROPPED_CAPS_MS,
  freeCapNumbers,
  keysOfWindow,
  mergeCaps,
} from "../../../src/core/keys/caps.ts";
import { updateKey } from "../../../src/core/keys/edit-keys.ts";
import type { Cap, KeyRecord } from "../../../src/core/keys/records.ts";
import { encodeKey, RecordReader } from "../../../src/stores/keys/records/record-format.ts";

function key(account: string, number: number | undefined): KeyRecord {
  const caps = number === undefined ? {} : { caps: { number, limits: [] } };
  return {
    ...{ id: `k${number}`, digest: "", name: "", environment: "production", account },
    ...{ scopes: [], from: [], createdMs: 0, ...caps },
  };
}

const TERMS = { environment: "production", plan: "free", limits: [], meta: {}, createdMs: 0 };

describe("the numbers of caps", () => {
  it("are those that no key of the account has, the next one first", () => {
    const keys = [key("a", 0), key("a", 4), key("b", 9), key("a", undefined)];
    assert.deepEqual(freeCapNumbers(keys, "a", { count: 2, nowMs: 0 }), [5, 6]);
    assert.deepEqual(freeCapNumbers(keys, "b", { count: 1, nowMs: 0 }), [10]);
    assert.deepEqual(freeCapNumbers(keys, "c", { count: 2, nowMs: 0 }), [0, 1]);
  });

  it("are given again after 1,024, and are none where all are taken", () => {
    const last = [key("a", 1_023), key("a", 0)];
    assert.deepEqual(freeCapNumbers(last, "a", { count: 2, nowMs: 0 }), [1, 2]);
    const all = Array.from({ length: 1_024 }, (_, number) => key("a", number));
    assert.equal(freeCapNumbers(all, "a", { count: 1, nowMs: 0 }), undefined);
    assert.deepEqual(freeCapNumbers(all.slice(1), "a", { count: 1, nowMs: 0 }), [0]);
    assert.equal(freeCapNumbers(all.slice(1), "a", { count: 2, nowMs: 0 }), undefined);
  });

  it("are refused to one key more than there are, and are kept by a key that has one", () => {
    const all = Array.from({ length: 1_024 }, (_, number) => key("a", number));
    const keys = [...all, { ...key("a", undefined), id: "bare" }];
    const accounts = [{ ...TERMS, id: "a" }];
    const caps = [{ window: "minute", limit: 1 }] as const;
    const refused = updateKey({ keys, accounts }, "bare", { caps }, 0);
    assert.ok(!refused.ok && refused.reason === "refused");
    assert.match(refused.message, /^Cannot cap one more key of account a: 1024 of its keys/);
    const changed = updateKey({ keys, accounts }, "k7", { caps }, 0);
    assert.ok(changed.ok);
    assert.deepEqual(changed.changed.caps, { number: 7, limits: caps });
  });
});

it("the cap of one window is dropped alone", () => {
  const caps = { number: 0, limits: [{ window: "day", limit: 3 } as const] };
  const records = { keys: [{ ...key("a", 0), caps }], accounts: [] };
  const change = {
    caps: [{ window: "day", limit: null } as const, { window: "hour", limit: 2 } as const],
  };
  const changed = updateKey(records, "k0", change, 1_000);
  assert.deepEqual(changed.ok && changed.changed.caps?.limits, [{ window: "hour", limit: 2 }]);
  assert.match(
    String(capsError([{ window: "century" as "day", limit: null }])),
    /century.*unknown/,
  );
});

describe("the number of caps that were dropped", () => {
  const caps = [{ window: "day", limit: 3 }] as const;
  const records = { keys: [{ ...key("a", 0), caps: { number: 0, limits: caps } }], accounts: [] };

  it("stays with its key, which goes on with its counts", () => {
    const dropped = updateKey(records, "k0", { dropCaps: true }, 1_000);
    assert.ok(dropped.ok);
    assert.deepEqual(dropped.changed.caps, { number: 0, limits: [], droppedMs: 1_000 });
    const again = updateKey(dropped.records, "k0", { dropCaps: true }, 2_000);
    assert.ok(again.ok);
    assert.deepEqual(again.changed, dropped.changed);
    const back = updateKey(dropped.records, "k0", { caps }, 2_000);
    assert.ok(back.ok);
    assert.deepEqual(back.changed.caps, { number: 0, limits: caps });
  });

  it("is free when no counts of any window are left, not earlier", () => {
    const dropped = updateKey(records, "k0", { dropCaps: true }, 1_000);
    assert.ok(dropped.ok);
    const { keys } = dropped.records;
    const freeAt = 1_000 + DROPPED_CAPS_MS;
    assert.deepEqual(freeCapNumbers(keys, "a", { count: 1, nowMs: freeAt - 1 }), [1]);
    assert.deepEqual(freeCapNumbers(keys, "a", { count: 1, nowMs: freeAt }), [0]);
    const other = { ...key("a", 0), id: "other", caps: { number: 0, limits: caps } };
    const now = { keys: [...keys, other], accounts: [] };
    const back = updateKey(now, "k0", { caps }, freeAt);
    assert.ok(back.ok);
    assert.deepEqual(back.changed.caps, { number: 1, limits: caps });
  });

  it("is read as it was written", () => {
    const dropped = { ...key("a", 0), digest: "0".repeat(64), id: "k_1" };
    for (const kept of [
      { number: 5, limits: [], droppedMs: 1_000 },
      { number: 5, limits: caps },
    ]) {
      const reader = new RecordReader();
      const text = encodeKey({ ...dropped, caps: kept });
      assert.deepEqual(reader.key(JSON.parse(text), []).record.caps, kept);
      assert.deepEqual(reader.mistakes, []);
    }
    for (const wrong of [
      { number: 5 },
      { number: 5, day: 3, dropped: "1970-01-01T00:00:01.000Z" },
    ]) {
      const reader = new RecordReader();
      reader.key({ ...JSON.parse(encodeKey(dropped)), caps: wrong }, []);
      assert.equal(reader.mistakes.length, 1);
    }
  });
});

describe("the keys of a window", () => {
  it("share it, each window once, and those of another number have their own", () => {
    const capped = (id: string, number: number, ...windows: Cap["window"][]): KeyRecord => {
      const limits = windows.map((window) => ({ window, limit: 3 }));
      return { ...key("a", 0), id, caps: { number, limits } };
    };
    const keys = [capped("k1", 0, "day"), capped("k2", 0, "day", "month"), capped("k3", 1, "day")];
    const caps = capsByAccount([...keys, key("b", undefined)]).get("a");
    assert.deepEqual(
      caps?.limits.map(({ window, part }) => [window, part?.id]),
      [
        ["day", "@0"],
        ["month", "@0"],
        ["day", "@1"],
      ],
    );
    const ids = [...(caps?.keys ?? [])].map(([part, of]) => [part, of.map(({ id }) => id)]);
    assert.deepEqual(ids, [
      ["@0", ["k1", "k2"]],
      ["@1", ["k3"]],
    ]);
    assert.equal(capsByAccount([key("b", undefined)]).size, 0);
  });

  it("may have been more, those that share its number and have not lost the cap long before it began", () => {
    const caps = [{ window: "day", limit: 3 }] as const;
    const sharing = [
      { number: 0, limits: caps },
      { number: 0, limits: [{ window: "month", limit: 3 }] as const },
      { number: 0, limits: [], droppedMs: 1_000_000 },
    ].map((own, i) => ({ ...key("a", 0), id: `k${i}`, caps: own }));
    const dayFrom = (fromMs: number) => keysOfWindow(sharing, "day", fromMs);
    assert.deepEqual(dayFrom(1_000_000), { keys: ["k0"], formerKeys: ["k1", "k2"] });
    const minuteLater = [1_060_000, 1_060_001].map((fromMs) => dayFrom(fromMs).formerKeys);
    assert.deepEqual(minuteLater, [["k1", "k2"], ["k1"]], "a gateway hears of it within a minute");
    assert.deepEqual(keysOfWindow(sharing.slice(0, 1), "day", 0), { keys: ["k0"] });
  });
});

describe("caps", () => {
  it("replace those of their window, shortest first", () => {
    const before = [
      { window: "minute", limit: 1 },
      { window: "year", limit: 9 },
    ] as const;
    assert.deepEqual(
      mergeCaps(before, [
        { window: "minute", limit: 5 },
        { window: "week", limit: 7 },
      ]),
      [
        { window: "minute", limit: 5 },
        { window: "week", limit: 7 },
        { window: "year", limit: 9 },
      ],
    );
  });

  it("are wrong with an unknown window, a limit that is none, or a window twice", () => {
    const day = (limit: number) => ({ window: "day", limit }) as const;
    assert.equal(capsError([day(1), { window: "week", limit: 1e12 }]), undefined);
    for (const wrong of [[day(0)], [day(1.5)], [day(1e12 + 1)], [day(1), day(2)]]) {
      assert.ok(capsError(wrong) !== undefined, JSON.stringify(wrong));
    }
    assert.match(capsError([{ window: "fortnight" as "day", limit: 1 }]) ?? "", /"fortnight"/);
  });
});
