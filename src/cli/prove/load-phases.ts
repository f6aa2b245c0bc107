import { setTimeout as sleep } from "node:timers/promises";
import type { ProofClient } from "./issue-keys.ts";
import type { PromiseChecker } from "./judge/checker.ts";
import type { FailoverLoss, FailoverOutcome } from "./judge/failover-loss.ts";
import type { KillLoss } from "./judge/kill-loss.ts";
import type { MeterChecker } from "./judge/meter-checker.ts";
import type { OutageTracker } from "./judge/outage-tracker.ts";
import type { ProofReport, ProveOptions } from "./judge/proof-report.ts";
import { LoadGenerator } from "./load-generator.ts";
import { judgeAll } from "./load-judge.ts";
import type { ChildHandle, GatewayChild } from "./trial/processes.ts";
import { delayAnswers, type PauseControl, type StoreProxy } from "./trial/store-proxy.ts";

/** The time within which the store comes back and everything admitted without it is charged. */
export const SETTLE_MS_MAX = 10_000;
const AWAY_MS_MAX = 2_500;
/** The load of a busy machine goes on for at most this long, until enough was seen. */
const FURTHER_MS_MAX = 60_000;

export type LoadPhasesOptions = {
  readonly options: Pick<ProveOptions, "seconds" | "fault" | "tell" | "signal">;
  readonly gateways: readonly GatewayChild[];
  readonly clients: readonly ProofClient[];
  /** The Redis that the proof started, which it may stop. */
  readonly redis: ChildHandle | undefined;
  /** The way to that Redis, on which single answers can be delayed. */
  readonly proxy: StoreProxy | undefined;
  /** Has a store that was given fail over; undefined if it cannot. */
  readonly failOver: (() => Promise<FailoverOutcome>) | undefined;
  readonly checker: PromiseChecker;
  readonly outages: OutageTracker;
  readonly meters: MeterChecker;
  readonly killLoss: KillLoss;
  readonly failoverLoss: FailoverLoss;
};

export type Disturbances = Pick<ProofReport, "storeAwayMs" | "gatewaysKilled" | "failover">;

/**
 * Loads the gateways, in five parts of the time given: as they are, with single answers of the store
 * delayed, with the store away or failing over, as they are again, and with a gateway killed.
 * Resolves when the load has ended, and all that reported an outage are back from it. Rejects if the
 * proof was aborted.
 */
export function runLoad(options: LoadPhasesOptions): Promise<Disturbances> {
  return new LoadPhases(options).run();
}

class LoadPhases {
  readonly #parts: LoadPhasesOptions;
  /** The gateways that requests are sent to. */
  readonly #alive: GatewayChild[];
  readonly #waiting: PauseControl;

  constructor(parts: LoadPhasesOptions) {
    const { signal } = parts.options;
    this.#parts = parts;
    this.#alive = [...parts.gateways];
    const pause = (ms: number) => sleep(ms, undefined, { signal }).catch(() => {});
    this.#waiting = { pause, signal };
  }

  async run(): Promise<Disturbances> {
    const { clients, failoverLoss, options, outages } = this.#parts;
    const { seconds, tell, signal } = options;
    const phaseMs = seconds * 200;
    const load = this.#createLoad();
    tell("Loading");
    load.start(
      clients.filter(({ plan }) => plan !== "polite"),
      clients.filter(({ plan }) => plan === "polite"),
    );
    await this.#waiting.pause(phaseMs);
    await this.#delayAnswers(phaseMs);
    const storeAwayMs = await this.#disturbStore(phaseMs);
    await this.#waiting.pause(phaseMs);
    const gatewaysKilled = await this.#killOne();
    await this.#waiting.pause(phaseMs);
    await this.#untilEnough();
    // A master that was replaced accepts writes for a while. They are lost in the end.
    const failover = await failoverLoss.outcome();
    await this.#untilBack();
    await load.stop({ abandoned: signal.aborted });
    signal.throwIfAborted();
    await outages.stop();
    signal.throwIfAborted();
    return { storeAwayMs, gatewaysKilled, failover };
  }

  #createLoad(): LoadGenerator {
    const { checker, meters, failoverLoss, killLoss, options } = this.#parts;
    return new LoadGenerator({
      checker: judgeAll(checker, [meters, failoverLoss, killLoss]),
      origins: () => this.#alive.map(({ url }) => url),
      isRetryAfterLess: options.fault === "retry-after",
    });
  }

  async #delayAnswers(phaseMs: number): Promise<void> {
    const { proxy, options } = this.#parts;
    const { fault, tell } = options;
    if (proxy === undefined || (fault !== undefined && fault !== "late")) {
      await this.#waiting.pause(phaseMs);
      return;
    }
    tell("Delaying single answers of the store");
    await delayAnswers(proxy, phaseMs, this.#waiting);
  }

  /** Stops the store, or has it fail over. Gives for how many milliseconds it was stopped. */
  async #disturbStore(phaseMs: number): Promise<number> {
    const { failoverLoss, failOver, options, redis } = this.#parts;
    const { fault, tell } = options;
    if (fault === undefined && redis !== undefined) {
      tell("Taking the store away");
      const awayMs = Math.min(AWAY_MS_MAX, phaseMs);
      redis.process.kill("SIGSTOP");
      await this.#waiting.pause(awayMs);
      redis.process.kill("SIGCONT");
      await this.#untilBack();
      return awayMs;
    }
    if (fault === undefined && failOver !== undefined) {
      tell("Having the store fail over");
      failoverLoss.begin(Date.now(), failOver());
    }
    await this.#waiting.pause(phaseMs);
    return 0;
  }

  /** Kills the last gateway if there are several. Gives how many it killed. */
  async #killOne(): Promise<number> {
    const { gateways, killLoss, options, outages } = this.#parts;
    const { fault, tell } = options;
    if (this.#alive.length === 1 || fault !== undefined) return 0;
    const doomed = this.#alive.at(-1) as GatewayChild;
    // A gateway that is killed loses what it has not charged yet.
    await this.#untilBack();
    await outages.untilCharged(doomed, SETTLE_MS_MAX, this.#waiting);
    tell("Killing a gateway");
    this.#alive.pop();
    const name = String(gateways.indexOf(doomed));
    const chargesMs = outages.chargedUntilMs(doomed);
    const settlementsMs = outages.settledUntilMs(name, doomed, Date.now());
    killLoss.kill(doomed.url, { chargesMs, settlementsMs });
    doomed.process.kill("SIGKILL");
    outages.killed(chargesMs);
    return 1;
  }

  async #untilEnough(): Promise<void> {
    const { checker, options } = this.#parts;
    const untilMs = Date.now() + FURTHER_MS_MAX;
    while (!checker.hasSeenEnough && !options.signal.aborted && Date.now() < untilMs) {
      await this.#waiting.pause(100);
    }
  }

  /** Resolves when every gateway that reported an outage has reported its end. */
  async #untilBack(): Promise<void> {
    await this.#waiting.pause(100);
    await this.#parts.outages.untilBack(SETTLE_MS_MAX, this.#waiting);
  }
}
