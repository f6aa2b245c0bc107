import { formatCount } from "../../base/messages.ts";
import type { RefusalCode } from "../refusal.ts";
import { REFUSALS } from "../refusal-table.ts";
import { WINDOW_NAMES, windowStart } from "./windows.ts";

/** The members of a request's log line that explain a refusal (docs/reference/log.md). */
export type RefusalRecord = {
  readonly id: string;
  readonly env?: string | undefined;
  readonly account?: string | undefined;
  readonly key?: string | undefined;
  readonly plan?: string | undefined;
  readonly method: string;
  readonly path: string;
  readonly status: number;
  readonly code?: string | undefined;
  readonly decision: string;
  readonly charged: number;
  /** Unix milliseconds of the store's clock. */
  readonly decidedAt?: number | undefined;
  readonly cost?: number | undefined;
  readonly strikes?: number | undefined;
  readonly config?: string | undefined;
  readonly windows?:
    | readonly (readonly [name: string, used: number, limit: number, reset: number])[]
    | undefined;
  /** Units that the request would have held of each meter. */
  readonly holds?: Readonly<Record<string, number>> | undefined;
  /** The start of the month among the windows, in Unix seconds, if it is not the first day. */
  readonly monthFrom?: number | undefined;
  /** The end of the ban in force, in Unix seconds. */
  readonly ban?: number | undefined;
  /** The end of the brownout that ran, in Unix seconds. */
  readonly until?: number | undefined;
  readonly by?: string | undefined;
  readonly why?: string | undefined;
};

/** One window as it was decided. `from` and `reset` are its bounds in Unix seconds. */
type ExplainedWindow = {
  readonly window: string;
  readonly used: number;
  readonly limit: number;
  readonly remaining: number;
  readonly from: number;
  readonly reset: number;
  /** Whether the cost of the request, or what it holds of a meter, did not fit. */
  readonly exhausted: boolean;
};

/** The cause of a ban: people imposed it, with or without a reason, or strikes earned it. */
export type KnownBan = { readonly imposed: boolean; readonly reason?: string | undefined };

/** The reason for the answer to a request. Instants are Unix seconds. */
export type Explanation = {
  readonly id: string;
  readonly environment: string | null;
  readonly account: string | null;
  readonly key: string | null;
  readonly plan: string | null;
  readonly request: string;
  readonly status: number;
  readonly code: string | null;
  readonly rule: string;
  readonly cost: number | null;
  readonly charged: number;
  /** The window that resets last among the exhausted ones. */
  readonly window: ExplainedWindow | null;
  readonly windows: readonly ExplainedWindow[];
  readonly strikes: number | null;
  /** The ban in force. `imposed`: by hand or earned; null if that is not known here. */
  readonly ban: {
    readonly until: number;
    readonly imposed: boolean | null;
    readonly reason: string | null;
  } | null;
  readonly decidedAt: number | null;
  readonly decidedBy: string | null;
  readonly config: string | null;
  /**
   * The first instant at which the request would pass, by the counts of that time; null for never.
   * A `meter_held` may pass sooner, because of a settlement, and so may a refusal because of a share,
   * once the store is back.
   */
  readonly passesAt: number | null;
};

/**
 * Explains one line of the log, by the rules under which it was decided
 * (docs/reference/http.md#quotas). The result is the same from the memory of a gateway and from a
 * file. `known` describes the ban in force, which the line does not.
 */
export function explainRefusal(record: RefusalRecord, known?: KnownBan): Explanation {
  const { decidedAt, ban, until, code } = record;
  const windows = (record.windows ?? []).map((told) => explained(told, record));
  const exhausted = windows.filter((one) => one.exhausted);
  const window = exhausted.reduce<ExplainedWindow | undefined>(
    (last, one) => (last === undefined || one.reset >= last.reset ? one : last),
    undefined,
  );
  const ends = [...exhausted.map(({ reset }) => reset), ban, until].filter(
    (end) => end !== undefined,
  );
  return {
    id: record.id,
    environment: record.env ?? null,
    account: record.account ?? null,
    key: record.key ?? null,
    plan: record.plan ?? null,
    request: `${record.method} ${record.path}`,
    status: record.status,
    code: code ?? null,
    rule: ruleOf(record, window, known),
    cost: record.cost ?? null,
    charged: record.charged,
    window: window ?? null,
    windows,
    strikes: record.strikes ?? null,
    ban:
      ban === undefined
        ? null
        : { until: ban, imposed: known?.imposed ?? null, reason: known?.reason || null },
    decidedAt: decidedAt === undefined ? null : decidedAt / 1_000,
    decidedBy: record.by ?? null,
    config: record.config ?? null,
    passesAt: ends.length === 0 ? null : Math.max(...ends),
  };
}

function explained(
  [window, used, limit, reset]: readonly [string, number, number, number],
  { cost = 1, decidedAt = 0, monthFrom, holds }: RefusalRecord,
): ExplainedWindow {
  // A window of an operation is `createPet.minute`.
  const name = WINDOW_NAMES.find((one) => one === window.split(".").at(-1));
  const startMs = name === undefined ? 0 : windowStart(name, decidedAt);
  const isAnchored = name === "month" && monthFrom !== undefined;
  const from = isAnchored ? monthFrom : Math.floor(startMs / 1_000);
  const hold = holdIn(window, holds);
  const takes = hold ?? cost;
  // A window of a meter is full for a hold of 0 from its limit on.
  const isFull = hold === 0 && used >= limit;
  const exhausted = isFull || (takes > 0 && used + takes > limit);
  return { window, used, limit, remaining: Math.max(0, limit - used), from, reset, exhausted };
}

/** The units that a request holds in a window such as `tokens.minute`; undefined in all others. */
export function holdIn(window: string, holds: RefusalRecord["holds"]): number | undefined {
  const meter = window.slice(0, Math.max(0, window.lastIndexOf(".")));
  return holds !== undefined && Object.hasOwn(holds, meter) ? holds[meter] : undefined;
}

/** The rule that decided, in words. */
function ruleOf(
  { by, code, why, cost = 1, decision, account, holds }: RefusalRecord,
  window?: ExplainedWindow,
  ban?: KnownBan,
): string {
  if (code === "key_banned") {
    if (ban === undefined) {
      return `A ban of the account ran: tollgate bans why ${account ?? "ACCOUNT"} says how it came about`;
    }
    if (!ban.imposed)
      return "A ban ran: the account had earned it by going on after a limit was used up";
    return `A ban ran that was imposed by hand${ban.reason ? `: ${ban.reason}` : ", without a reason"}`;
  }
  if (window !== undefined) {
    const { window: name, used, limit } = window;
    const limited = `${name} limit is ${formatCount(limit, "unit")}: ${used} were used`;
    const hold = holdIn(name, holds);
    const takes = hold === undefined ? `the request costs ${cost}` : `the request holds ${hold}`;
    if (code === "rate_limited") return `The ${limited}, and ${takes}`;
    if (code === "meter_held") {
      return `The ${limited} or held by requests under way, and ${takes}. There may be room as soon as one of them is settled`;
    }
    if (by === "share") {
      return `This gateway's share of the ${limited}, and ${takes}. The limit itself has room, which is kept for what other gateways may owe: this is no rate limit, and no strike. There may be room as soon as the store is back and they owe nothing`;
    }
  }
  if (code === undefined) return `It was not refused: ${decision}`;
  const when = Object.hasOwn(REFUSALS, code) ? REFUSALS[code as RefusalCode].when : code;
  return why === undefined ? when : `${when}: ${why}`;
}
