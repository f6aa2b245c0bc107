import assert from "node:assert/strict";
import { describe, it, vi } from "vitest";
import { parseTime, StoreClock } from "../../../src/stores/redis/store-clock.ts";

/** Between answers at so many milliseconds of performance.now(), what the store's clock said. */
function learnt(
  ...answers: readonly (readonly [sentMs: number, receivedMs: number, nowMs: number])[]
) {
  const clock = new StoreClock();
  for (const answer of answers) clock.learn(...answer);
  return clock;
}

const at = () => performance.now();

describe("the clock of the store", () => {
  it("is not known before an answer, nor once it is forgotten", () => {
    const clock = new StoreClock();
    assert.deepEqual([clock.isKnown, clock.latestAt(at())], [false, undefined]);
    clock.learn(at(), at(), 5_000);
    assert.equal(clock.isKnown, true);
    clock.forget();
    assert.deepEqual([clock.isKnown, clock.latestAt(at())], [false, undefined]);
  });

  it("tells an instant that surely lies before the one that was asked for", () => {
    const now = at();
    const clock = learnt([now - 10, now, 1_000_000]);
    const latest = clock.latestAt(now + 50) as number;
    // At `now` the store's clock showed 1,000,000 at least, so 50 ms later 1,000,050 at least.
    assert.ok(latest <= 1_000_050 && latest > 1_000_040, `${latest}`);
  });

  it("lies between two instants, which an answer that was held leaves apart and a quick one does not", (t) => {
    const now = at();
    // Both are asked for at one instant: a machine that stalls between the two is no difference.
    const frozen = vi.spyOn(performance, "now").mockReturnValue(now);
    t.onTestFinished(() => frozen.mockRestore());
    const held = learnt([now - 250, now, 1_000_000]);
    const apart = (clock: StoreClock) => clock.latestNow() - clock.now();
    assert.ok(apart(held) >= 250 && apart(held) < 260, `${apart(held)}`);
    held.learn(now, now, 1_000_001);
    assert.ok(apart(held) >= 0 && apart(held) < 5, `${apart(held)}`);
    held.forget();
    assert.ok(apart(held) <= 1, "an unknown clock is taken for what it was");
  });

  it("is measured best by the quickest answer: a slow one later makes it no worse", () => {
    const now = at();
    const quick = learnt([now - 1, now, 1_000_000]);
    const both = learnt([now - 1, now, 1_000_000], [now - 1, now + 200, 1_000_100]);
    assert.ok(Math.abs((both.latestAt(now + 50) ?? 0) - (quick.latestAt(now + 50) ?? 0)) <= 1);
  });

  it("tells answers from before it was set back, and takes none of a slow store or an idle hour for one", () => {
    const now = at();
    const told = [1_000_000, now] as const;
    for (const [byMs, expected] of [
      [-60_000, true],
      [-100, true],
      [0, false],
      [60_000, false],
    ] as const) {
      const clock = learnt([now - 1, now, 1_000_000], [now, now + 1, 1_000_000 + byMs]);
      assert.equal(clock.wasSetBack(...told), expected, `${byMs}`);
    }
    assert.equal(learnt([now - 250, now, 1_000_000]).wasSetBack(...told), false, "a slow store");
    const slewed = learnt([now - 1, now, 1_000_000]);
    assert.equal(slewed.wasSetBack(1_000_000 - 3_600_000 + 1_500, now - 3_600_000), false);
    assert.equal(slewed.wasSetBack(1_000_000 - 3_600_000 + 3_000, now - 3_600_000), true);
    slewed.forget();
    assert.equal(slewed.wasSetBack(2_000_000, now), false, "an unknown clock");
  });

  it("follows a clock that was set, forward and back", () => {
    for (const byMs of [60_000, -60_000]) {
      const now = at();
      const clock = learnt([now - 1, now, 1_000_000], [now, now + 1, 1_000_000 + byMs]);
      const latest = clock.latestAt(now + 50) as number;
      assert.ok(Math.abs(latest - (1_000_050 + byMs)) < 10, `${latest}`);
    }
  });

  it("follows a clock that runs a little slower or faster", () => {
    for (const rate of [0.9996, 1.0004]) {
      const now = at();
      const clock = new StoreClock();
      for (let ms = 0; ms < 600_000; ms += 1_000) {
        clock.learn(now + ms, now + ms + 1, Math.floor(1_000_000 + ms * rate));
      }
      const latest = clock.latestAt(now + 599_000) as number;
      assert.ok(Math.abs(latest - (1_000_000 + 599_000 * rate)) < 30, `${rate}: ${latest}`);
    }
  });

  it("is ahead of this machine's by what its answers surely tell, and by 0 before the first one", (t) => {
    const [now, machineMs] = [at(), Date.now()];
    const frozen = [
      vi.spyOn(performance, "now").mockReturnValue(now),
      vi.spyOn(Date, "now").mockReturnValue(machineMs),
    ];
    t.onTestFinished(() => {
      for (const each of frozen) each.mockRestore();
    });
    const fresh = new StoreClock();
    vi.mocked(Date.now).mockReturnValue(machineMs + 60_000);
    assert.equal(fresh.aheadOfMachineMs, 0, "nothing is known");
    vi.mocked(Date.now).mockReturnValue(machineMs);
    // Made in the 250 ms before it was received, an answer leaves that much open, and 3 ms of rounding.
    const ahead = (byMs: number) => learnt([now - 250, now, machineMs + byMs]).aheadOfMachineMs;
    assert.deepEqual([2, 0, -100, -253].map(ahead), [0, 0, 0, 0]);
    assert.deepEqual([3, 60_000, -254, -60_000].map(ahead), [3, 60_000, -254, -60_000]);
  });
});

it("a reply to TIME is read to the millisecond, and is a failure if it has no time", () => {
  assert.equal(parseTime(["1795000000", "123999"]), 1_795_000_000_123);
  for (const reply of [null, "PONG", [], ["1795000000"], ["soon", "0"]]) {
    assert.throws(() => parseTime(reply), /no time/);
  }
});
