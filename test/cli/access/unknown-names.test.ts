import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { envOptionError, nameOptionsError } from "../../../src/cli/access/unknown-names.ts";
import { EXIT_USAGE } from "../../../src/server/process/process-context.ts";

/** A call with one option, or with none. */
function callWith(option: string, value: string | undefined) {
  return { text: (name: string) => (name === option ? value : undefined) };
}

describe("a name that is not configured", () => {
  const environments = [{ name: "production" }, { name: "staging" }];
  const plans = new Map([
    ["free", 1],
    ["pro", 2],
  ]);
  const reached = { config: { environments, plans }, brokenPartError: () => undefined };

  it("of an environment is told with those that are", () => {
    assert.equal(envOptionError(callWith("env", undefined), reached), undefined);
    assert.equal(envOptionError(callWith("env", "staging"), reached), undefined);
    const message = 'Unknown environment "prod": expected production, staging';
    const told = { status: EXIT_USAGE, message };
    assert.deepEqual(envOptionError(callWith("env", "prod"), reached), told);
    assert.deepEqual(nameOptionsError(callWith("env", "prod"), reached, { accounts: [] }), told);
  });

  it("of a plan is told with those that are, unless an account is still on it", () => {
    const accounts = [{ plan: "old" }, { plan: "free" }];
    for (const plan of [undefined, "pro", "old"]) {
      assert.equal(nameOptionsError(callWith("plan", plan), reached, { accounts }), undefined);
    }
    const told = { status: EXIT_USAGE, message: 'Unknown plan "gold": expected free, pro' };
    assert.deepEqual(nameOptionsError(callWith("plan", "gold"), reached, { accounts }), told);
  });
});
