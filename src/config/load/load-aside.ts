import { resolve } from "node:path";
import { Worker } from "node:worker_threads";
import { errorMessage } from "../../base/messages.ts";
import type { LoadResult } from "../config.ts";
import type { Variables } from "../file/substitute.ts";

/** The arguments of `loadConfig`, for the thread. */
export type LoadRequest = { readonly file: string; readonly variables: Variables };

/** The program of the thread, in the sources and in the package. */
const THREAD = new URL(import.meta.url.replace(/load-aside(\.\w+)$/, "load-thread$1"));

/**
 * As `loadConfig`, in a thread of its own: a description of some megabytes takes seconds to parse,
 * and a gateway that reloads has requests to answer (docs/reference/edge.md#reload).
 */
export async function loadConfigAside(file: string, variables: Variables): Promise<LoadResult> {
  const workerData: LoadRequest = { file, variables: { ...variables } };
  const thread = new Worker(THREAD, { workerData, execArgv: [] });
  try {
    return await new Promise((taken, reject) => {
      thread.once("message", taken);
      thread.once("error", reject);
      thread.once("exit", () => reject(new Error("its thread ended")));
    });
  } catch (error) {
    const message = `Cannot read the configuration: ${errorMessage(error)}`;
    return {
      ok: false,
      mistakes: [{ file, line: 1, column: 1, message }],
      files: [resolve(file)],
    };
  } finally {
    await thread.terminate();
  }
}
