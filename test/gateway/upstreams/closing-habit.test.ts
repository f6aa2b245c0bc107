import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { ClosingHabit } from "../../../src/gateway/upstreams/closing-habit.ts";
import type { UpstreamConnection } from "../../../src/gateway/upstreams/upstream.ts";
import { A, poolOf, take } from "./pool.ts";

function answers(habit: ClosingHabit, count: number, isClosing: (i: number) => boolean): void {
  for (let i = 0; i < count; i++) {
    habit.onAnswer();
    if (isClosing(i)) habit.onClosedSoon();
  }
}

describe("An upstream closes connections behind its answers by habit", () => {
  it("from the first one, and for as long as it does so after every tenth answer", () => {
    const habit = new ClosingHabit();
    assert.equal(habit.isHabit, false);
    answers(habit, 1, () => true);
    assert.equal(habit.isHabit, true);
    answers(habit, 1_000, (i) => i % 10 === 9);
    assert.equal(habit.isHabit, true);
  });

  it("not if it ended all of them once, some hundred answers ago", () => {
    const habit = new ClosingHabit();
    answers(habit, 1_000, () => false);
    for (let i = 0; i < 32; i++) habit.onClosedSoon();
    assert.equal(habit.isHabit, true);
    answers(habit, 200, () => false);
    assert.equal(habit.isHabit, false);
  });

  it("not if one in a hundred ends so", () => {
    const habit = new ClosingHabit();
    answers(habit, 50, () => false);
    answers(habit, 1_000, (i) => {
      assert.equal(habit.isHabit, false);
      return i % 100 === 99;
    });
  });

  it("whatever number of connections the gateway itself ends behind an answer, as those of HEAD", async () => {
    await using pool = poolOf([A], { connectionsMax: 1_000 });
    const { upstreams } = pool;
    const closing = upstreams.all[0]?.load.closing;
    assert.ok(closing);
    answers(closing, 1, () => true);
    for (let i = 0; i < 100; i++) upstreams.release(take(upstreams));
    assert.equal(closing.isHabit, true);
    const open = (connection: UpstreamConnection) => {
      return Object.defineProperty(connection, "open", { value: true });
    };
    for (let i = 0; i < 100; i++) upstreams.release(open(take(upstreams)));
    assert.equal(closing.isHabit, false);
  });
});
