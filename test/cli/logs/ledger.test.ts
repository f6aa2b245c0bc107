import assert from "node:assert/strict";
import { it } from "vitest";
import { Ledger } from "../../../src/cli/logs/ledger.ts";

it("a reset that a gateway told later counts in the window in which it was made", () => {
  const noon = Date.UTC(2026, 5, 1, 12);
  const ledger = new Ledger();
  const reset = { msg: "account_reset", account: "a", env: "production" };
  const windows = [{ window: "day", units: 7 }];
  ledger.event({ ...reset, windows, time: noon + 86_400_000, resetAt: noon });
  const day = (startMs: number) => ledger.of("production", "a", "day", startMs).reset;
  assert.deepEqual([day(noon - 43_200_000), day(noon + 43_200_000)], [7, 0]);
  ledger.event({ ...reset, windows, time: noon + 86_400_000 });
  assert.equal(day(noon + 43_200_000), 7, "else when it was told");
});
