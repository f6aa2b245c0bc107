import assert from "node:assert/strict";
import { describe, it } from "vitest";
import type { KeyContext } from "../../../../src/core/keys/edit-rules.ts";
import type { Records } from "../../../../src/core/keys/records.ts";
import type { Limit } from "../../../../src/core/quota/windows.ts";
import { encodeKeyFile } from "../../../../src/stores/keys/file/file-format.ts";
import { readLines } from "../../../../src/stores/keys/file/import-lines.ts";
import { importNow } from "../../../../src/stores/keys/file/import-records.ts";
import { record, withAccounts } from "../record.ts";

const linesOf = (file: string, text: string) => readLines(file, Buffer.from(text), 5_000);

const NOTHING: Records = { accounts: [], keys: [] };
const { accounts, keys } = withAccounts(record("k_1"), record("k_2"), record("k_3"));
const [first, second, third] = accounts;
assert.ok(first && second && third);
/** A plan and an environment that left the configuration, and a plan that became custom. */
const KEPT: Records = {
  keys: keys.map((key) =>
    key.account === second.id ? { ...key, environment: "closed", revokedMs: 2_000 } : key,
  ),
  accounts: [
    { ...first, plan: "sold out", limits: [] },
    { ...second, environment: "closed" },
    { ...third, plan: "agreed", limits: [] },
  ],
};
const context: KeyContext = {
  keyPrefix: "pets",
  environments: [{ name: first.environment, keyTag: "live" }],
  plans: new Map<string, readonly Limit[] | "custom">([
    [second.plan, [{ window: "day", limit: 9 }]],
    ["agreed", "custom"],
  ]),
  random: () => 0,
  nowMs: 5_000,
};
const options = { plain: false, foreignKeys: [], context };

describe("an import of the records that were kept when Redis lost them", () => {
  it("brings all of them back, also those of a plan or an environment that is configured no more", async () => {
    const text = [...encodeKeyFile(KEPT)].join("");
    const done = importNow(NOTHING, await linesOf("state.json.lost", text), options);
    assert.ok(done.ok, JSON.stringify(done));
    const plans = done.records.accounts.map(({ id, plan }) => [id, plan]);
    assert.deepEqual(
      plans,
      KEPT.accounts.map(({ id, plan }) => [id, plan]),
    );
    assert.equal(done.records.keys.length, 3);
    const again = importNow(done.records, await linesOf("x", text), options);
    assert.ok(again.ok && again.records === done.records);
  });

  it("takes metadata with an empty value, which earlier builds wrote, as none of that name", async () => {
    const kept = { ...KEPT, accounts: KEPT.accounts.map((one) => ({ ...one, meta: { a: "" } })) };
    const text = [...encodeKeyFile(kept)].join("");
    const done = importNow(NOTHING, await linesOf("state.json.lost", text), options);
    assert.ok(done.ok, JSON.stringify(done));
    assert.deepEqual(
      done.records.accounts.map(({ meta }) => meta),
      [{}, {}, {}],
    );
  });

  it("brings back names and ids that are entered no more, which an export may not bring", async () => {
    const odd: Records = {
      accounts: [{ ...first, plan: second.plan, id: "." }],
      keys: keys.slice(0, 2).map((key, index) => {
        return { ...key, account: ".", id: index === 0 ? ".." : key.id, name: "shop \u200e one" };
      }),
    };
    const lines = await linesOf("state.json.lost", [...encodeKeyFile(odd)].join(""));
    const done = importNow(NOTHING, lines, options);
    assert.ok(done.ok, JSON.stringify(done));
    assert.deepEqual(
      done.records.keys.map(({ id, name }) => [id, name]),
      odd.keys.map(({ id, name }) => [id, name]),
    );
    const { exportLines } = await import("../../../../src/stores/keys/file/export-records.ts");
    const named = {
      accounts: [{ ...first, plan: second.plan }],
      keys: [{ ...keys[0]!, name: "\u200e" }],
    };
    const exported = await linesOf("-", [...exportLines(named)].join("\n"));
    const refused = importNow(NOTHING, exported, options);
    assert.ok(!refused.ok && refused.message.startsWith("-:2: Cannot use the name"));
  });

  it("keeps the plan that an account was moved to since, and brings the others back", async () => {
    const text = [...encodeKeyFile(KEPT)].join("");
    const moved = { ...second, environment: "closed", plan: "agreed" };
    const now: Records = { accounts: [moved], keys: [] };
    const done = importNow(now, await linesOf("state.json.lost", text), options);
    assert.ok(done.ok, JSON.stringify(done));
    assert.deepEqual([done.keys, done.accounts], [3, 2]);
    assert.deepEqual(done.records.accounts[0], moved);
    assert.deepEqual(done.differing, [`${second.id} (plan)`]);
    const lines = (await linesOf("-", text)).map((line) => ({ ...line, isKept: false }));
    const refused = importNow(now, lines, options);
    assert.ok(!refused.ok && refused.message.includes("on plan agreed here"), "but of an export");
  });

  it("is no way to move accounts to a plan of another name by lines", async () => {
    const { exportLines } = await import("../../../../src/stores/keys/file/export-records.ts");
    const lines = await linesOf("-", [...exportLines(KEPT)].join("\n"));
    const done = importNow(NOTHING, lines, options);
    assert.ok(!done.ok && done.reason === "refused");
    assert.match(done.message, /^-:1: Cannot use plan "sold out" as it is unknown/m);
    assert.match(done.message, /^-:2: environment "closed" is unknown$/m);
  });
});
