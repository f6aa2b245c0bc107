import assert from "node:assert/strict";
import { it } from "vitest";
import type { Config } from "../../src/config/config.ts";
import { unservedPlans } from "../../src/config/unserved-records.ts";
import { recordsFrom } from "../support/records.ts";

const NOON = Date.UTC(2026, 6, 15, 12);

it("a command says that a key which works again has no limits, unless its file lacks the environment of the key", () => {
  const environments = [{ name: "production" }];
  const config = { plans: new Map(), environments } as unknown as Config;
  const told = (environment: string) => {
    const records = (expiresMs: number) => {
      return recordsFrom([{ id: "k_1", account: "acme", plan: "gone", environment, expiresMs }]);
    };
    const change = [records(NOON), records(NOON + 1)] as const;
    return unservedPlans(config, change, { withoutLimits: ["acme"], nowMs: NOON });
  };
  const [why, ...others] = told("production");
  assert.match(
    String(why),
    /^Requests are answered 503 .* plan gone, and the account acme has it;/,
  );
  assert.deepEqual([others, told("staging")], [[], []]);
});
