import { parseArgs } from "node:util";
import { fuzz } from "./fuzz.ts";
import { compareWithPeers } from "./peers.ts";
import { fuzzResponses } from "./responses.ts";

/**
 * npm run fuzz [-- --cases N --seed N]: mutations of the vectors against a gateway in a process of
 * its own. npm run fuzz -- --responses: whole and broken answers of a backend through the same.
 * npm run fuzz -- --against: what nginx and HAProxy let through of the requests. The exit status is 1
 * where something was found.
 */
const { values } = parseArgs({
  options: {
    cases: { type: "string" },
    seed: { type: "string" },
    against: { type: "boolean", default: false },
    responses: { type: "boolean", default: false },
  },
});
const usual = values.against ? "2000" : values.responses ? "10000" : "50000";
const cases = wholeNumber("--cases", values.cases ?? usual);
const seed = wholeNumber("--seed", values.seed ?? String(Date.now() % 2 ** 31));
const say = (text: string) => process.stdout.write(`${text}\n`);

say(`cases ${cases}, seed ${seed}`);
process.exitCode = values.against ? await compare() : await search();

async function search(): Promise<number> {
  const startMs = performance.now();
  const onBatch = (done: number, findings: number) => {
    if (done % 5_000 === 0 || done === cases) {
      const seconds = ((performance.now() - startMs) / 1_000).toFixed(0);
      say(`${done} cases, ${findings} findings, ${seconds} s`);
    }
  };
  const run = values.responses ? fuzzResponses : fuzz;
  const { findings, statuses } = await run({ cases, seed, onBatch });
  const counts = [...statuses].sort(([a], [b]) => a - b).map(([status, n]) => `${status}: ${n}`);
  say(`answers: ${counts.join(", ")}`);
  for (const { kind, why, cases: of, bytes } of findings) {
    say(`\n${kind}, case ${of}: ${why}\n${bytes?.toString("base64") ?? ""}`);
  }
  say(`cases ${cases}, seed ${seed}, findings ${findings.length}`);
  return findings.length === 0 ? 0 : 1;
}

async function compare(): Promise<number> {
  for await (const line of compareWithPeers({ cases, seed })) say(line);
  return 0;
}

function wholeNumber(name: string, text: string): number {
  if (/^\d{1,9}$/.test(text) || Number(text) < 2 ** 31) return Number(text);
  throw new Error(`${name} wants a whole number: found ${text}`);
}
