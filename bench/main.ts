import { readFileSync } from "node:fs";
import { runBenchmark } from "./measure/run.ts";
import { parseOptions, USAGE } from "./options.ts";
import type { Report } from "./report/report.ts";
import { textReport } from "./report/text.ts";
import { writePages } from "./report/write.ts";

const parsed = parseOptions(process.argv.slice(2));

if (parsed === "help") process.stdout.write(USAGE);
else if (typeof parsed === "string") {
  process.stderr.write(`${parsed}\n`);
  process.exitCode = 64;
} else {
  // Servers are stopped on the way out.
  for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, () => process.exit(130));
  const say = (text: string) => {
    const seconds = Math.round(performance.now() / 1000);
    process.stderr.write(`${seconds} s: ${text}\n`);
  };
  const report: Report =
    parsed.from === undefined
      ? await runBenchmark(parsed.run, say)
      : JSON.parse(readFileSync(parsed.from, "utf8"));
  process.stdout.write(parsed.json ? `${JSON.stringify(report, null, 1)}\n` : textReport(report));
  if (parsed.write) writePages(report, say);
}
