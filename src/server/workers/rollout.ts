import type { Config } from "../../config/config.ts";
import type { Rollout } from "../process/config-reloader.ts";
import type { WorkerProcess } from "./worker-process.ts";

/**
 * If this many workers end one after the other while they take a configuration, no further worker
 * gets it, because the configuration may be the cause.
 */
const JUDGES_ENDED_MAX = 2;
/** Each worker has ended, and none has been started in its place yet. */
const NO_JUDGE = "no worker runs that could apply it; reload again when one serves";

/** How a worker answered to a new configuration; `reasons` are for people. */
type Verdict = {
  readonly is: "taken" | "refused" | "late" | "ended";
  readonly reasons: readonly string[];
};

type Apply = (worker: WorkerProcess) => Promise<Verdict>;

/** The part of the worker pool that a rollout reads and changes. */
type RolloutPool = {
  /** The workers that serve or are starting; one that is lost meanwhile is no longer among them. */
  readonly members: ReadonlySet<WorkerProcess>;
  /** Called as soon as one worker has taken the configuration: from now on others start with it. */
  onTaken(): void;
  /** Starts another worker in the place of one that did not take the configuration. */
  replace(worker: WorkerProcess): void;
};

/**
 * Brings a configuration to all workers. One judges it first: if it refuses the configuration, the
 * others do not get it, and the result says why. A worker that does not reply is replaced. If the
 * configuration was applied, the reasons are those of workers that have not taken it.
 */
export async function rollOut(config: Config, pool: RolloutPool): Promise<Rollout> {
  const asked = new Map<WorkerProcess, Verdict>();
  const applyIn = applier(config, pool);
  const refused = await judge(applyIn, pool, asked);
  const late = [...asked].filter(([, { is }]) => is === "late");
  if (countOf(asked, "taken") > 0) pool.onTaken();
  // The worker in the place of one that was late starts with the configuration in force. It is not
  // asked, because what is told of the late one is over when it serves.
  const others = [...pool.members].filter((worker) => !asked.has(worker));
  for (const [worker] of late) pool.replace(worker);
  if (refused !== undefined) return { applied: false, reasons: refused.reasons };
  if (countOf(asked, "taken") === 0) {
    return { applied: false, reasons: asked.size === 0 ? [NO_JUDGE] : reasonsOf(asked) };
  }
  // After a worker has applied the configuration, another can refuse it only for a temporary reason
  // of its own.
  await Promise.all(
    others.map(async (worker) => {
      const verdict = await applyIn(worker);
      asked.set(worker, verdict);
      if (verdict.is === "refused" || verdict.is === "late") pool.replace(worker);
    }),
  );
  // The worker in the place of one that ended has the new configuration.
  for (const [worker, { is }] of asked) if (is === "ended") asked.delete(worker);
  return { applied: true, reasons: reasonsOf(asked) };
}

/** Asks workers until one takes the configuration or refuses it, and returns the verdict of a refusal. */
async function judge(
  applyIn: Apply,
  pool: RolloutPool,
  asked: Map<WorkerProcess, Verdict>,
): Promise<Verdict | undefined> {
  for (const worker of [...pool.members]) {
    const verdict = await applyIn(worker);
    if (verdict.is === "refused") return verdict;
    asked.set(worker, verdict);
    if (verdict.is === "taken" || countOf(asked, "ended") === JUDGES_ENDED_MAX) break;
  }
  return undefined;
}

/**
 * Asks the others at once whether they answer while the first one judges, because several that stand
 * still would be found late one after the other. One that does not answer gets no configuration.
 */
function applier(config: Config, pool: RolloutPool): Apply {
  const [, ...others] = pool.members;
  const answered = new Map(others.map((worker) => [worker, worker.answered()]));
  for (const one of answered.values()) one.catch(() => {});
  return (worker) => apply(config, worker, { pool, answered: answered.get(worker) });
}

async function apply(
  config: Config,
  worker: WorkerProcess,
  { pool, answered }: { pool: RolloutPool; answered: Promise<void> | undefined },
): Promise<Verdict> {
  try {
    await answered;
    const answer = await worker.reload(config);
    return answer.ok
      ? { is: "taken", reasons: [] }
      : { is: "refused", reasons: answer.reasons ?? [] };
  } catch (error) {
    if (!pool.members.has(worker)) {
      return { is: "ended", reasons: ["it ended while it applied the configuration"] };
    }
    return { is: "late", reasons: [error instanceof Error ? error.message : String(error)] };
  }
}

type Verdicts = ReadonlyMap<WorkerProcess, Verdict>;

function countOf(verdicts: Verdicts, sought: Verdict["is"]): number {
  return [...verdicts.values()].filter(({ is }) => is === sought).length;
}

/** The reasons of all, each with the number of its worker; one that took the configuration has none. */
function reasonsOf(verdicts: Verdicts): readonly string[] {
  return [...verdicts].flatMap(([{ number }, { reasons }]) => {
    return reasons.map((reason) => `worker ${number}: ${reason}`);
  });
}
