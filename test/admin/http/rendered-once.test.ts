import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, it } from "vitest";
import { atMostEvery } from "../../../src/admin/http/at-most-every.ts";
import { each } from "../../support/each.ts";
import { eventually } from "../../support/poll.ts";
import { openAdminHouse } from "../admin-house.ts";

describe("/metrics", () => {
  it("is rendered at most once a second, however many ask, and anew after it", async () => {
    await using house = await openAdminHouse();
    const { render } = house.metrics;
    let rendered = 0;
    Object.assign(house.metrics, {
      render: () => {
        rendered += 1;
        return render();
      },
    });
    const startMs = performance.now();
    const all = await Promise.all(Array.from({ length: 50 }, () => house.ask("GET", "/metrics")));
    const [first] = all;
    const text = first?.text;
    assert.ok(each(all).every((answer) => answer.status === 200 && answer.text === text));
    assert.ok(rendered <= 1 + (performance.now() - startMs) / 1_000, `${rendered}`);
    const before = rendered;
    await eventually(async () => {
      await house.ask("GET", "/metrics");
      assert.ok(rendered > before);
    });
    assert.ok(rendered <= 1 + (performance.now() - startMs) / 1_000, `${rendered}`);
  });
});

describe("What is read at most every so often", () => {
  it("is read again by the next who asks after it has failed", async () => {
    let read = 0;
    const ask = atMostEvery(60_000, async () => {
      read += 1;
      await sleep(1);
      if (read === 1) throw new Error("not now");
      return read;
    });
    const both = await Promise.allSettled([ask(), ask()]);
    assert.deepEqual(
      both.map(({ status }) => status),
      ["rejected", "rejected"],
    );
    assert.deepEqual([await ask(), await ask(), read], [2, 2, 2]);
  });
});
