import { setFlagsFromString } from "node:v8";

/** V8's own is 8 s. */
const PAUSE_MS = 600_000;

/**
 * Keeps compiled code over pauses of up to ten minutes. V8 gives memory back once a process has been
 * idle for 8 s, and collects the hidden classes of requests, connections and answers if there is none
 * just then; with them goes the code of some 190 functions, and the first half-second of traffic after
 * it takes twice the CPU (docs/decisions/hot-path.md). Until then the heap keeps the size that traffic
 * gave it. For processes of our own: it holds for the whole process.
 */
export function keepCompiledCode(): void {
  setFlagsFromString(`--memory-reducer-delay-ms=${PAUSE_MS}`);
}
