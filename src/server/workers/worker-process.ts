import type { Worker } from "node:cluster";
import { afterRunning } from "../../base/event-loop.ts";
import type { Config } from "../../config/config.ts";
import type { ReloadResult } from "../../config/reload-result.ts";
import type { AdminEvent } from "../../stores/quotas/admin-changes.ts";
import type { ProcessStatus } from "../process/status.ts";
import { LineSplitter } from "./line-splitter.ts";
import type {
  DiagnosticsQuery,
  DiagnosticsReply,
  WorkerCommand,
  WorkerMessage,
  WorkerStart,
} from "./messages.ts";
import type { StoreAvailabilityEvent } from "./store-availability.ts";

/** Callbacks about one worker. */
type WorkerEvents = {
  onStatus(status: ProcessStatus): void;
  onStore(change: StoreAvailabilityEvent): void;
  /** Called once when the worker no longer serves, whatever follows. */
  onLost(why: string): void;
  /** Called with whole lines of its log. */
  onLines(lines: string): void;
};

/** A worker that takes longer to start counts as dead. */
const START_MS_MAX = 60_000;
const RELOAD_MS_MAX = 5_000;
const LATE = "it did not answer in time";
/** The pace at which the supervisor looks at its workers. */
export const TURN_MS = 500;
/** A worker that sends nothing for this many turns does not answer, and ends after twice as many. */
const SILENT_TURNS_MAX = 10;
/** Each question listens until it is answered, and the admin listener has 256 connections. */
const LISTENERS_MAX = 260;
/** The answer of a worker that has ended: it remembers nothing, and decides nothing any more. */
const ENDED = { recalled: {}, id: 0 } as const;

/** A worker, as the supervisor sees it. */
export class WorkerProcess {
  readonly number: number;
  readonly #worker: Worker;
  readonly #events: WorkerEvents;
  readonly #lines: LineSplitter;
  #lastId = 0;
  #lost = false;
  #serving = false;
  #stopped = false;
  #silentTurns = 0;
  /** The last status that the worker sent. */
  status: ProcessStatus | undefined;
  /** The signal that killed it while it drained, so that its last lines are not written. */
  killedBy: NodeJS.Signals | undefined;
  /** Resolves with the URLs when the worker serves. Rejects in words if it cannot. */
  readonly ready: Promise<Readonly<Record<string, string>>>;
  /** Resolves when the worker has ended and all of its output was read. */
  readonly closed: Promise<void>;
  #onServing: (urls: Readonly<Record<string, string>>) => void = () => {};
  #onCannot: (error: Error) => void = () => {};

  constructor(worker: Worker, start: () => Promise<WorkerStart>, events: WorkerEvents) {
    this.number = worker.id;
    this.#worker = worker;
    this.#events = events;
    this.#lines = new LineSplitter((lines) => events.onLines(lines));
    this.ready = new Promise((resolve, reject) => {
      this.#onServing = resolve;
      this.#onCannot = reject;
    });
    const starting = setTimeout(() => {
      this.#isLost("it did not start in time");
      this.kill();
    }, START_MS_MAX);
    this.ready.catch(() => {}).finally(() => clearTimeout(starting));
    worker.setMaxListeners(LISTENERS_MAX);
    worker.on("message", (message: WorkerMessage) => this.#onMessage(message, start));
    worker.on("error", (error) => this.#isLost(error.message));
    worker.process.stdout?.on("data", (chunk: Buffer) => this.#lines.take(chunk));
    this.closed = new Promise((resolve) => {
      worker.once("exit", (status, signal) => {
        const drains = this.#serving && (this.#lost || this.#stopped);
        if (drains) this.killedBy = signal as NodeJS.Signals | undefined;
        this.#isLost(`it ended with ${signal ?? status}`);
      });
      worker.process.once("close", () => {
        this.#lines.end();
        resolve();
      });
    });
  }

  get pid(): number | undefined {
    return this.#worker.process.pid;
  }

  get serving(): boolean {
    return this.#serving && !this.#lost;
  }

  /** Whether it has sent something within the last 5 s. Workers send their status twice a second. */
  get answers(): boolean {
    return this.#silentTurns < SILENT_TURNS_MAX;
  }

  /**
   * Called for each turn of the supervisor (TURN_MS), and returns whether it is too long that the
   * worker sent nothing. Turns are counted, not time: a machine that stalls as a whole has none.
   */
  turn(): boolean {
    this.#silentTurns += 1;
    return this.#silentTurns >= 2 * SILENT_TURNS_MAX;
  }

  /** Whether it has ever served. */
  get hasServed(): boolean {
    return this.#serving;
  }

  /** The number of its log lines that were dropped here. */
  get lost(): number {
    return this.#lines.lost;
  }

  /** Resolves when the worker serves and has answered a question. Rejects if there is no reply. */
  async answered(): Promise<void> {
    await this.ready;
    const answer = await this.#ask((report) => ({ report }), RELOAD_MS_MAX);
    if (answer === undefined) throw new Error(LATE);
  }

  /** Applies a configuration in the worker, once it serves. Rejects if there is no reply. */
  async reload(config: Config): Promise<ReloadResult> {
    await this.ready;
    const answer = await this.#ask((id) => ({ reload: config, id }), RELOAD_MS_MAX);
    if (answer === undefined) throw new Error(LATE);
    if ("reloaded" in answer) return answer.reloaded;
    throw new Error("it answered something else");
  }

  /** Updates `status`, also while it drains; waits at most `withinMs`. Never rejects. */
  async requestStatus(withinMs: number): Promise<void> {
    if (this.#serving) await this.#ask((report) => ({ report }), withinMs).catch(() => {});
  }

  /**
   * Makes the worker read the key records; waits at most `withinMs`. Returns whether no request is
   * decided any more by those it had: it has answered, or serves none. Never rejects.
   */
  async refreshKeys(withinMs: number): Promise<boolean> {
    if (!this.serving) return true;
    const ask = (refreshKeys: number): WorkerCommand => ({ refreshKeys });
    return (await this.#ask(ask, withinMs).catch(() => ENDED)) !== undefined;
  }

  /**
   * The worker's result from its memory, also while it drains; undefined if it does not reply within
   * `withinMs`. Never rejects.
   */
  async recall(recall: DiagnosticsQuery, withinMs: number): Promise<DiagnosticsReply | undefined> {
    if (!this.#serving) return {};
    const answer = await this.#ask((id) => ({ recall, id }), withinMs).catch(() => ENDED);
    return answer !== undefined && "recalled" in answer ? answer.recalled : undefined;
  }

  /** Tells the worker of a change of an account that the supervisor has made. */
  hearChange(changed: AdminEvent): void {
    this.#tell({ changed });
  }

  /** Tells the worker to drain and end. */
  stop(): void {
    this.#stopped = true;
    this.#tell({ stop: true });
  }

  /** Tells the worker to cut its requests, each with its line and its charge, and end. */
  stopAtOnce(): void {
    this.#stopped = true;
    this.#tell({ stop: true, atOnce: true });
  }

  kill(): void {
    this.#worker.process.kill("SIGKILL");
  }

  #onMessage(message: WorkerMessage, start: () => Promise<WorkerStart>): void {
    this.#silentTurns = 0;
    if ("hello" in message) {
      void start().then((what) => this.#tell(this.#stopped ? { stop: true } : { start: what }));
    } else if ("serving" in message) {
      this.#serving = true;
      this.#onServing(message.serving);
    } else if ("cannot" in message) {
      this.#onCannot(new Error(message.cannot));
      this.#isLost(message.cannot);
    } else if ("failing" in message) {
      this.#isLost(`it failed: ${message.failing}`);
    } else if ("store" in message) {
      this.#events.onStore(message.store);
    } else if ("status" in message) {
      this.status = message.status;
      this.#events.onStatus(message.status);
    }
  }

  /** Undefined if it does not answer in time. Rejects if it has ended. */
  #ask(
    question: (id: number) => WorkerCommand,
    withinMs: number,
  ): Promise<WorkerMessage | undefined> {
    if (!this.#worker.isConnected()) return Promise.reject(new Error("it ended"));
    this.#lastId += 1;
    const id = this.#lastId;
    return new Promise((resolve, reject) => {
      const end = (how: () => void) => {
        stopWaiting();
        this.#worker.off("exit", gone).off("message", answered);
        how();
      };
      // Comes after the listener of the constructor, so that the status of a reply is known.
      const answered = (message: WorkerMessage) => {
        if ("id" in message && message.id === id) end(() => resolve(message));
      };
      const gone = () => end(() => reject(new Error("it ended")));
      const stopWaiting = afterRunning(withinMs, () => end(() => resolve(undefined)));
      this.#worker.once("exit", gone).on("message", answered);
      this.#tell(question(id));
    });
  }

  #tell(message: WorkerCommand): void {
    if (this.#worker.isConnected()) this.#worker.send(message, undefined, undefined, () => {});
  }

  #isLost(why: string): void {
    if (this.#lost) return;
    this.#lost = true;
    this.#onCannot(new Error(`A worker could not start: ${why}`));
    this.#events.onLost(why);
  }
}
