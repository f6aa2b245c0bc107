import { randomBytes } from "node:crypto";
import type { KeyRecord } from "../../../src/core/keys/key.ts";
import type { KeyStore } from "../../../src/stores/interface/key-store.ts";

/** A record that a store accepts, with a digest of its own. */
export function record(id: string, more: Partial<KeyRecord> = {}): KeyRecord {
  return {
    id,
    digest: randomBytes(32).toString("hex"),
    name: "",
    plan: "free",
    environment: "production",
    account: id,
    scopes: [],
    limits: [],
    createdMs: Date.UTC(2026, 0, 1) + Number.parseInt(randomBytes(3).toString("hex"), 16),
    ...more,
  };
}

export async function add(store: KeyStore, ...records: readonly KeyRecord[]): Promise<void> {
  await store.change((before) => ({ records: [...before, ...records], result: undefined }));
}
