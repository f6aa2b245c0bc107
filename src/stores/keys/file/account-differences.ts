import { isDeepStrictEqual } from "node:util";
import { type AccountRecord, isSuspended } from "../../../core/keys/records.ts";

/**
 * Names the parts in which two records of one account differ at `nowMs` (Unix milliseconds): its
 * state, own limits, metadata and anchor. The order of limits makes no difference.
 */
export function differingParts(one: AccountRecord, other: AccountRecord, nowMs: number): string[] {
  const parts = {
    state: (of: AccountRecord) => isSuspended(of, nowMs),
    limits: ({ limits }: AccountRecord) => {
      return Object.fromEntries(limits.map(({ window, limit }) => [window, limit]));
    },
    metadata: ({ meta }: AccountRecord) => meta,
    anchor: ({ calendar }: AccountRecord) => calendar,
  };
  return Object.entries(parts)
    .filter(([, part]) => !isDeepStrictEqual(part(one), part(other)))
    .map(([name]) => name);
}
