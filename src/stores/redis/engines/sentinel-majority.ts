/** The last answer of one Sentinel, each address as `host:port`. */
export type SentinelAnswer = {
  /** Undefined if this Sentinel knows no master of that name. */
  readonly master: string | undefined;
  /** The replica that this Sentinel is about to make the master, or is making it. */
  readonly promoted?: string | undefined;
};

/** The answers of all Sentinels taken together. */
export type SentinelMajority = {
  /** The master that more than half of all Sentinels name. */
  readonly master: string | undefined;
  readonly promoted: string | undefined;
  /**
   * Why there is no single master; undefined if most agree, no other is named, and none is
   * promoted.
   */
  readonly split: string | undefined;
};

/** The master that all writes may go to: undefined while none is named, or another one is being made. */
export function settledMaster({ master, promoted }: SentinelMajority): string | undefined {
  return promoted === undefined ? master : undefined;
}

/**
 * `answers` has one place for each Sentinel. The place is empty while that Sentinel does not
 * answer. `name` is the Sentinels' name for the master.
 */
export function findMajority(
  answers: readonly (SentinelAnswer | undefined)[],
  name: string,
): SentinelMajority {
  const votes = new Map<string, number>();
  let promoted: string | undefined;
  for (const answer of answers) {
    if (answer?.master === undefined) continue;
    votes.set(answer.master, (votes.get(answer.master) ?? 0) + 1);
    promoted ??= answer.promoted;
  }
  const master = [...votes].find(([, count]) => count * 2 > answers.length)?.[0];
  if (promoted === master) promoted = undefined;
  return { master, promoted, split: splitOf(votes, { master, promoted }, answers, name) };
}

function splitOf(
  votes: ReadonlyMap<string, number>,
  { master, promoted }: Omit<SentinelMajority, "split">,
  answers: readonly (SentinelAnswer | undefined)[],
  name: string,
): string | undefined {
  if (promoted !== undefined) return `the Sentinels are making ${promoted} the master`;
  if (votes.size > 1) return `the Sentinels name ${[...votes.keys()].sort().join(" and ")}`;
  if (master !== undefined) return undefined;
  const count = answers.length;
  const asked = answers.filter((answer) => answer !== undefined).length;
  if (asked === 0) return `none of the ${count} Sentinels can be asked`;
  const most = `fewer than most of the ${count} Sentinels`;
  if (asked * 2 <= count) return `${most} can be asked`;
  const isKnown = votes.size > 0 || asked < count;
  return isKnown
    ? `${most} know a master ${name}`
    : `none of the ${count} Sentinels knows a master ${name}`;
}
