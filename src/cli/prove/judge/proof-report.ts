import type { RedisAddress } from "../../../config/schema/addresses.ts";
import type { FailoverOutcome } from "../../../stores/open-stores.ts";
import type { CheckReport, TimeSpan } from "../trial/promises.ts";
import type { PlantedFault } from "../trial/workload.ts";
import type { ChargeComparison } from "./charge-comparison.ts";

export type ProveOptions = {
  readonly gateways: number;
  /** A Redis on another machine. If undefined, one is started here, if it is installed. */
  readonly redis: RedisAddress | undefined;
  readonly seconds: number;
  readonly fault: PlantedFault | undefined;
  /** The command that runs this program again. */
  readonly self: readonly [string, ...string[]];
  readonly tell: (doing: string) => void;
  /** Aborted if the proof must end early. */
  readonly signal: AbortSignal;
};

export type ProofReport = CheckReport &
  ChargeComparison & {
    readonly gateways: number;
    readonly store: "redis" | "memory";
    readonly forwarded: number;
    readonly doubleForwards: number;
    /** Units of the meter by which the history differs from those told, and no line names. */
    readonly metersOff: number;
    /** Single replies of the store that were delayed. */
    readonly lateAnswers: number;
    /** For how long the store was stopped; 0 if the proof cannot stop it. */
    readonly storeAwayMs: number;
    readonly gatewaysKilled: number;
    /** The planned failover of a Sentinel or a Cluster: the new master, or why there was none. */
    readonly failover: FailoverOutcome | null;
    /**
     * Units that a failover of Sentinel lost, because its replication is asynchronous: at most those
     * of its busiest second. The others are lost charges.
     */
    readonly failoverLost: number;
    /** The periods in which gateways decided by their shares. */
    readonly away: readonly TimeSpan[];
  };
