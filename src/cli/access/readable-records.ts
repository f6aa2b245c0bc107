import { errorMessage } from "../../base/messages.ts";
import type { Config } from "../../config/config.ts";
import type { KeyStore } from "../../stores/keys/key-store.ts";
import type { Terminal } from "../framework/terminal.ts";
import { gatewayWithSameRecords } from "./gateway-differences.ts";
import { openGatewayRecords } from "./gateway-records.ts";
import { openStoredRecords } from "./with-keys.ts";

export type ReadableRecords = Pick<KeyStore, "records" | "refresh" | "identity" | "close">;

/**
 * The key records for queries about accounts. If they cannot be read, those that the running gateway
 * goes on with, or else none: then each use fails with the reason. On a Cluster all records are in one
 * bucket: while it is unreachable, the counts and bans of accounts in the others can still be asked.
 */
export async function openReadableRecords(
  config: Config,
  terminal: Terminal,
): Promise<ReadableRecords> {
  try {
    return await openStoredRecords(config, terminal);
  } catch (cause) {
    const origin = await gatewayWithSameRecords(config);
    if (origin === undefined) return unreadable(cause);
    const copy = await openGatewayRecords(config, terminal.now).catch(() => undefined);
    if (copy === undefined) return unreadable(cause);
    let isTold = false;
    const records = () => {
      const used = `those that the gateway at ${origin} knows are used`;
      if (!isTold) terminal.err(`${errorMessage(cause)}: ${used}\n`);
      isTold = true;
      return copy.records();
    };
    return { ...unreadable(cause), records };
  }
}

function unreadable(cause: unknown): ReadableRecords {
  return {
    records: () => {
      throw cause;
    },
    refresh: () => Promise.reject(cause),
    identity: () => Promise.reject(cause),
    close: async () => undefined,
  };
}
