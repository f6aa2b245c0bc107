import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, beforeAll, describe, it } from "vitest";
import { normalizeAddress } from "../../../../src/core/address.ts";
import type { BanPolicy } from "../../../../src/core/quota/bans.ts";
import type { Limit, WindowName } from "../../../../src/core/quota/windows.ts";
import { AnonymousClients } from "../../../../src/gateway/client/anonymous-clients.ts";
import type { AccountRef } from "../../../../src/stores/quotas/account-ref.ts";
import { createMemoryQuotaStore } from "../../../../src/stores/quotas/memory/create-memory-quota-store.ts";
import type { QuotaStore } from "../../../../src/stores/quotas/quota-store.ts";
import { costs, limitsUpTo } from "../../../core/quota/asks.ts";

let directory: string;
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "tollgate-state-"));
});
afterAll(() => rm(directory, { recursive: true, force: true }));

const START = Date.UTC(2026, 6, 15, 12, 30, 10);
/** Never in this test: neither a sweep nor a write but the one at the end. */
const EVERY_MS = 2_000_000_000;
const TERMS = { environment: "production", plan: "free", limits: [] };

const id = fc.stringMatching(/^[A-Za-z0-9._-]{1,64}$/);
const address = fc.oneof(
  fc.ipV4(),
  fc.ipV6(),
  fc.ipV4().map((v4) => `::ffff:${v4}`),
  fc.ipV6().map((v6) => `${v6}%eth0`),
  fc.constant(undefined),
);
const anonymous = address.map((text) => {
  return new AnonymousClients().get(TERMS, normalizeAddress(text), 0).account;
});
const account = fc.oneof(id, anonymous, fc.constant("addr:other"), fc.constant("__proto__"));
const name = fc.record({
  environment: fc.constantFrom("production", "staging", "a-1", "constructor"),
  account,
});
const policy: fc.Arbitrary<BanPolicy | undefined> = fc.option(
  fc.record({
    strikes: fc.integer({ min: 1, max: 3 }),
    withinMs: fc.constantFrom(1_000, 60_000),
    graceMs: fc.constantFrom(0, 1, 1_000),
    durationMs: fc.constantFrom(1, 1_001, 60_000),
    factor: fc.constantFrom(1, 1.37, 4, 1_000),
    maxMs: fc.constantFrom(60_000, 86_400_000, 31_536_000_000),
    forgetAfterMs: fc.constantFrom(60_000, 86_400_000),
    observe: fc.boolean(),
  }),
  { nil: undefined, freq: 4 },
);
const who = fc.nat({ max: 3 });
const action = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({ act: fc.constant("spend" as const), who, kind: who, cost: costs }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      act: fc.constant("wait" as const),
      waitMs: fc.constantFrom(1, 1_001, 59_990, 3_600_000, 86_400_000, -5_000, -90_000_000),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      act: fc.constant("ban" as const),
      who,
      lengthMs: fc.integer({ min: 1, max: 31_536_000_000 }),
      window: fc.constantFrom<WindowName>("minute", "month"),
    }),
  },
  { weight: 1, arbitrary: fc.record({ act: fc.constant("lift" as const), who }) },
  { weight: 1, arbitrary: fc.record({ act: fc.constant("reset" as const), who }) },
  { weight: 2, arbitrary: fc.record({ act: fc.constant("restart" as const) }) },
);
const history = fc.record({
  names: fc.array(name, { minLength: 4, maxLength: 4 }),
  limits: fc.array(limitsUpTo(6), { minLength: 4, maxLength: 4 }),
  bans: policy,
  actions: fc.array(action, { minLength: 1, maxLength: 40 }),
});
type Action = typeof action extends fc.Arbitrary<infer T> ? T : never;

describe("Whatever the memory store can hold", () => {
  it("the state file brings back: restarts change no answer", async () => {
    let run = 0;
    const seen = { addresses: 0, bans: 0 };
    await fc.assert(
      fc.asyncProperty(history, async ({ names: accountRefs, limits, bans, actions }) => {
        run += 1;
        const stateFile = join(directory, `${run}.json`);
        let nowMs = START;
        const open = (file: string | undefined) => {
          const now = () => nowMs;
          return createMemoryQuotaStore({
            ...{ stateFile: file, now, report: () => {} },
            everyMs: EVERY_MS,
          });
        };
        const whole = await open(undefined);
        let restarted = await open(stateFile);
        const act = async (store: QuotaStore, each: Action) => {
          if (each.act === "wait" || each.act === "restart") return;
          const at = accountRefs[each.who] as AccountRef;
          if (each.act === "lift") return store.liftBan(at);
          if (each.act === "reset") return store.reset(at);
          if (each.act === "ban")
            return store.ban(at, { ...each, keptMs: 60_000, plan: "free", reason: "why" });
          const asked = limits[each.kind] as readonly Limit[];
          return store.charge(at, { limits: asked, bans, requests: 1, cost: each.cost });
        };
        const told = (store: QuotaStore) => {
          const asks = accountRefs.flatMap((at) => limits.map((each) => ({ at, each })));
          return Promise.all(asks.map(({ at, each }) => store.peek(at, { limits: each, bans })));
        };
        for (const each of [...actions, { act: "restart" as const }]) {
          if (each.act === "wait") nowMs += each.waitMs;
          else if (each.act === "restart") {
            await restarted.close();
            restarted = await open(stateFile);
          } else {
            const expected = await act(whole, each);
            const given = await act(restarted, each);
            assert.deepEqual(given, expected, JSON.stringify(each));
            if (each.act === "spend" && accountRefs[each.who]?.account.startsWith("addr:")) {
              seen.addresses += 1;
            }
          }
        }
        const all = await told(restarted);
        assert.deepEqual(all, await told(whole));
        seen.bans += all.filter(({ ban }) => ban !== undefined).length;
        await restarted.close();
        await whole.close();
      }),
      { numRuns: 150 },
    );
    assert.ok(seen.addresses > 0 && seen.bans > 0, JSON.stringify(seen));
  });
});
