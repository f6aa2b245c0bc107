import { readFile } from "node:fs/promises";
import type { Redis } from "ioredis";

const FOLDER = new URL("../fixtures/first-release/", import.meta.url);

export function recorded(name: string): Promise<string> {
  return readFile(new URL(name, FOLDER), "utf8");
}

type Name =
  | "ada"
  | "ben"
  | "eve"
  | "pro"
  | "acme"
  | "acmeSecond"
  | "gone"
  | "rotated"
  | "successor";

type Run = {
  readonly recordedMs: number;
  readonly keys: Readonly<Record<Name, { readonly id: string; readonly key: string }>>;
};

type Stored = {
  readonly type: string;
  readonly pttl: number;
  readonly value: Readonly<Record<string, string>>;
};

/** A run of the first release: see test/fixtures/README.md. */
export async function recordedRun(name: "file.json"): Promise<Run>;
export async function recordedRun(
  name: "redis.json",
): Promise<Run & { readonly nowMs: number; readonly hashes: Readonly<Record<string, Stored>> }>;
export async function recordedRun(name: string): Promise<unknown> {
  return JSON.parse(await recorded(name));
}

/** Puts the hashes of the first release into a Redis, with the time to live that they had. */
export async function restore(
  redis: Redis,
  hashes: Readonly<Record<string, Stored>>,
): Promise<void> {
  for (const [key, { type, pttl, value }] of Object.entries(hashes)) {
    if (type !== "hash") continue;
    await redis.hset(key, value);
    if (pttl > 0) await redis.pexpire(key, pttl);
  }
}

/** The plans and bans that both runs had. */
export const TERMS = {
  plans: {
    free: { minute: 5, day: 1000 },
    pro: { second: 50, minute: 60, hour: 600, day: 10_000, month: 100_000 },
    enterprise: "custom",
  },
  bans: { strikes: 2, within: "1m", duration: "1h" },
} as const;
