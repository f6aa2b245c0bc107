import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { capsError, freeCapNumbers, mergeCaps } from "../../../src/core/keys/caps.ts";
import { updateKey } from "../../../src/core/keys/edit-keys.ts";
import type { KeyRecord } from "../../../src/core/keys/records.ts";

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
    assert.deepEqual(freeCapNumbers(keys, "a", 2), [5, 6]);
    assert.deepEqual(freeCapNumbers(keys, "b", 1), [10]);
    assert.deepEqual(freeCapNumbers(keys, "c", 2), [0, 1]);
  });

  it("are given again after 1,024, and are none where all are taken", () => {
    const last = [key("a", 1_023), key("a", 0)];
    assert.deepEqual(freeCapNumbers(last, "a", 2), [1, 2]);
    const all = Array.from({ length: 1_024 }, (_, number) => key("a", number));
    assert.equal(freeCapNumbers(all, "a", 1), undefined);
    assert.deepEqual(freeCapNumbers(all.slice(1), "a", 1), [0]);
    assert.equal(freeCapNumbers(all.slice(1), "a", 2), undefined);
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
