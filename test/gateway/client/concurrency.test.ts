import assert from "node:assert/strict";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { it } from "vitest";
import { ConcurrencyLimiter } from "../../../src/gateway/client/concurrency-limiter.ts";

setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc") as () => void;

it("an account is counted from its first request under way to its last, and not beyond its number", () => {
  const concurrency = new ConcurrencyLimiter();
  assert.deepEqual(
    [1, 2, 3].map(() => concurrency.acquire("a", 2)),
    [true, true, false],
  );
  assert.ok(concurrency.acquire("b", 1), "another account");
  concurrency.release("a");
  assert.deepEqual([concurrency.acquire("a", 2), concurrency.acquire("a", 2)], [true, false]);
});

it("accounts without requests under way are kept nowhere", () => {
  const concurrency = new ConcurrencyLimiter();
  const heapMiB = () => {
    collect();
    return process.memoryUsage().heapUsed / 2 ** 20;
  };
  const emptyMiB = heapMiB();
  for (let i = 0; i < 300_000; i++) {
    concurrency.acquire(`account ${i}`, 1);
    concurrency.release(`account ${i}`);
  }
  // Three hundred thousand names would take some 25 MiB.
  assert.ok(heapMiB() - emptyMiB < 8);
  assert.ok(concurrency.acquire("account 0", 1));
});
