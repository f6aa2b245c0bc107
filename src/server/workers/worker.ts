import { flushCompileCache } from "node:module";
import type { Config, LoadResult } from "../../config/config.ts";
import { drainTimes } from "../../core/http/edge-limits.ts";
import type { Diagnostics } from "../../telemetry/history/diagnostics.ts";
import { createLog, type Log } from "../../telemetry/log/log.ts";
import { removeCompileCache, setUpHeap } from "../process/compiled-code.ts";
import { startProcess, type WorkerHandle } from "../process/gateway-process.ts";
import { type LogPipe, openLogPipe } from "../process/log-pipe.ts";
import {
  CRASH_DRAIN_MS,
  CUT_MS,
  EXIT_FAILURE,
  EXIT_OK,
  EXIT_USAGE,
  fail,
  logCrash,
  type ProcessContext,
} from "../process/process-context.ts";
import {
  type DiagnosticsQuery,
  type DiagnosticsReply,
  openChannel,
  type SupervisorChannel,
  type WorkerCommand,
  type WorkerStart,
} from "./messages.ts";
import { workerLog } from "./worker-log.ts";

/** A process that is killed loses at most the counts of this time. */
const TELL_MS = 500;
/** The supervisor waits a little longer than this. */
const LAST_LINES_MS = 500;

/** Runs one process of several, without the admin listener, as the supervisor commands. */
export async function runWorker(context: ProcessContext): Promise<number> {
  const channel = openChannel();
  if (channel === undefined) {
    return fail(context, EXIT_USAGE, "The verb worker is for the gateway itself: use start");
  }
  return new WorkerMain(channel, context).run();
}

class WorkerMain {
  readonly #channel: SupervisorChannel;
  readonly #context: ProcessContext;
  readonly #pipe: LogPipe = openLogPipe(1);
  readonly #ended: Promise<number>;
  #end: (status: number) => void = () => {};
  #log: Log | undefined;
  #config: Config | undefined;
  #gateway: WorkerHandle | undefined;
  #starting: Promise<void> | undefined;
  #stopping = false;
  /** Set once the supervisor is gone: this process cleans up for it. */
  #removed: Promise<void> | undefined;

  constructor(channel: SupervisorChannel, context: ProcessContext) {
    this.#channel = channel;
    this.#context = context;
    this.#ended = new Promise((resolve) => {
      this.#end = resolve;
    });
  }

  run(): Promise<number> {
    const { process } = this.#context;
    // Ctrl-C reaches the whole group, but only the supervisor decides.
    process.onEnd(() => {});
    process.onHangUp(() => {});
    process.onCrash((error) => this.#onCrash(error));
    this.#channel.onMessage((message) => this.#onMessage(message));
    this.#channel.onGone(() => this.#onGone());
    void this.#channel.send({ hello: true });
    return this.#ended;
  }

  #onMessage(message: WorkerCommand): void {
    if ("start" in message) {
      this.#starting = this.#start(message.start);
    } else if ("reload" in message) {
      void this.#reload(message.reload, message.id);
    } else if ("refreshKeys" in message) {
      void this.#refreshKeys(message.refreshKeys);
    } else if ("changed" in message) {
      // A listener may serve already while the others are opened.
      void this.#starting?.then(() => this.#gateway?.hearChange(message.changed));
    } else if ("recall" in message) {
      void this.#recall(message.recall, message.id);
    } else if ("report" in message) {
      void this.#tell(message.report);
    } else {
      if (message.atOnce === true) this.#cut();
      void this.#stop(EXIT_OK);
    }
  }

  async #start({ config, gateway, ...takenOver }: WorkerStart): Promise<void> {
    const log = workerLog(createLog(this.#pipe, config.log.level, gateway), this.#channel);
    this.#log = log;
    this.#config = config;
    const load = async (): Promise<LoadResult> => {
      return { ok: true, config: this.#config ?? config, warnings: [], files: [] };
    };
    try {
      // The supervisor has the one admin listener.
      this.#gateway = await startProcess(
        { ...config, admin: undefined },
        {
          log,
          load,
          logDropped: () => this.#pipe.dropped(),
          worker: this.#channel.number,
          gateway,
          takenOver,
        },
      );
    } catch (error) {
      await this.#channel.send({ cannot: error instanceof Error ? error.message : String(error) });
      return this.#leave(EXIT_FAILURE);
    }
    setUpHeap(this.#context.process.v8);
    // Writes the cache for processes that start later, because a killed process would write none.
    flushCompileCache();
    await this.#tell();
    await this.#channel.send({ serving: this.#gateway.urls });
    setInterval(() => void this.#tell(), TELL_MS).unref();
  }

  async #reload(config: Config, id: number): Promise<void> {
    const before = this.#config;
    this.#config = { ...config, admin: undefined };
    const reloaded = await this.#gateway?.reload();
    // The drain is that of the configuration in force.
    if (reloaded?.ok === false) this.#config = before;
    if (reloaded !== undefined) await this.#channel.send({ reloaded, id });
  }

  async #refreshKeys(id: number): Promise<void> {
    await this.#gateway?.refreshKeys();
    await this.#tell(id);
  }

  async #recall(query: DiagnosticsQuery, id: number): Promise<void> {
    const diagnostics = this.#gateway?.diagnostics;
    const recalled = diagnostics === undefined ? {} : await answerFrom(diagnostics, query);
    await this.#channel.send({ recalled, id });
  }

  async #tell(id?: number): Promise<void> {
    if (this.#gateway === undefined) return;
    await this.#channel.send({ status: this.#gateway.status(), ...(id !== undefined && { id }) });
  }

  /**
   * Called when the supervisor is gone. Drains as after a stop command; if a stop was commanded
   * already, ends at once.
   */
  #onGone(): void {
    this.#removed = removeCompileCache(this.#context.env);
    if (this.#stopping) void this.#removed.then(() => this.#context.process.kill());
    else void this.#stop(EXIT_OK);
  }

  #onCrash(error: unknown): void {
    void this.#channel.send({ failing: logCrash(this.#log, error) });
    void this.#stop(EXIT_FAILURE, CRASH_DRAIN_MS);
  }

  async #stop(status: number, withinMs = Number.POSITIVE_INFINITY): Promise<void> {
    if (this.#stopping) return;
    this.#stopping = true;
    const { totalMs } = drainTimes(this.#config ?? { environments: [] });
    const deadlineMs = Math.min(totalMs, withinMs);
    const endMs = deadlineMs + CUT_MS;
    setTimeout(() => this.#context.process.kill(), endMs + LAST_LINES_MS).unref();
    const late = new Promise((resolve) => setTimeout(resolve, endMs).unref());
    // The drain of the configuration may be longer: what is cut has its line and its charge.
    if (withinMs < totalMs) setTimeout(() => this.#cut(), withinMs).unref();
    await this.#starting;
    await Promise.race([this.#gateway?.stop(), late]).catch((error: unknown) => {
      this.#log?.error("stop_failed", { why: error instanceof Error ? error.message : error });
    });
    this.#gateway?.dropOwed();
    await this.#leave(status);
  }

  #cut(): void {
    void this.#gateway?.stop({ atOnce: true }).catch(() => {});
  }

  /** Sends the last counts and lines before the exit. */
  async #leave(status: number): Promise<void> {
    await this.#tell();
    await Promise.all([this.#pipe.flush(LAST_LINES_MS), this.#removed]);
    this.#end(status);
  }
}

async function answerFrom(
  diagnostics: Diagnostics,
  query: DiagnosticsQuery,
): Promise<DiagnosticsReply> {
  if ("refusal" in query) return { refusal: await diagnostics.refusal(query.refusal, () => {}) };
  if ("open" in query) return { open: await diagnostics.openCharges(() => {}) };
  if ("refused" in query) return { refused: await diagnostics.refused() };
  await diagnostics.flushToStore(() => {});
  return {};
}
