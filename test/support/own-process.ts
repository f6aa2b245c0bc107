import { readFileSync } from "node:fs";

/**
 * What a test measures of its own process, or sets in it: its memory, processor time, handles and
 * stalls, what it hears of itself, its environment and folder. Other files must not run in that
 * process, before or after.
 */
const OF_THE_PROCESS =
  /\bprocess\.(?:memoryUsage|cpuUsage|resourceUsage|getActiveResourcesInfo|on\(|once\(|chdir|umask|exit\()|\bprocess\.env\.\w+ =[^=]|\b(?:monitorEventLoopDelay|eventLoopUtilization|PerformanceObserver|setGlobalDispatcher|setFlagsFromString|createHook)\b|\bvi\.(?:spyOn|mock|useFakeTimers|stubEnv|stubGlobal)\(|\/proc\/self\//;

/** Whether a test file of this text needs a process of its own. */
export function needsOwnProcess(text: string): boolean {
  return OF_THE_PROCESS.test(text);
}

/** The paths among these of files that need a process of their own. */
export function ownProcessFiles(paths: readonly string[]): string[] {
  return paths.filter((path) => needsOwnProcess(readFileSync(path, "utf8")));
}
