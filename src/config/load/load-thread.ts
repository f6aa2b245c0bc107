import { parentPort } from "node:worker_threads";
import { loadConfig } from "./load.ts";
import type { LoadRequest } from "./load-aside.ts";

/** The thread of `loadConfigAside`. */
parentPort?.on("message", async ({ file, variables }: LoadRequest) => {
  parentPort?.postMessage(await loadConfig(file, variables));
});
