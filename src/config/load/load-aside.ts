import { resolve } from "node:path";
import { Worker } from "node:worker_threads";
import { errorMessage } from "../../base/messages.ts";
import { RAISE_OPEN_FILES } from "../../base/open-files.ts";
import type { LoadResult } from "../config.ts";
import type { Variables } from "../file/substitute.ts";

/** The arguments of `loadConfig`, for the thread. */
export type LoadRequest = { readonly file: string; readonly variables: Variables };

/** The program of the thread, in the sources and in the package. */
const THREAD = new URL(import.meta.url.replace(/load-aside(\.\w+)$/, "load-thread$1"));
/** A start of the thread takes ten times as long as reading a small configuration. */
const REST_MS = 5_000;

/** The thread of the last reload, for one that comes soon after it. */
let resting: { readonly thread: Worker; readonly leave: () => void } | undefined;

/**
 * As `loadConfig`, in a thread of its own: a description of some megabytes takes seconds to parse,
 * and a gateway that reloads has requests to answer (docs/reference/edge.md#reload). A thread that
 * ends is a mistake as any other. One that the system cannot start for now has judged nothing.
 */
export async function loadConfigAside(file: string, variables: Variables): Promise<LoadResult> {
  const request: LoadRequest = { file, variables: { ...variables } };
  let thread: Worker | undefined;
  try {
    thread = takeThread();
    const result = await askThread(thread, request);
    rest(thread);
    return result;
  } catch (error) {
    await thread?.terminate();
    const said = errorMessage(error);
    const shortage = shortageOf(said);
    const message = `Cannot read the configuration: ${shortage ?? said}`;
    return {
      ok: false,
      mistakes: [{ file, line: 1, column: 1, message }],
      files: [resolve(file)],
      unread: shortage,
    };
  }
}

function takeThread(): Worker {
  if (resting === undefined) return new Worker(THREAD, { execArgv: [] });
  const { thread, leave } = resting;
  leave();
  thread.ref();
  return thread;
}

/** A resting thread keeps no process from its end. If it ends itself, no call waits for it. */
function rest(thread: Worker): void {
  thread.unref();
  if (resting !== undefined) {
    void thread.terminate();
    return;
  }
  const end = () => {
    leave();
    void thread.terminate();
  };
  const timer = setTimeout(end, REST_MS).unref();
  const leave = () => {
    resting = undefined;
    clearTimeout(timer);
    thread.off("error", end).off("exit", end);
  };
  thread.once("error", end).once("exit", end);
  resting = { thread, leave };
}

function askThread(thread: Worker, request: LoadRequest): Promise<LoadResult> {
  return new Promise((taken, reject) => {
    const ended = () => failed(new Error("its thread ended"));
    const failed = (error: Error) => {
      reject(error);
      forget();
    };
    const forget = () => thread.off("error", failed).off("exit", ended);
    thread.once("error", failed).once("exit", ended);
    thread.once("message", (result: LoadResult) => {
      taken(result);
      forget();
    });
    thread.postMessage(request);
  });
}

/** The words for a shortage of the system, because the words of Node name neither the limit nor the remedy. */
function shortageOf(message: string): string | undefined {
  if (/EMFILE|ENFILE|too many open files/.test(message)) {
    return `too many files are open; ${RAISE_OPEN_FILES}`;
  }
  if (!message.includes("EAGAIN")) return undefined;
  return "the system can start no further thread; raise its limit (TasksMax, pids.max or ulimit -u)";
}
