import assert from "node:assert/strict";
import { it } from "vitest";
import { EventOutbox } from "../../src/telemetry/history/event-outbox.ts";

const event = (time: number) => ({ kind: "ban_lifted", time }) as const;

it("events of a process are taken once, up to 10,000 at a time, and those beyond are counted", () => {
  const outbox = new EventOutbox();
  assert.deepEqual(outbox.take(), []);
  for (let time = 1; time <= 10_000; time++) outbox.add(event(time));
  assert.equal(outbox.dropped, 0);
  outbox.add(event(10_001));
  assert.equal(outbox.dropped, 1);
  const taken = outbox.take();
  assert.deepEqual([taken.length, taken[0], taken.at(-1)], [10_000, event(1), event(10_000)]);
  outbox.add(event(10_002));
  assert.deepEqual([outbox.take(), outbox.dropped], [[event(10_002)], 1]);
});
