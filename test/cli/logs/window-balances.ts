import { type AskedPeriod, parseAskedPeriod } from "../../../src/cli/logs/audit-periods.ts";
import { windowBalances } from "../../../src/cli/logs/audit-windows.ts";
import { Incidents } from "../../../src/cli/logs/incidents.ts";
import { Ledger } from "../../../src/cli/logs/ledger.ts";
import { LogSpan } from "../../../src/cli/logs/log-span.ts";
import type { CountReport } from "../../../src/core/keys/usage-reports.ts";
import { DAY_MS, dayOf } from "../../../src/core/quota/days.ts";
import type { OpenCharge } from "../../../src/telemetry/history/diagnostics.ts";
import type { LoggedEvent, LoggedRequest } from "../../../src/telemetry/log/logged-line.ts";

export const ACME = { environment: "production", account: "acme" };
export const DAY = dayOf(Date.UTC(2026, 9, 21));
export const NOON = (DAY + 0.5) * DAY_MS;
export const AT = NOON + 1_000;
export const WINDOW = { from: DAY * DAY_MS, to: (DAY + 1) * DAY_MS };
const PLANS = new Map<string, unknown>([
  ["daily", [{ window: "day", limit: 100 }]],
  ["hourly", [{ window: "hour", limit: 100 }]],
  ["agreed", "custom"],
  ["watched", [{ window: "day", limit: 50 }]],
  ["watched by hand", "custom"],
]);
const WATCHED = { meters: [], observe: [{ window: "hour", limit: 9 }] };
const BOUNDS = new Map(["watched", "watched by hand"].map((plan) => [plan, WATCHED]));

export const OPEN = "what was open in it is not known";

export type Case = {
  readonly plan?: string;
  /** The plan and the units of each line; its configuration where it is not `config`. */
  readonly lines?: readonly (readonly [
    plan: string,
    charged: number,
    atMs?: number,
    of?: string,
  ])[];
  readonly events?: readonly Readonly<Record<string, unknown>>[];
  readonly windows: readonly Partial<CountReport["windows"][number]>[];
  readonly open?: readonly (readonly [before: number, after: number, more?: Partial<OpenCharge>])[];
  readonly asked?: Parameters<typeof parseAskedPeriod>[0];
  /** The configuration of each line. */
  readonly config?: string;
  readonly alive?: number;
  /** By how much the clock of the store is behind that of the gateways. */
  readonly storeBehindMs?: number;
  /** Whether the store told that it moved windows to the present as it was asked. */
  readonly moved?: true;
  /** When the account was created, and when the logs begin. */
  readonly createdMs?: number;
  readonly firstMs?: number;
};

/** The balances of the windows of one account. */
export function judged({ plan = "daily", lines = [], events = [], windows, ...more }: Case) {
  const { open = [], asked = {}, alive = 0, config = "c", storeBehindMs = 0 } = more;
  const { createdMs: created = 0, firstMs = NOON - 40 * DAY_MS, moved } = more;
  const whole = windows.map((one) => ({ window: "day", used: 0, ...WINDOW, ...one }));
  const incidents = new Incidents();
  const span = new LogSpan();
  span.line(firstMs);
  span.line(AT);
  const said = events.map((event) => ({ time: NOON, ...event }) as unknown as LoggedEvent);
  for (const [, , atMs = NOON, of = config] of lines) incidents.line(atMs, of);
  for (const event of said) incidents.event(event);
  const counts = [{ ...ACME, plan, created, at: AT, ...(moved && { moved }), windows: whole }];
  const ledger = new Ledger(counts, [], (...of) => incidents.awayIn(...of, alive));
  for (const [i, [linePlan, charged, atMs = NOON, of = config]] of lines.entries()) {
    const line = { msg: "request", id: `r${i}`, env: ACME.environment, account: ACME.account };
    const decided = { time: atMs, durationMs: 0, decidedAt: atMs - storeBehindMs };
    const charges = { plan: linePlan, charged, config: of };
    ledger.request({ ...line, ...decided, ...charges } as unknown as LoggedRequest);
  }
  for (const event of said) ledger.event(event);
  const charges = (place: 0 | 1) => {
    return open.map((one) => ({ ...ACME, units: one[place], decidedAt: NOON, ...one[2] }));
  };
  const inputs = {
    config: { plans: PLANS as never, planBounds: BOUNDS as never, historyMs: DAY_MS },
    hasDescriptions: true,
    ...{ ledger, incidents, span, alive, openBefore: charges(0), openAfter: charges(1) },
  };
  const period = parseAskedPeriod(asked) as AskedPeriod | undefined;
  return windowBalances(inputs, period).map(({ window, verdict, drift, why }) => {
    return [window, verdict, drift, why];
  });
}

export const MATCHED = [["day", "matched", 0, undefined]];
export const drift = (units: number) => [["day", "drift", units, undefined]];
export const explained = (why: string) => [["day", "explained", 0, why]];
