import assert from "node:assert/strict";
import { it } from "vitest";
import type { QuotaClient } from "../../../../../src/stores/quotas/redis/quota-client.ts";
import { RedisUsageMarks } from "../../../../../src/stores/quotas/redis/store/redis-usage-marks.ts";
import { lateFailure } from "../../../../../src/stores/redis/store-failure.ts";

it("marks are told without those of a part of the store that does not answer, and not at all where no part does", async () => {
  const asked: string[] = [];
  let answers = 1;
  const runOnAccounts = async (_script: unknown, [key = ""]: string[], names: string[]) => {
    asked.push(key);
    if (asked.length > answers) throw lateFailure(2_000);
    return ["0", ...names.map(() => "7")];
  };
  const marks = new RedisUsageMarks({ prefix: "tg", runOnAccounts } as unknown as QuotaClient);
  const accountRefs = Array.from({ length: 20 }, (_, i) => {
    return { environment: "production", account: `a_${i}` };
  });
  const told = await marks.read(accountRefs);
  assert.ok(asked.length > 1, "several parts");
  assert.deepEqual([...new Set(told.map((mark) => mark?.day))].toSorted(), [7, undefined]);
  answers = 0;
  await assert.rejects(marks.read(accountRefs), /no answer/);
});
