import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { LogSpan } from "../../../src/cli/logs/log-span.ts";

const NOON = Date.UTC(2026, 10, 2, 12);
const HOUR_MS = 3_600_000;
const HOUR = { fromMs: NOON, toMs: NOON + HOUR_MS };

describe("the reach of logs", () => {
  const spanOf = (...hours: readonly number[]) => {
    const span = new LogSpan();
    for (const hour of hours) span.line(NOON + hour * HOUR_MS);
    return span;
  };

  it("is told with the first and the last line where a period is not all in them", () => {
    const gap = spanOf(0.5, 2).gapIn(HOUR, null, false);
    assert.match(
      gap ?? "",
      /begin inside it.* of 2026-11-02 12:30:00Z, .* of 2026-11-02 14:00:00Z/,
    );
    assert.match(spanOf(-1, 0.5).gapIn(HOUR, null, false) ?? "", /^the logs end inside it/);
    assert.equal(spanOf(0, 1).gapIn(HOUR, null, false), undefined);
    assert.equal(spanOf(1, 0).gapIn(HOUR, null, false), undefined, "in whatever order");
    assert.equal(new LogSpan().gapIn(HOUR, null, false), "the logs have no line");
    assert.match(spanOf(0.5).gapIn(HOUR, null, false) ?? "", /^the logs begin inside it/);
  });

  it("begins after a period or ends before it where none of the period is in it", () => {
    const why = (...hours: readonly number[]) => {
      return spanOf(...hours)
        .gapIn(HOUR, null, false)
        ?.replace(/:.*/, "");
    };
    assert.equal(why(1, 2), "the logs begin after it");
    assert.equal(why(0.999, 2), "the logs begin inside it");
    assert.equal(why(-2, 0), "the logs end inside it");
    assert.equal(why(-2, -0.001), "the logs end before it");
  });

  it("holds the whole life of an account that was created as they began", () => {
    const span = spanOf(0.5, 1);
    assert.equal(span.gapIn(HOUR, NOON + HOUR_MS / 2 - 10_000, false), undefined);
    assert.ok(span.gapIn(HOUR, NOON + HOUR_MS / 2 - 10_001, false));
  });

  it("ends a minute before now at the latest, while the period runs", () => {
    const until = (ms: number) => spanOf(0, 0.5).gapIn({ ...HOUR, toMs: NOON + ms }, null, true);
    assert.equal(until(HOUR_MS / 2 + 60_000), undefined);
    assert.ok(until(HOUR_MS / 2 + 60_001));
  });
});
