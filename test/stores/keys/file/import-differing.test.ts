import assert from "node:assert/strict";
import { it } from "vitest";
import type { KeyContext } from "../../../../src/core/keys/edit-rules.ts";
import type { KeyCaps } from "../../../../src/core/keys/records.ts";
import { exportLines } from "../../../../src/stores/keys/file/export-records.ts";
import { readLines } from "../../../../src/stores/keys/file/import-lines.ts";
import { importNow } from "../../../../src/stores/keys/file/import-records.ts";
import { each } from "../../../support/each.ts";
import { record, withAccounts } from "../record.ts";

const linesOf = (file: string, text: string) => readLines(file, Buffer.from(text), 5_000);

const here = withAccounts({ ...record("k_1"), scopes: ["a", "b"] });
const [key] = here.keys;
const [account] = here.accounts;
assert.ok(key && account);
const context: KeyContext = {
  keyPrefix: "pets",
  environments: [{ name: account.environment, keyTag: "live" }],
  plans: new Map([[account.plan, [{ window: "day", limit: 9 }]]]),
  random: () => 0,
  nowMs: 5_000,
};

it("an import names the known keys that stay with other scopes, networks or caps than in the lines", async () => {
  const capped = (caps: Omit<KeyCaps, "number">) => ({ caps: { number: 3, ...caps } });
  for (const [others, differing] of each([
    [{}, []],
    [{ scopes: ["b", "a"] }, []],
    [capped({ limits: [], droppedMs: 4_000 }), []],
    [{ scopes: ["a"] }, ["key k_1 (scopes)"]],
    [{ scopes: [], from: ["192.0.2.0/24"] }, ["key k_1 (scopes, from)"]],
    [capped({ limits: [{ window: "day", limit: 5 }] }), ["key k_1 (caps)"]],
  ] as const)) {
    const there = { ...here, keys: [{ ...key, ...others }] };
    const lines = await linesOf("-", [...exportLines(there)].join("\n"));
    const done = importNow(here, lines, { plain: false, foreignKeys: [], context });
    assert.ok(done.ok, JSON.stringify(done));
    assert.deepEqual([done.known, done.differing], [1, differing]);
    assert.equal(done.records, here, "nothing is changed");
  }
});
