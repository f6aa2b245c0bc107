import assert from "node:assert/strict";
import { it } from "vitest";
import { UncertainCharges } from "../../../../src/cli/prove/judge/uncertain-charges.ts";

it("units that may have been charged twice are added up by account, without those of meters", () => {
  const uncertain = new UncertainCharges();
  assert.deepEqual([uncertain.units, uncertain.of("a_1")], [0, 0]);
  const msg = "charges_uncertain";
  uncertain.onLogLine({ msg, accounts: "proof:a_1 3, proof:a_1#tokens 40, proof:a_2 10" });
  uncertain.onLogLine({ msg, accounts: "proof:a_1 2" });
  uncertain.onLogLine({ msg: "charges_lost", accounts: "proof:a_1 7" });
  const told = ["a_1", "a_2", "a_3"].map((account) => uncertain.of(account));
  assert.deepEqual([uncertain.units, ...told], [15, 5, 10, 0]);
});
