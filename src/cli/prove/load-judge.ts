import type { LoadOptions } from "./load-generator.ts";

type Checker = LoadOptions["checker"];

/** One judge of the load, by which the checker and all others learn of every request. */
export function judgeAll(checker: Checker, others: readonly Pick<Checker, "take">[]): Checker {
  return {
    take: (sent) => {
      for (const judge of [checker, ...others]) judge.take(sent);
    },
    deniedAfterWaiting: (account, seconds) => checker.deniedAfterWaiting(account, seconds),
  };
}
