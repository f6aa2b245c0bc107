import assert from "node:assert/strict";
import { it } from "vitest";
import { suspendOne } from "../../../src/admin/api/accounts.ts";
import type { ApiRequest } from "../../../src/admin/api/api-request.ts";
import type { KeyStore } from "../../../src/stores/keys/key-store.ts";
import { checkEdit } from "../../../src/stores/keys/records/check-edit.ts";
import { RecordSet } from "../../../src/stores/keys/records/record-set.ts";
import { accountFor, record } from "../../stores/keys/record.ts";

const COUNT = 6_000;

it("a suspension looks at few of many accounts and keys, once a first one has found its own", async () => {
  let looks = 0;
  const counting = <T extends object>(made: T, member: keyof T): T => {
    const value = made[member];
    const get = () => {
      looks += 1;
      return value;
    };
    return Object.defineProperty({ ...made }, member, { enumerable: true, get });
  };
  const keys = Array.from({ length: COUNT }, (_, i) => record(`k_${i}`, { account: `a_${i}` }));
  const accounts = keys.map((key) => counting(accountFor(key), "plan"));
  const set = new RecordSet();
  await set.replace({ keys: keys.map((key) => counting(key, "account")), accounts });
  const change: KeyStore["change"] = async (edit) => {
    const before = set.records;
    const { records, result } = edit(before);
    const checked = await checkEdit({ records: before, damaged: [] }, records, set);
    await set.replace(checked.records, checked.changes);
    return result;
  };
  const deps = {
    keys: { change, records: () => set.records },
    config: () => ({ plans: new Map([["free", [{ window: "minute", limit: 60 }]]]) }),
    ...{ spreadKeys: async () => {}, now: () => 1_000, log: { info: () => {} } },
  };
  const suspend = async (id: string) => {
    const request = { deps, id, body: {}, query: new URLSearchParams() };
    const { status, body } = await suspendOne(request as unknown as ApiRequest);
    return { status, keys: JSON.parse(String(body)).keys as unknown };
  };
  assert.deepEqual(await suspend("a_7"), { status: 200, keys: ["k_7"] });
  looks = 0;
  assert.deepEqual(await suspend("a_4000"), { status: 200, keys: ["k_4000"] });
  assert.ok(looks < 50, `${looks} looks`);
  assert.equal(set.account("a_4000")?.suspended?.sinceMs, 1_000);
});
