import { errorMessage } from "../../base/messages.ts";
import type { Config } from "../../config/config.ts";
import {
  type KeyReport,
  keyReports,
  keyReportsWithLastUse,
} from "../../core/keys/record-reports.ts";
import type { KeyRecord, Records } from "../../core/keys/records.ts";
import { dayOf } from "../../core/quota/days.ts";
import { lastUsedOf } from "../../stores/open-stores.ts";
import { showWait, type Terminal } from "../framework/terminal.ts";
import type { OperationResult } from "./account-operations.ts";
import { fetchAdmin, fetchAllPages, LIST } from "./admin-client.ts";

/** How long a list of keys waits for the running gateway. */
const GATEWAY_MS_MAX = 5_000;

type LastUses = { readonly days: ReadonlyMap<string, number>; readonly missing: readonly string[] };

/**
 * The last day on which each key was used. A gateway tells a shared store only twice a minute, and
 * is made to do so now; a store of its own only the gateway knows. Without a running gateway it is
 * what the last one wrote. `missing` names the workers that have not told theirs. Rejects if the
 * store is unreachable from here, or from the gateway.
 */
async function lastUsedNow(config: Config, ids: readonly string[]): Promise<LastUses> {
  const common = { members: LIST, withinMs: GATEWAY_MS_MAX };
  if (config.store.kind !== "memory") {
    const told = await fetchAdmin(config, { ...common, path: "/api/keys?limit=1" });
    return { days: await lastUsedOf(config, ids), missing: missingOf(told) };
  }
  const [id] = ids;
  const told =
    id !== undefined && ids.length === 1
      ? await fetchAdmin<KeyReport>(config, { ...common, path: `/api/keys/${id}`, members: ["id"] })
      : await fetchAllPages<KeyReport>(config, { ...common, path: "/api/keys?limit=10000" });
  if (!told.ok) return { days: await lastUsedOf(config, ids), missing: [] };
  const used = [told.value].flat().flatMap(({ id: key, lastUsed }) => {
    // The gateway leaves it out, where null is a key that was never used.
    if (lastUsed === undefined) throw new Error("the gateway could not ask its store");
    return lastUsed === null ? [] : [[key, dayOf(Date.parse(lastUsed))] as const];
  });
  return { days: new Map(used), missing: missingOf(told) };
}

function missingOf(told: OperationResult<unknown>): readonly string[] {
  return (told.ok && told.missing) || [];
}

/**
 * Keys for display, with the day on which each was last used. If the store is unreachable, the days
 * are left out, and stderr says so. It also names the workers whose last uses the days may lack.
 */
export async function withLastUsed(
  keys: readonly KeyRecord[],
  records: Records,
  { config, terminal }: { readonly config: Config; readonly terminal: Terminal },
): Promise<readonly KeyReport[]> {
  const ids = keys.map(({ id }) => id);
  try {
    const asked = lastUsedNow(config, ids);
    const { days, missing } = await showWait(terminal, "Reading the last use", asked);
    for (const part of missing) terminal.err(`Missing: ${part}\n`);
    return keyReportsWithLastUse(keys, records, days);
  } catch (error) {
    terminal.err(`Cannot tell when keys were used last: ${errorMessage(error)}\n`);
    return keyReports(keys, records);
  }
}
