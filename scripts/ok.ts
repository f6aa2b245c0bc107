import { spawnSync } from "node:child_process";
import { fulfilNeeds, thisMachine } from "./needs.ts";
import { runTests } from "./test-suite.ts";

/** What a commit must pass. Every check runs, so that one run shows all that is wrong. */
const CHECKS: readonly (readonly [name: string, command: string, ...args: string[]])[] = [
  ["format and lint", "biome", "check", "--error-on-warnings"],
  ["typecheck", "tsc"],
  ["dead code", "knip"],
];

const failedChecks: string[] = [];
for (const [name, command, ...args] of CHECKS) {
  console.log(`== ${name}`);
  const startMs = performance.now();
  const { status, error } = spawnSync(command, args, { stdio: ["ignore", "inherit", "inherit"] });
  if (error !== undefined) console.log(`Cannot run ${command}: ${error.message}. Run "npm ci".`);
  const seconds = ((performance.now() - startMs) / 1000).toFixed(1);
  console.log(`== ${name}: ${status === 0 ? "ok" : "FAILED"}, ${seconds} s\n`);
  if (status !== 0) failedChecks.push(name);
}

console.log("== tests");
const lacking = fulfilNeeds(thisMachine());
if (lacking !== undefined) {
  console.log(lacking);
  failedChecks.push("programs that the tests need");
}
process.exit(await runTests([], { failedChecks }));
