import type { Config } from "../../config/config.ts";
import type { KeyRecord, Records } from "../../core/keys/records.ts";
import { type KeyReport, keyReports, keyReportsWithLastUse } from "../../core/keys/reports.ts";
import { lastUsedOf } from "../../stores/open-stores.ts";
import type { Terminal } from "../framework/terminal.ts";

/**
 * Keys as they are shown, with the day on which each was used last. A store that is away does not stand
 * in the way: the days are not known then, and stderr says so.
 */
export async function withLastUsed(
  keys: readonly KeyRecord[],
  records: Records,
  { config, terminal }: { readonly config: Config; readonly terminal: Terminal },
): Promise<readonly KeyReport[]> {
  const ids = keys.map(({ id }) => id);
  try {
    return keyReportsWithLastUse(keys, records, await lastUsedOf(config, ids));
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    terminal.err(`Cannot tell when keys were used last: ${why}\n`);
    return keyReports(keys, records);
  }
}
