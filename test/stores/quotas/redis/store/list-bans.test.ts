import assert from "node:assert/strict";
import { it } from "vitest";
import type { AccountBan } from "../../../../../src/stores/quotas/quota-store.ts";
import type { QuotaClient } from "../../../../../src/stores/quotas/redis/quota-client.ts";
import { listBans } from "../../../../../src/stores/quotas/redis/store/list-bans.ts";

const BAN = { untilMs: 200_000, offences: 1, window: "minute" } as const;

function held(account: string): AccountBan {
  const accountRef = { environment: "production", account };
  return { ...accountRef, ban: BAN as unknown as AccountBan["ban"], leftMs: 100_000, isLost: true };
}

it("a ban is lost only if it was known before the store was read, and is after", async () => {
  const send = async (command: string) => (command === "time" ? ["100", "0"] : ["0", []]);
  const link = { masters: async () => [{ send }] };
  const quotaClient = { link, prefix: "tg", ask: async () => null } as unknown as QuotaClient;
  const told = [
    [held("lost"), held("lifted")],
    [held("lost"), held("earned")],
  ];
  const heldBans = () => told.shift() ?? [];
  const bans = await listBans(quotaClient, { heldBans });
  assert.deepEqual(
    bans.map(({ account }) => account),
    ["lost"],
  );
});
