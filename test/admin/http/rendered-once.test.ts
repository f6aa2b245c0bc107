import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, it, onTestFinished, vi } from "vitest";
import { atMostEvery } from "../../../src/admin/http/at-most-every.ts";
import { each } from "../../support/each.ts";
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
    const clock = vi.spyOn(performance, "now");
    onTestFinished(() => clock.mockRestore());
    clock.mockReturnValue(5_000);
    const all = await Promise.all(Array.from({ length: 50 }, () => house.ask("GET", "/metrics")));
    const text = all[0]?.text;
    assert.ok(each(all).every((answer) => answer.status === 200 && answer.text === text));
    clock.mockReturnValue(5_999);
    await house.ask("GET", "/metrics");
    assert.equal(rendered, 1);
    clock.mockReturnValue(6_000);
    await house.ask("GET", "/metrics");
    assert.equal(rendered, 2);
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
