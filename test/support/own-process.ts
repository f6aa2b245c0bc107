import { readFileSync } from "node:fs";
import { codeOf } from "./source.ts";

/**
 * Calls by which a test measures its own process or changes it: memory, objects, processor time,
 * handles, stalls, signals, environment and folder. Other files must not run in that process.
 */
const OF_THE_PROCESS =
  /\bprocess\.(?:memoryUsage|cpuUsage|resourceUsage|getActiveResourcesInfo|on\(|once\(|chdir|umask|exit\()|\bprocess\.env\.\w+ =[^=]|\b(?:monitorEventLoopDelay|eventLoopUtilization|PerformanceObserver|setGlobalDispatcher|setFlagsFromString|createHook|queryObjects)\b|\bvi\.(?:spyOn|mock|useFakeTimers|stubEnv|stubGlobal)\(/;
/** It is read by its path; whether there is one says nothing of the process. */
const OWN_FILES = /(?<!existsSync\(["'`])\/proc\/self\//;

/**
 * Whether a test file of this text needs a process of its own. A script in a text of it is run by
 * another process.
 */
export function needsOwnProcess(text: string): boolean {
  if (OWN_FILES.test(text)) return true;
  return OF_THE_PROCESS.test(text) && OF_THE_PROCESS.test(codeOf(text));
}

/** The paths among these of files that need a process of their own. */
export function ownProcessFiles(paths: readonly string[]): string[] {
  return paths.filter((path) => needsOwnProcess(readFileSync(path, "utf8")));
}
