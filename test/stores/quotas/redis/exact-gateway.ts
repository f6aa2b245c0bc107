import type { RedisAddress } from "../../../../src/config/schema/addresses.ts";
import { createRedisQuotaStore } from "../../../../src/stores/quotas/redis/store/redis-quota-store.ts";

/** A gateway's store in a process of its own: asks what it is told to, and says what was admitted. */
export type Round = {
  readonly round: number;
  readonly requests: number;
  readonly accounts: number;
  readonly limit: number;
};

/**
 * One admitted request: its account, its number in the window, and when it was sent and answered.
 */
export type Admitted = readonly [
  account: number,
  number: number,
  sentMs: number,
  answeredMs: number,
];

export const HISTORY_MS = 400 * 86_400_000;

/** The machine's monotonic clock, the same in every process. */
function clockMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}

export function accountOf(round: number, account: number): string {
  return `r${round}-${account}`;
}

async function serve(address: RedisAddress): Promise<void> {
  const store = await createRedisQuotaStore({
    address,
    prefix: "tg",
    report: () => undefined,
    timeoutMs: 5_000,
    historyMs: HISTORY_MS,
  });
  process.on("message", async ({ round, requests, accounts, limit }: Round) => {
    const quotaRequest = {
      limits: [{ window: "month", limit }],
      bans: undefined,
      requests: 1,
    } as const;
    const admitted: Admitted[] = [];
    let unanswered = 0;
    const request = async (i: number) => {
      const account = i % accounts;
      const sentMs = clockMs();
      const accountRef = { environment: "production", account: accountOf(round, account) };
      const answer = await store.charge(accountRef, quotaRequest);
      if (!("decision" in answer)) unanswered += 1;
      else if (answer.admitted) {
        const used = answer.decision.windows[0]?.used ?? 0;
        admitted.push([account, used - answer.requestsAfter, sentMs, clockMs()]);
      }
    };
    // Some at once, some on the heels of their answers: history needs both.
    await Promise.all(
      Array.from({ length: 64 }, async (_, first) => {
        for (let i = first; i < requests; i += 64) await request(i);
      }),
    );
    process.send?.({ round, admitted, unanswered });
  });
  process.on("disconnect", () => process.exit());
  process.send?.("ready");
}

const address = process.argv[2];
if (process.send !== undefined && address !== undefined) await serve(JSON.parse(address));
