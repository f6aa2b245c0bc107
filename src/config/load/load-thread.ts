import { parentPort, workerData } from "node:worker_threads";
import { loadConfig } from "./load.ts";
import type { LoadRequest } from "./load-aside.ts";

/** The thread of `loadConfigAside`. */
const { file, variables } = workerData as LoadRequest;
parentPort?.postMessage(await loadConfig(file, variables));
