import assert from "node:assert/strict";
import { it } from "vitest";
import { exportLines } from "../../../../src/stores/keys/file/export-records.ts";
import { RecordCollector } from "../../../../src/stores/keys/records/record-collector.ts";
import { record, withAccounts } from "../record.ts";

it("a damaged key does not go on as it was known if a sound one has its digest now", async () => {
  const known = record("k_1", { account: "a" });
  const sound = { ...known, id: "k_2" };
  const collector = new RecordCollector();
  for (const line of exportLines(withAccounts(sound))) {
    const { record: kind, ...value } = JSON.parse(line);
    if (kind === "account") collector.account(value, ["account"]);
    else collector.key(value, ["key"]);
  }
  collector.key({ id: known.id }, ["damaged"]);
  const { records, damaged } = await collector.end(withAccounts(known), 0);
  assert.deepEqual(
    [records.keys.map(({ id }) => id), damaged.map(({ id, kept }) => [id, kept])],
    [["k_2"], [["k_1", undefined]]],
  );
});
