import assert from "node:assert/strict";
import { describe, it } from "vitest";
import {
  unknownEnvironmentError,
  unknownPlanError,
} from "../../../src/cli/access/unknown-names.ts";

describe("a name that is not configured", () => {
  const environments = [{ name: "production" }, { name: "staging" }];
  const plans = new Map([
    ["free", 1],
    ["pro", 2],
  ]);

  it("of an environment is told with those that are", () => {
    assert.equal(unknownEnvironmentError(undefined, { environments }), undefined);
    assert.equal(unknownEnvironmentError("staging", { environments }), undefined);
    const told = 'Unknown environment "prod": expected production, staging';
    assert.equal(unknownEnvironmentError("prod", { environments }), told);
  });

  it("of a plan is told with those that are, unless an account is still on it", () => {
    const accounts = [{ plan: "old" }, { plan: "free" }];
    for (const plan of [undefined, "pro", "old"]) {
      assert.equal(unknownPlanError(plan, { plans }, { accounts }), undefined);
    }
    const told = 'Unknown plan "gold": expected free, pro';
    assert.equal(unknownPlanError("gold", { plans }, { accounts }), told);
  });
});
