import { fulfilNeeds, thisMachine } from "./needs.ts";
import { runTests } from "./test-suite.ts";

/**
 * npm test [-- PATH … [--name PATTERN]]: every test file, or those under the paths given. Ends with
 * the line "N passed, N failed".
 */
const lacking = fulfilNeeds(thisMachine());
if (lacking === undefined) {
  process.exitCode = await runTests(process.argv.slice(2));
} else {
  process.stderr.write(`${lacking}\n`);
  process.exitCode = 1;
}
