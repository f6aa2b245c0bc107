import type { FailoverLoss } from "./judge/failover-loss.ts";
import type { KillLoss } from "./judge/kill-loss.ts";
import type { MeterChecker } from "./judge/meter-checker.ts";
import type { LoadOptions } from "./load-generator.ts";

type Checkers = {
  readonly promises: LoadOptions["checker"];
  readonly meters: Pick<MeterChecker, "take">;
  readonly failoverLoss: Pick<FailoverLoss, "take">;
  readonly killLoss: Pick<KillLoss, "take">;
};

/** One judge of the load, by which each of these learns of every request. */
export function judgeAll({ promises, ...others }: Checkers): LoadOptions["checker"] {
  return {
    take: (sent) => {
      for (const judge of [promises, ...Object.values(others)]) judge.take(sent);
    },
    deniedAfterWaiting: (account, seconds) => promises.deniedAfterWaiting(account, seconds),
  };
}
