import { parseArgs } from "node:util";
import { measureStore, type Row } from "./store/measure.ts";

/**
 * Measures the cost of a request: commands to the store, and CPU of gateway and Redis. `--json`
 * prints the figures alone; `--seconds N` measures each kind of traffic for so long. Exit status 1
 * says that a target was missed.
 */
const { values } = parseArgs({
  options: { json: { type: "boolean", default: false }, seconds: { type: "string", default: "4" } },
});
const seconds = Number(values.seconds);
if (!(seconds > 0 && seconds <= 60)) {
  process.stderr.write(`Cannot measure for --seconds ${values.seconds}: give 0.1 to 60\n`);
  process.exit(64);
}

const rows = await measureStore(seconds, (what) => process.stderr.write(`… ${what}\n`));
process.stdout.write(values.json ? `${JSON.stringify(rows, null, 2)}\n` : table(rows));
process.exitCode = rows.every(({ met }) => met) ? 0 : 1;

function table(all: readonly Row[]): string {
  const head = ["64 connections", "req/s", "commands/req", "commands/s", "gateway µs", "redis µs"];
  const lines = all.map((row) => [
    row.what,
    row.requestsPerSecond.toFixed(),
    row.commandsPerRequest.toFixed(4),
    row.commandsPerSecond.toFixed(1),
    row.gatewayUs.toFixed(1),
    row.redisUs.toFixed(2),
    `at most ${row.target.max} a ${row.target.of}: ${row.met ? "met" : "MISSED"}`,
  ]);
  const cells = [[...head, "target"], ...lines];
  const widths = cells[0]?.map((_, i) => Math.max(...cells.map((line) => line[i]?.length ?? 0)));
  const text = cells.map((line) => {
    const padded = line.map((cell, i) => {
      return i === 0 || i === 6 ? cell.padEnd(widths?.[i] ?? 0) : cell.padStart(widths?.[i] ?? 0);
    });
    return padded.join("  ").trimEnd();
  });
  return `${text.join("\n")}\n`;
}
