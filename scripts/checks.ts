import { spawnSync } from "node:child_process";

/**
 * npm run checks: what a commit must pass besides the tests. Every check runs, so that one run shows
 * all that is wrong. The exit status is the number of those that failed.
 */
const CHECKS: readonly (readonly [name: string, command: string, ...args: string[]])[] = [
  ["format and lint", "biome", "check", "--error-on-warnings"],
  ["typecheck", "tsc"],
  ["dead code", "knip"],
];

for (const [name, command, ...args] of CHECKS) {
  console.log(`== ${name}`);
  const startMs = performance.now();
  const { status, error } = spawnSync(command, args, { stdio: ["ignore", "inherit", "inherit"] });
  if (error !== undefined) console.log(`Cannot run ${command}: ${error.message}. Run "npm ci".`);
  const seconds = ((performance.now() - startMs) / 1000).toFixed(1);
  console.log(`== ${name}: ${status === 0 ? "ok" : "FAILED"}, ${seconds} s\n`);
  if (status !== 0) process.exitCode = Number(process.exitCode ?? 0) + 1;
}
