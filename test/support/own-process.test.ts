import assert from "node:assert/strict";
import { it } from "vitest";
import { needsOwnProcess } from "./own-process.ts";

/** A line of a test file, and whether the file needs a process of its own. */
const LINES: readonly [line: string, needs: boolean][] = [
  ["const beforeBytes = process.memoryUsage().heapUsed;", true],
  ["const { user } = process.cpuUsage();", true],
  ["process.getActiveResourcesInfo().length;", true],
  ['process.on("warning", note);', true],
  ['process.once("SIGHUP", note);', true],
  ['process.env.NODE_ENV = "production";', true],
  ["const stalls = monitorEventLoopDelay();", true],
  ["queryObjects(Gateway);", true],
  ["new PerformanceObserver(note);", true],
  ['vi.spyOn(Date, "now");', true],
  ["vi.useFakeTimers();", true],
  ['readFileSync("/proc/self/status", "utf8");', true],
  ['running.process.on("exit", note);', true],
  ['process.env.PICTURES === "write";', false],
  ['preload("process.on(`SIGUSR2`, note);");', false],
  [`const fault = \`process.on("SIGUSR2", () => { \${text}; process.exit(7); })\`;`, false],
  [`preload(\`\${process.cpuUsage().user}\`);`, true],
  ['if (existsSync("/proc/self/cmdline")) return;', false],
  ['child.on("exit", note);', false],
  ["vi.advanceTimersByTime(5);", false],
  ["memoryUsageOf(gateway);", false],
  ["readFileSync(statusOf(gateway.pid));", false],
];

it.each(LINES)("a file with %s shares no process: %s", (line, needs) => {
  assert.equal(needsOwnProcess(`import assert;\n  ${line}\n`), needs);
});
