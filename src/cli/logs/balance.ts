import { formatCount } from "../../base/messages.ts";
import type { PeriodSum } from "./ledger.ts";
import type { LineSpan } from "./log-span.ts";

export type Verdict = "matched" | "explained" | "drift" | "not compared";

/**
 * One period of an account: its units in the logs, the store and the gateways, with the verdict.
 */
export type Balance = {
  readonly account: string;
  readonly environment: string;
  /** A window, such as `day` or `createPet.minute`, or a day that is over, such as `2026-10-21`. */
  readonly window: string;
  /** Units that the lines of the logs charged. */
  readonly charged: number;
  /** Units that the store counted. */
  readonly counted: number;
  /** Units that were counted and that an operator set to 0. */
  readonly reset: number;
  /** Units of requests in progress, which have no line yet. */
  readonly open: number;
  /** Units that nothing explains: if above 0, the store has more; if below 0, fewer. */
  readonly drift: number;
  readonly verdict: Verdict;
  /** Why it is explained or not compared, in words. */
  readonly why?: string;
};

/** Everything that can explain a difference in one period. */
export type Evidence = {
  readonly counted: number;
  readonly sum: PeriodSum;
  /**
   * Units in progress that the store must have counted, after the logs were read, and those that it
   * may have counted, before. Some of these have a line by now.
   */
  readonly openLeast: number;
  readonly openMost: number;
  readonly uncertain: number;
  readonly lost: number;
  /** Why the store may have more units, from a killed gateway; undefined if none was killed. */
  readonly killed: string | undefined;
  /** The most units that it may have more for this reason; a number is not known of a meter. */
  readonly killedMost?: number;
  /** Units that it may have more because a clock that ran ahead was set back. */
  readonly setBack?: number;
  /** Units of a meter that may differ either way: those that lines tell as lost settlements. */
  readonly settlementLost?: number | undefined;
  /** The same for answers that were not settled when the window was reset, which no line names. */
  readonly unsettled?: number | undefined;
  /** Why the store may have units that neither the logs nor `openMost` tell; undefined if not. */
  readonly gap: string | undefined;
  /** Whether the window may have been reset without a line. */
  readonly mayLackReset?: boolean;
  /**
   * Why the store may have fewer units: for each reason the least number that it has, and the
   * words.
   */
  readonly fewer: readonly CountTolerance[];
};

/**
 * The store may have at least `from` and at most `to` units, because of `why`. `hasTold`: `from` is
 * lower by what lines tell as lost.
 */
export type CountTolerance = {
  readonly from: number;
  readonly to: number;
  readonly why: string;
  readonly hasTold?: boolean;
};

/** "1 unit was", "2 units were". */
export function unitsWere(units: number): string {
  return `${formatCount(units, "unit")} ${units === 1 ? "was" : "were"}`;
}

type BalanceVerdict = Pick<
  Balance,
  "charged" | "counted" | "reset" | "open" | "drift" | "verdict" | "why"
>;

/**
 * The law of one period (docs/reference/http.md#law): `charged + open = counted + reset`. A
 * difference that no line explains is drift. A period that the logs do not cover is not compared.
 */
export function judge(evidence: Evidence): BalanceVerdict {
  const { counted, sum, openLeast, openMost, lost } = evidence;
  const { charged, atEdge, reset } = sum;
  const all = counted + reset;
  const told = { charged: charged + atEdge, counted, reset };
  const over = all - (charged + atEdge + openMost);
  const under = charged + openLeast - all;
  const open = Math.max(openLeast, Math.min(openMost, all - charged - atEdge));
  const explained = (why: string) =>
    ({ ...told, open, drift: 0, verdict: "explained", why }) as const;
  if (over <= 0 && under <= 0) {
    const whys = [
      ...(reset > 0 ? [`${unitsWere(reset)} reset`] : []),
      ...(open > 0 ? [`${formatCount(open, "unit")} ${open === 1 ? "is" : "are"} under way`] : []),
    ];
    if (whys.length > 0) return explained(whys.join(", "));
    return { ...told, open, drift: 0, verdict: "matched" };
  }
  const { whys, left } = unitsExplained(evidence, Math.max(over, under), over > 0);
  if (left === 0) return explained(whys.join(", "));
  if (over > 0) {
    return { ...told, open, ...judgeMore(evidence, over) };
  }
  const fewer = evidence.fewer.find(({ from, to }) => {
    return all >= from + openLeast && all <= to + openMost;
  });
  if (fewer !== undefined) {
    const [named, units] = fewer.hasTold === true ? [whys, left] : [[], under];
    return explained([...named, `${formatCount(units, "unit")} fewer: ${fewer.why}`].join(", "));
  }
  if (under <= lost) return explained(`${formatCount(under, "unit")} fewer: ${TOLD_LOST}`);
  if (evidence.mayLackReset === true)
    return { ...told, open, drift: 0, verdict: "not compared", why: LACKS_RESETS };
  return { ...told, open, drift: -under, verdict: "drift" };
}

/** Judges units that the store has more and that no line names. */
function judgeMore(
  { killed, killedMost = Number.POSITIVE_INFINITY, gap }: Evidence,
  over: number,
): Pick<Balance, "drift" | "verdict" | "why"> {
  const more = `${formatCount(over, "unit")} more`;
  if (killed !== undefined && over <= killedMost) {
    return { drift: 0, verdict: "explained", why: `${more}: ${killed}` };
  }
  const open = `by the lines of the account at most ${killedMost} can have been open`;
  const why = gap ?? (killed && `${more}, and ${open}: ${killed}`);
  if (why !== undefined) return { drift: 0, verdict: "not compared", why };
  return { drift: over, verdict: "drift" };
}

const LACKS_RESETS = "the logs lack changes of commands, and a reset may be one of them";
const TOLD_LOST = "gateways told lost charges";
const SET_BACK = "the clock of the store was set back";
const CHANGED_CAP = "the cap of the key was changed in the window";

/** Why units differ as far as lines name them, and the units that are left. */
function unitsExplained(
  { sum, uncertain, lost, setBack = 0, settlementLost = 0, unsettled = 0 }: Evidence,
  difference: number,
  hasMore: boolean,
): { readonly whys: readonly string[]; readonly left: number } {
  const differ = (units: number, why: string) => {
    return `a difference of ${formatCount(units, "unit")}: ${why}`;
  };
  const whys: string[] = [];
  let left = difference;
  const take = (most: number, why: (units: number) => string) => {
    const units = Math.min(left, most);
    if (units > 0) whys.push(why(units));
    left -= units;
  };
  take(hasMore ? uncertain : 0, (units) => `${unitsWere(units)} told as uncertain`);
  take(hasMore ? sum.former : 0, (units) => `${formatCount(units, "unit")} more: ${CHANGED_CAP}`);
  take(hasMore ? setBack : 0, (units) => `${formatCount(units, "unit")} more: ${SET_BACK}`);
  take(settlementLost, (units) => differ(units, "told as settlement_lost"));
  const reset = "the window was reset while answers were under way";
  take(unsettled, (units) => differ(units, reset));
  // Lost units of a meter have no number, so they are the last resort.
  const named = hasMore || !Number.isFinite(lost) ? 0 : lost;
  take(named, (units) => `${formatCount(units, "unit")} fewer: ${TOLD_LOST}`);
  return { whys, left };
}

/** The most configurations one after the other that may lack a window, unless all but one do. */
const LACKING_MAX = 8;

/** Whether a gateway took the configuration `name`, first seen at `firstMs`, after `other`. */
export type HasReplaced = (name: string, other: string, firstMs: number) => boolean;

/**
 * Why a window may have fewer counted units: some plan or configuration did not have the window.
 * `isLastCounted`: whether the last configuration has it, as that in force has each window that is
 * compared. A day that is over may have ended without history. Configurations that
 * ran side by side explain nothing: a failover may lose as many units as one of them charged.
 */
export function fewerByChanges(
  { charged, atEdge, plans, configs }: PeriodSum,
  hasWindow: (plan: string) => boolean,
  hasReplaced: HasReplaced,
  isLastCounted = true,
): CountTolerance[] {
  const found: CountTolerance[] = [];
  if (plans.size > 1) {
    const units = [...plans].filter(([plan]) => hasWindow(plan)).reduce((sum, [, n]) => sum + n, 0);
    const names = [...plans.keys()].filter((plan) => !hasWindow(plan)).join(", ");
    const why = `the plan was changed, and ${names} does not have the window`;
    if (names !== "") found.push({ from: units - atEdge, to: units, why });
  }
  const ordered = [...configs].toSorted(([, a], [, b]) => a.lastMs - b.lastMs);
  const pairs = pairsSideBySide(ordered, hasReplaced);
  const others = ordered.length - 1;
  const maybeLacking = isLastCounted ? ordered.slice(0, -1) : ordered;
  const lengths = [others, ...Array.from({ length: LACKING_MAX }, (_, i) => i + 1)];
  for (const length of new Set(lengths.filter((each) => each > 0 && each <= others))) {
    for (let first = 0; first + length <= maybeLacking.length; first++) {
      const lacking = maybeLacking.slice(first, first + length);
      const isLacking = (name: string) => lacking.some(([each]) => each === name);
      if (pairs.some(([a, b]) => isLacking(a) !== isLacking(b))) continue;
      const units = lacking.reduce((sum, [, each]) => sum - each.units, charged + atEdge);
      const names = lacking.map(([name]) => name).join(", ");
      const counted =
        first === 0 && length === others
          ? "only what the last one charged is counted"
          : `nothing is counted under ${names}`;
      const why = `the configuration was changed, and ${counted}`;
      found.push({ from: units - atEdge, to: units, why });
    }
  }
  return found;
}

/** Whether some configuration came after another one, rather than all running side by side. */
export function hasConfigChanged(
  configs: ReadonlyMap<string, LineSpan>,
  hasReplaced: HasReplaced,
): boolean {
  const ordered = [...configs].toSorted(([, a], [, b]) => a.lastMs - b.lastMs);
  const pairs = (ordered.length * (ordered.length - 1)) / 2;
  return pairsSideBySide(ordered, hasReplaced).length < pairs;
}

/**
 * The configurations of which neither replaced the other. Lines that do not overlap prove nothing:
 * the traffic may have come to one gateway after the other.
 */
function pairsSideBySide(
  ordered: readonly (readonly [name: string, LineSpan])[],
  hasReplaced: HasReplaced,
): (readonly [string, string])[] {
  return ordered.flatMap(([earlier, { firstMs }], i) => {
    return ordered
      .slice(i + 1)
      .filter(([later, its]) => {
        return !(hasReplaced(later, earlier, its.firstMs) || hasReplaced(earlier, later, firstMs));
      })
      .map(([later]) => [earlier, later] as const);
  });
}
