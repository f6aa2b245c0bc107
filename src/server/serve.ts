import { isAbsolute, relative, resolve } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import type { Config, LoadResult } from "../config/config.ts";
import { formatMistake, type Mistake } from "../config/file/mistake.ts";
import { loadConfig } from "../config/load/load.ts";
import { loadConfigAside } from "../config/load/load-aside.ts";
import { countingHash } from "../config/queries/counting-hash.ts";
import { drainTimes } from "../core/http/edge-limits.ts";
import { createLog, type Log } from "../telemetry/log/log.ts";
import { setUpHeap } from "./process/compiled-code.ts";
import type { GatewayHandle } from "./process/gateway-handle.ts";
import { newGatewayName } from "./process/identity.ts";
import { type LogPipe, openLogPipe } from "./process/log-pipe.ts";
import { logWarnings } from "./process/log-warnings.ts";
import {
  CRASH_DRAIN_MS,
  CUT_MS,
  EXIT_CONFIG,
  EXIT_FAILURE,
  EXIT_OK,
  fail,
  logCrash,
  type ProcessContext,
  type ShutdownCause,
  ShutdownSignals,
  STOP_AT_ONCE_MS,
} from "./process/process-context.ts";
import type { ServedGateway } from "./process/served-gateway.ts";
import { startGateway } from "./start.ts";
import { watchFiles } from "./watch-files.ts";

/** Exit status by the second signal: 128 plus its number, as in shells. */
const CUT_SHORT = { SIGINT: 130, SIGTERM: 143, "parent gone": 143 } as const;
/** The pause before a configuration that could not be read is read again. */
const TRY_AGAIN_MS = 1_000;
/** Time after the drain's deadline for the last log lines. Then this process is killed. */
const LAST_LINES_MS = 2_000;
/** Workers keep the deadline themselves. Their last lines arrive a little after it. */
const WORKERS_LATER_MS = 1_000;
const LAST_LINES_AT_ONCE_MS = 100;

type ServeOptions = {
  readonly file: string;
  readonly env: ProcessContext["env"];
  /** Formats log lines for a reader of stdout. If undefined, the lines are JSON. */
  readonly format?: ((lines: string) => string) | undefined;
  /** Called before the gateway starts. What it returns is called if the start fails. */
  readonly before?: (config: Config) => Promise<() => Promise<void>>;
  /** Called when the gateway serves. `print` writes to stdout, before any request line. */
  readonly ready?: (gateway: GatewayHandle, config: Config, print: (text: string) => void) => void;
};

/**
 * Runs the gateway until a signal ends it, and returns the exit status. SIGHUP or a save of one of
 * its files reloads. SIGTERM and SIGINT drain, and a second signal ends it at once
 * (docs/reference/edge.md#drain).
 */
export function serve(serving: ServeOptions, context: ProcessContext): Promise<number> {
  return new GatewayMain(serving, context).run();
}

class GatewayMain {
  readonly #serving: ServeOptions;
  readonly #context: ProcessContext;
  /** The absolute path, because another folder may take the place of the working folder. */
  readonly #file: string;
  /** The working folder at the start; undefined if the configuration is not named from there. */
  readonly #folder: string | undefined;
  readonly #pipe: LogPipe;
  /** Writes whole lines to the pipe, formatted for its reader. */
  readonly #write: LogPipe["write"];
  readonly #log: Log;
  readonly #name = newGatewayName();
  readonly #watch = watchFiles((because) => this.#reload(because));
  /** Whether something is open that a shutdown has to close. */
  #opening = false;
  /** Takes back what was prepared for a start, until it has led to a gateway that serves. */
  #undo: (() => Promise<void>) | undefined;
  /**
   * The longest drain of all configurations that may have been in force, because ending too early
   * would break a promise.
   */
  #longestDrainMs = 0;
  #drainLaterMs = 0;
  #gateway: ServedGateway | undefined;
  #ending = false;
  #cutShort = false;
  readonly #signals: ShutdownSignals;
  #signalled = false;
  /** When the first signal or the crash came, on performance.now(). */
  #endingMs: number | undefined;
  #stopped = false;
  #again: NodeJS.Timeout | undefined;
  /** Why it has to reload once it serves. */
  #due: string | undefined;
  #ended: (status: number) => void = () => {};

  constructor(serving: ServeOptions, context: ProcessContext) {
    const { format = (lines: string) => lines } = serving;
    this.#serving = serving;
    this.#file = resolve(serving.file);
    this.#folder = isAbsolute(serving.file) ? undefined : resolve(".");
    this.#context = context;
    this.#signals = new ShutdownSignals(context.process.underNpm);
    this.#pipe = openLogPipe(1, context.err);
    this.#write = (lines) => this.#pipe.write(format(lines));
    this.#log = createLog({ write: this.#write }, "info", this.#name);
  }

  async run(): Promise<number> {
    const ended = new Promise<number>((resolve) => {
      this.#ended = resolve;
    });
    const { process } = this.#context;
    // Registered before anything else: until then a signal ends the process without a word.
    process.onEnd((cause) => this.#onEnd(cause));
    process.onHangUp(() => this.#reload("SIGHUP"));
    return Promise.race([ended, this.#start().then((status) => status ?? ended)]);
  }

  /** Returns the exit status if there is nothing to run. */
  async #start(): Promise<number | undefined> {
    const loaded = await this.#load((...of) => loadConfig(...of, { forStart: true }));
    if (this.#ending) return undefined;
    if (!loaded.ok) {
      const mistakes = loaded.mistakes.map(formatMistake).join("\n");
      return fail(this.#context, EXIT_CONFIG, mistakes);
    }
    const { config } = loaded;
    this.#log.setLevel(config.log.level);
    logWarnings(this.#log, loaded.warnings);
    this.#drainLaterMs = config.workers === 1 ? 0 : WORKERS_LATER_MS;
    this.#opening = true;
    try {
      await this.#open(config);
    } catch (error) {
      if (this.#signalled) {
        // Ctrl-C reaches also the processes that the start depends on.
        if (!this.#ending) this.#end(EXIT_OK, 0);
        return undefined;
      }
      await this.#takeBack();
      await this.#pipe.flush(LAST_LINES_AT_ONCE_MS);
      throw error;
    }
    return undefined;
  }

  async #open(config: Config): Promise<void> {
    this.#undo = await this.#serving.before?.(config);
    if (this.#signalled) return this.#end(EXIT_OK, 0);
    const { process } = this.#context;
    process.onCrash((error) => this.#onCrash(error));
    const log = this.#log;
    this.#gateway = await startGateway(config, {
      log,
      gateway: this.#name,
      load: () => this.#load(loadConfigAside),
      logDropped: () => this.#pipe.dropped(),
      logTrouble: () => this.#pipe.trouble(),
      relay: this.#write,
    });
    if (this.#signalled) return this.#end(EXIT_OK, this.#drainMs());
    setUpHeap(process.v8);
    this.#serving.ready?.(this.#gateway, config, this.#write);
    this.#undo = undefined;
    const { urls, adminUrl } = this.#gateway;
    const counting = countingHash(config);
    log.info("serving", { urls, admin: adminUrl, config: config.hash, counting });
    if (this.#due !== undefined) this.#reload(this.#due);
  }

  async #load(load: typeof loadConfigAside): Promise<LoadResult> {
    clearTimeout(this.#again);
    const fromMs = Date.now();
    const loaded = this.#asNamed(await load(this.#file, this.#serving.env));
    if (loaded.ok) {
      const { totalMs } = drainTimes(loaded.config);
      this.#longestDrainMs = Math.max(this.#longestDrainMs, totalMs);
    }
    // A refused configuration may be mended by a save of a file that only it names.
    await this.#watch.setFiles(loaded.files, fromMs, !loaded.ok);
    if (loaded.ok || loaded.unread === undefined) return loaded;
    this.#tryAgain();
    return { ...loaded, unread: `${loaded.unread}; it is tried again each second` };
  }

  /** Files in the working folder are named from there if the configuration was. */
  #asNamed(loaded: LoadResult): LoadResult {
    const [{ file }, folder] = [this.#serving, this.#folder];
    if (folder === undefined) return loaded;
    const asNamed = <T extends Pick<Mistake, "file">>(one: T): T => {
      if (one.file === this.#file) return { ...one, file };
      const name = relative(folder, one.file);
      return name.startsWith("..") ? one : { ...one, file: name };
    };
    return loaded.ok
      ? { ...loaded, warnings: loaded.warnings.map(asNamed) }
      : { ...loaded, mistakes: loaded.mistakes.map(asNamed) };
  }

  /** Reloads a little later, without a line, because files that cannot be read yet are not saved again. */
  #tryAgain(): void {
    clearTimeout(this.#again);
    this.#again = setTimeout(() => {
      if (!this.#ending) this.#gateway?.reload(true).catch((error) => this.#onCrash(error));
    }, TRY_AGAIN_MS).unref();
  }

  #reload(because: string): void {
    if (this.#ending) return;
    if (this.#gateway === undefined) {
      this.#due = because;
      return;
    }
    this.#log.info("reloading", { because });
    this.#gateway.reload().catch((error) => this.#onCrash(error));
  }

  #onEnd(cause: ShutdownCause): void {
    const judgement = this.#signals.judge(cause, performance.now());
    if (judgement === "end") void this.#exit(CUT_SHORT[cause]);
    if (judgement !== "drain") return;
    this.#signalled = true;
    this.#endingMs ??= performance.now();
    this.#log.info("draining", { signal: cause });
    if (this.#ending) return;
    if (this.#gateway !== undefined) this.#end(EXIT_OK, this.#drainMs());
    else if (!this.#opening) this.#end(EXIT_OK, 0);
  }

  /** Nothing that a client or a backend sends may lead here: such a crash is a bug in Tollgate. */
  #onCrash(error: unknown): void {
    logCrash(this.#log, error);
    if (this.#ending) return;
    this.#end(EXIT_FAILURE, CRASH_DRAIN_MS);
    // The drain of the configuration may be longer: what is cut has its line and its charge.
    setTimeout(
      () => void this.#gateway?.stop({ atOnce: true }).catch(() => {}),
      CRASH_DRAIN_MS,
    ).unref();
  }

  #end(status: number, drainMs: number): void {
    this.#ending = true;
    this.#endingMs ??= performance.now();
    const { process } = this.#context;
    setTimeout(() => process.kill(), drainMs + LAST_LINES_MS).unref();
    const deadline = new Promise((resolve) => setTimeout(resolve, drainMs + CUT_MS).unref());
    let ended = status;
    const stopped = this.#gateway?.stop().catch((error: unknown) => {
      ended = EXIT_FAILURE;
      this.#log.error("stop_failed", { why: error instanceof Error ? error.message : error });
    });
    void Promise.race([stopped, deadline])
      .then(() => this.#takeBack())
      .then(() => this.#tellStopped())
      .then(() => this.#pipe.flush(LAST_LINES_MS))
      .then((flushed) => {
        if (this.#cutShort) return;
        if (flushed || !this.#pipe.holdsExit) this.#ended(ended);
        else process.kill();
      });
  }

  #tellStopped(): void {
    if (this.#stopped) return;
    this.#stopped = true;
    this.#gateway?.dropOwed();
    const nowMs = performance.now();
    const afterMs = Math.round(nowMs - (this.#endingMs ?? nowMs));
    this.#log.info("stopped", { afterMs });
  }

  /** Never rejects: what cannot be taken back stays. */
  async #takeBack(): Promise<void> {
    const undo = this.#undo;
    this.#undo = undefined;
    await undo?.().catch(() => {});
  }

  /** Exits without waiting, except for counts and lines that can be written now. */
  async #exit(status: number): Promise<void> {
    this.#cutShort = true;
    const stopped = this.#gateway?.stop({ atOnce: true }).catch(() => {});
    await Promise.race([Promise.all([stopped, this.#takeBack()]), delay(STOP_AT_ONCE_MS)]);
    this.#tellStopped();
    const flushed = await this.#pipe.flush(LAST_LINES_AT_ONCE_MS);
    const { process } = this.#context;
    if (flushed || !this.#pipe.holdsExit) process.exit(status);
    process.kill();
  }

  #drainMs(): number {
    return this.#longestDrainMs + this.#drainLaterMs;
  }
}
