import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { findMajority } from "../../../../src/stores/redis/engines/sentinel-majority.ts";

const [OLD, NEW] = ["10.0.0.1:6379", "10.0.0.2:6379"];
const old = { master: OLD };
const unknown = { master: undefined };

function majorityOf(answers: Parameters<typeof findMajority>[0]) {
  return findMajority(answers, "main");
}

describe("what the Sentinels say together", () => {
  it("is the master that more than half of all name, whether or not the rest answer", () => {
    assert.deepEqual(majorityOf([old]), { master: OLD, promoted: undefined, split: undefined });
    for (const answers of [
      [old, old, old],
      [old, undefined, old],
      [old, unknown, old],
    ]) {
      assert.deepEqual(majorityOf(answers), {
        master: OLD,
        promoted: undefined,
        split: undefined,
      });
    }
  });

  it("is no master where half or fewer name one, and why", () => {
    const cases = [
      [[], "none of the 0 Sentinels can be asked"],
      [[undefined], "none of the 1 Sentinels can be asked"],
      [[old, undefined], "fewer than most of the 2 Sentinels can be asked"],
      [[old, undefined, undefined], "fewer than most of the 3 Sentinels can be asked"],
      [[unknown, undefined, undefined], "fewer than most of the 3 Sentinels can be asked"],
      [[unknown], "none of the 1 Sentinels knows a master main"],
      [[unknown, unknown, unknown], "none of the 3 Sentinels knows a master main"],
      [[unknown, unknown, undefined], "fewer than most of the 3 Sentinels know a master main"],
      [[old, unknown, undefined], "fewer than most of the 3 Sentinels know a master main"],
      [[unknown, old, unknown], "fewer than most of the 3 Sentinels know a master main"],
      [[{ master: NEW }, old], `the Sentinels name ${OLD} and ${NEW}`],
    ] as const;
    for (const [answers, split] of cases) {
      assert.deepEqual(majorityOf(answers), { master: undefined, promoted: undefined, split });
    }
  });

  it("is split while one names another master, and still the one that most name", () => {
    assert.deepEqual(majorityOf([old, { master: NEW }, { master: NEW }]), {
      master: NEW,
      promoted: undefined,
      split: `the Sentinels name ${OLD} and ${NEW}`,
    });
  });

  it("is a failover as soon as one promotes a replica, until most name that one", () => {
    const leader = { master: OLD, promoted: NEW };
    assert.deepEqual(majorityOf([old, leader, old]), {
      master: OLD,
      promoted: NEW,
      split: `the Sentinels are making ${NEW} the master`,
    });
    const named = { master: NEW, promoted: NEW };
    assert.equal(majorityOf([old, named, old]).promoted, NEW);
    assert.deepEqual(majorityOf([{ master: NEW }, named, { master: NEW }]), {
      master: NEW,
      promoted: undefined,
      split: undefined,
    });
  });
});
