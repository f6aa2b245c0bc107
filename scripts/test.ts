import { fulfilNeeds, thisMachine } from "./needs.ts";
import { runTests } from "./test-suite.ts";

/**
 * npm test [-- PATH … [--name PATTERN]]: every test file, or those under the paths given. Ends with
 * the line "N passed, N failed".
 */
const lacking = fulfilNeeds(thisMachine());
if (lacking !== undefined) {
  process.stderr.write(`${lacking}\n`);
  process.exit(1);
}
// A test process that would not end, killed as it may be, must not keep this one.
process.exit(await runTests(process.argv.slice(2)));
