import { parseArgs } from "node:util";
import { fuzz } from "./fuzz.ts";
import { compareWithPeers } from "./peers.ts";

/**
 * npm run fuzz [-- --cases N --seed N]: mutations of the vectors against a gateway in a process of
 * its own. npm run fuzz -- --against: what nginx and HAProxy let through of the same. The exit
 * status is 1 where something was found.
 */
const { values } = parseArgs({
  options: {
    cases: { type: "string" },
    seed: { type: "string" },
    against: { type: "boolean", default: false },
  },
});
const cases = wholeNumber("--cases", values.cases ?? (values.against ? "2000" : "50000"));
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
  const { findings, statuses, forwarded } = await fuzz({ cases, seed, onBatch });
  const counts = [...statuses].sort(([a], [b]) => a - b).map(([status, n]) => `${status}: ${n}`);
  say(`answers: ${counts.join(", ")}; at the backend: ${forwarded}`);
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
