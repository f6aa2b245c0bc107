import type { FailoverLoss } from "./failover-loss.ts";
import type { KillLoss } from "./kill-loss.ts";
import type { LoadOptions } from "./load-generator.ts";
import type { MeterChecker } from "./meter-checker.ts";

type Judges = {
  readonly promises: LoadOptions["judge"];
  readonly meters: Pick<MeterChecker, "take">;
  readonly failoverLoss: Pick<FailoverLoss, "take">;
  readonly killLoss: Pick<KillLoss, "take">;
};

/** One judge of the load, by which each of these learns of every request. */
export function judgeAll({ promises, ...others }: Judges): LoadOptions["judge"] {
  return {
    take: (shot) => {
      for (const judge of [promises, ...Object.values(others)]) judge.take(shot);
    },
    deniedAfterWaiting: (account, seconds) => promises.deniedAfterWaiting(account, seconds),
  };
}
