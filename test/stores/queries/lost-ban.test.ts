import assert from "node:assert/strict";
import { it } from "vitest";
import type { QuotaDecision } from "../../../src/core/quota/decide.ts";
import { readWithLostBan } from "../../../src/stores/queries/lost-ban.ts";

const ACCOUNT = { environment: "production", account: "a" };
const BAN = { untilMs: 5_000, lengthMs: 1_000, window: "minute", offences: 1 } as const;
const BANS = {} as never;

/** The lost ban, by what is known before and after the store answers at `nowMs` of its clock. */
async function lost(nowMs: number, known: readonly (typeof BAN | undefined)[], ban?: typeof BAN) {
  let asked = 0;
  const quotas = { knownBan: () => known[asked++] };
  const decision = { nowMs, ban } as Partial<QuotaDecision> as QuotaDecision;
  return (await readWithLostBan(quotas, ACCOUNT, BANS, async () => decision)).lostBan;
}

it("a ban is lost if it is known before and after, has not ended, and the store has none", async () => {
  assert.equal(await lost(4_999, [BAN, BAN]), BAN);
  assert.equal(await lost(5_000, [BAN, BAN]), undefined, "it has ended by the clock of the store");
  assert.equal(await lost(4_000, [undefined, BAN]), undefined, "it was earned meanwhile");
  assert.equal(await lost(4_000, [BAN, undefined]), undefined, "it was lifted meanwhile");
  assert.equal(await lost(4_000, [BAN, BAN], BAN), undefined, "the store has it");
});
