import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { it } from "vitest";
import { spawnGateway } from "../../support/gateway/served.ts";

it("a gateway that stood still says for how long, and nothing of a pause below five seconds", async () => {
  await using gateway = await spawnGateway({ upstreams: ["http://127.0.0.1:9"], api: null });
  const { child, line } = gateway.running;
  const stoppedMs: number[] = [];
  for (const forMs of [3_000, 7_000]) {
    const fromMs = performance.now();
    child.kill("SIGSTOP");
    await sleep(forMs);
    child.kill("SIGCONT");
    stoppedMs.push(performance.now() - fromMs);
    // It looks each second, and begins anew with each look.
    await sleep(1_100);
  }
  const told = await line(({ msg }) => msg === "process_paused");
  assert.equal(told.level, "warn");
  assert.ok(Math.abs(Number(told.forMs) - Number(stoppedMs[1])) < 1_500, JSON.stringify(told));
  assert.equal(gateway.said.filter(({ msg }) => msg === "process_paused").length, 1);
});
