import assert from "node:assert/strict";
import { it } from "vitest";
import type { KeyRecord, Records } from "../../../src/core/keys/records.ts";
import { watchTerms } from "../../../src/server/process/watch-terms.ts";
import type { AccountRef } from "../../../src/stores/quotas/account-ref.ts";
import { eventually } from "../../support/poll.ts";
import { recordsFrom } from "../../support/records.ts";

it("what is known of an account is dropped as a key of it gets limits of its own, and that of others stays", async () => {
  let records: Records = recordsFrom([{ id: "acme" }, { id: "other" }]);
  let change = () => {};
  const onChange = (listener: () => void) => {
    change = listener;
    return () => {};
  };
  const dropped: string[] = [];
  const invalidate = ({ account }: AccountRef) => void dropped.push(account);
  watchTerms({ records: () => records, onChange }, { invalidate });
  const capped = (key: KeyRecord): KeyRecord => {
    if (key.account !== "acme") return { ...key, name: "renamed" };
    return { ...key, caps: { number: 1, limits: [{ window: "day", limit: 5 }] } } as never;
  };
  records = { ...records, keys: records.keys.map(capped) };
  change();
  await eventually(() => assert.deepEqual(dropped, ["acme"]));
});
