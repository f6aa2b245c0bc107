import { formatDay } from "../../core/quota/days.ts";
import type { Move, QuotaDecision, WindowUsage } from "../../core/quota/decide.ts";
import type { MeterUse } from "../../core/quota/meters.ts";
import { windowLabel } from "../../core/quota/rate-limit-info.ts";
import { roundUpToSeconds } from "../../core/quota/whole-seconds.ts";
import { usageStart } from "../../core/quota/windows.ts";
import type { Reporter } from "../../telemetry/log/log.ts";
import { type AccountRef, accountId } from "./account-ref.ts";
import type { LostSettlement } from "./count-corrections.ts";

/**
 * Units of an account that the store may have charged without a reply that says so, or may have
 * charged twice; in a report of lost charges, those that it will never charge.
 */
export type UncertainCharge = {
  readonly accountRef: AccountRef;
  readonly units: number;
  readonly meters?: readonly MeterUse[];
};

/** Logs uncertain charges that have units. Returns these, without those of meters. */
export function reportUncertain(
  report: Reporter,
  store: string,
  charges: readonly UncertainCharge[],
): number {
  const told = namedUnits(charges);
  if (told.accounts === "") return 0;
  report("warn", "charges_uncertain", { store, ...told });
  return told.units;
}

/** The most accounts that one line of lost charges names. */
const LINE_ACCOUNTS_MAX = 1_000;

/** Logs charges that are lost, by account. */
export function reportLostCharges(report: Reporter, charges: readonly UncertainCharge[]): void {
  const lost = charges.filter((charge) => namedUnits([charge]).accounts !== "");
  for (let at = 0; at < lost.length; at += LINE_ACCOUNTS_MAX) {
    report("error", "charges_lost", namedUnits(lost.slice(at, at + LINE_ACCOUNTS_MAX)));
  }
}

/** Logs what requests used beyond their holds, or less, and no count will ever have. */
export function reportLostSettlement(
  report: Reporter,
  { environment, account }: AccountRef,
  { day, meter, units, ids }: LostSettlement,
): void {
  const told = { environment, account, id: ids.join(" "), meter, units, day: formatDay(day) };
  report("warn", "settlement_lost", told);
}

/** Logs what a decision repaired, with each window and ban that it moved to the present. */
export function reportRepair(
  report: Reporter,
  told: AccountRef & { readonly store?: string },
  decision: QuotaDecision,
): void {
  const moved = decision.moved?.map((move) => moveDetails(move, decision));
  report("warn", "counter_repaired", moved === undefined ? told : { ...told, moved });
}

function moveDetails({ at, fromMs }: Move, { windows, ban }: QuotaDecision) {
  const from = roundUpToSeconds(fromMs);
  if (at === "ban") return { ban: true, from, ...(ban && { to: roundUpToSeconds(ban.untilMs) }) };
  const usage = windows[at] as WindowUsage;
  const to = roundUpToSeconds(usageStart(usage));
  return { window: windowLabel(usage), used: usage.used, from, to };
}

/**
 * The sum of the units, and those of each account and meter that has some, as in
 * `production:acme 3, production:acme#tokens 2000`. The sum is without those of meters.
 */
function namedUnits(charges: readonly UncertainCharge[]) {
  const named = new Map<string, number>();
  const add = (name: string, units: number) => {
    if (units > 0) named.set(name, (named.get(name) ?? 0) + units);
  };
  for (const { accountRef, units, meters = [] } of charges) {
    add(accountId(accountRef), units);
    for (const meter of meters) add(`${accountId(accountRef)}#${meter.name}`, meter.units);
  }
  const sum = charges.reduce((before, { units }) => before + units, 0);
  return { units: sum, accounts: [...named].map((each) => each.join(" ")).join(", ") };
}
