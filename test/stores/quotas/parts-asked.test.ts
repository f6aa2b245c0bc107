import assert from "node:assert/strict";
import { it } from "vitest";
import type { AccountRef } from "../../../src/stores/quotas/account-ref.ts";
import { PartsAsked } from "../../../src/stores/quotas/parts-asked.ts";
import type { MissingPart } from "../../../src/stores/quotas/quota-store.ts";

const NODES = ["10.0.0.1:6379", "10.0.0.2:6379"] as const;
const name = (account: string): AccountRef => ({ environment: "production", account });
const partOf = ({ account }: AccountRef) => {
  const bucket = Number(account) % 2;
  return { node: NODES[bucket] as string, buckets: [bucket] };
};

it("asks a part that did not answer no more, and names it once", async () => {
  const missing: MissingPart[] = [];
  const parts = new PartsAsked(partOf, (part) => missing.push(part));
  const asked: string[] = [];
  const answers: (string | undefined)[] = [];
  for (const account of ["0", "1", "2", "3", "4", "5"]) {
    const question = async () => {
      asked.push(account);
      if (Number(account) % 2 === 1) throw new Error("no answer in 2000 ms");
      return account;
    };
    answers.push(await parts.ask(name(account), question));
  }
  assert.deepEqual(answers, ["0", undefined, "2", undefined, "4", undefined]);
  assert.deepEqual(asked, ["0", "1", "2", "4"]);
  assert.deepEqual(missing, [{ node: NODES[1], buckets: [1], why: "no answer in 2000 ms" }]);
});

it("rejects where the store has one part, or nobody wants to know which is missing", async () => {
  const fail = () => Promise.reject(new Error("away"));
  await assert.rejects(new PartsAsked(partOf, undefined).ask(name("1"), fail), /away/);
  const whole = new PartsAsked(
    () => undefined,
    () => assert.fail("there are no parts"),
  );
  await assert.rejects(whole.ask(name("1"), fail), /away/);
});
