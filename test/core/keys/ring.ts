import assert from "node:assert/strict";
import { issueKeys } from "../../../src/core/keys/edit-keys.ts";
import type { EditRefusal, KeyContext } from "../../../src/core/keys/edit-rules.ts";
import type { NewKeys } from "../../../src/core/keys/new-keys.ts";
import { NO_RECORDS, type Records } from "../../../src/core/keys/records.ts";
import type { Limit } from "../../../src/core/quota/windows.ts";

export const NOON = Date.UTC(2026, 6, 15, 12);
export const DAY = 86_400_000;
export const LIMITS: readonly Limit[] = [{ window: "minute", limit: 500 }];

/** Dice that never fall alike twice, the same in each test. */
export function ring(nowMs = NOON): KeyContext {
  let state = 7;
  return {
    keyPrefix: "pets",
    environments: [
      { name: "production", keyTag: "live" },
      { name: "staging", keyTag: "test" },
    ],
    plans: new Map<string, readonly Limit[] | "custom">([
      ["free", [{ window: "minute", limit: 60 }]],
      ["pro", [{ window: "minute", limit: 300 }]],
      ["enterprise", "custom"],
    ]),
    random: (max) => {
      state = (state * 48_271) % 2_147_483_647;
      return state % max;
    },
    nowMs,
  };
}

export const FREE: NewKeys = { environment: "production", plan: "free" };

export function issue(wanted: Partial<NewKeys> = {}, records: Records = NO_RECORDS, dice = ring()) {
  const edited = issueKeys(records, { ...FREE, ...wanted }, dice);
  assert.ok(edited.ok, edited.ok ? "" : edited.message);
  return edited;
}

export function refusal(edited: { readonly ok: true } | EditRefusal): string {
  assert.ok(!edited.ok, "it was done");
  return `${edited.reason}: ${edited.message}`;
}

export function first<T>(list: readonly T[]): T {
  const [item] = list;
  assert.ok(item);
  return item;
}
