import { existsSync, globSync, readFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { type Mutant, openFinder } from "./mutants.ts";
import type { Sources } from "./reach.ts";
import {
  changedSince,
  drawn,
  hashOf,
  indexesOf,
  knownOf,
  type Results,
  readResults,
  scoreOf,
  withVerdict,
  writeResults,
} from "./results.ts";
import { ROOMS, writeFigures } from "./table.ts";
import { Trial } from "./trial.ts";
import { Tries } from "./try-mutants.ts";

const USAGE = `npm run mutate -- [OPTIONS] [ROOM|FILE ...]
Changes core, or what is named, in one place at a time, and runs the tests that reach the place.
What was tried before on the same text of a file is not tried again.
  --sample N    N mutants of each room, drawn at random
  --seed S      draws others (1)
  --minutes M   ends after M minutes; the same command goes on from there
  --alive       tries those again that no test noticed, with more tests
  --relearn     forgets what the tests reach
  --write       writes the tables from what is known, and tries nothing
  --stale       names the files that have changed since they were measured
`;
const PERCENT_MIN = 90;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    sample: { type: "string" },
    seed: { type: "string", default: "1" },
    minutes: { type: "string" },
    alive: { type: "boolean", default: false },
    relearn: { type: "boolean", default: false },
    write: { type: "boolean", default: false },
    stale: { type: "boolean", default: false },
    help: { type: "boolean", default: false },
  },
});
const say = (text: string) => process.stdout.write(`${text}\n`);
const targets = positionals.length > 0 ? positionals : ["core"];
const strangers = targets.filter((target) => filesOf(target).length === 0);

if (values.help) say(USAGE);
else if (values.write) writeFigures(readResults());
else if (values.stale) sayStale();
else if (strangers.length > 0) {
  process.stderr.write(
    `Cannot mutate ${strangers.join(", ")}: expected ${ROOMS.join(", ")}, or files of src/\n`,
  );
  process.exitCode = 64;
} else process.exitCode = await measure();

function filesOf(target: string): string[] {
  const isRoom = ROOMS.includes(target);
  return globSync(isRoom ? `src/${target}/**/*.ts` : target)
    .filter((file) => file.startsWith("src/"))
    .sort();
}

function sayStale(): void {
  const textNow = (file: string) => (existsSync(file) ? readFileSync(file, "utf8") : undefined);
  for (const file of changedSince(readResults(), textNow)) say(file);
}

async function measure(): Promise<number> {
  let results = readResults();
  const { chosen, rooms } = await choose();
  results = { ...results, rooms: { ...results.rooms, ...rooms } };
  const todo = chosen.filter((mutant) => isToTry(results, mutant));
  if (values.sample !== undefined) say(`Seed ${values.seed}`);
  say(`${todo.length} mutants to try; ${chosen.length - todo.length} are known`);
  let isStopped = false;
  for (const signal of ["SIGINT", "SIGTERM"] as const) {
    process.once(signal, () => {
      isStopped = true;
      say("Ends after this mutant; what was done is kept");
    });
  }
  const endMs = performance.now() + 60_000 * Number(values.minutes ?? Number.POSITIVE_INFINITY);
  await using trial = new Trial();
  const tries = new Tries(trial, sources(), { far: values.alive, relearn: values.relearn });
  for (const [at, mutant] of todo.entries()) {
    if (isStopped || performance.now() > endMs) break;
    const startMs = performance.now();
    const { verdict, by } = await tries.judge(mutant);
    const seconds = ((performance.now() - startMs) / 1_000).toFixed(1);
    const how = by === undefined ? verdict : `${verdict} by ${by}`;
    say(`[${at + 1}/${todo.length}] ${mutant.file}:${mutant.told}: ${how} (${seconds} s)`);
    const known = knownFor(results, mutant);
    const files = { ...results.files, [mutant.file]: withVerdict(known, mutant, verdict) };
    results = { ...results, files };
    writeResults(results);
  }
  writeFigures(results);
  return told(results, chosen);
}

/** The mutants to have been tried in the end, in the order in which they are. */
async function choose(): Promise<{ chosen: Mutant[]; rooms: Record<string, number> }> {
  const find = await openFinder();
  const count = values.sample === undefined ? Number.POSITIVE_INFINITY : Number(values.sample);
  const chosen: Mutant[] = [];
  const rooms: Record<string, number> = {};
  for (const target of targets) {
    const mutants: Mutant[] = [];
    for (const file of filesOf(target)) mutants.push(...(await find(file, read(file))));
    if (ROOMS.includes(target)) rooms[target] = mutants.length;
    chosen.push(...(count < mutants.length ? drawn(mutants, count, Number(values.seed)) : mutants));
  }
  return { chosen, rooms };
}

function knownFor(results: Results, { file, of }: Mutant) {
  return knownOf(results, file, hashOf(read(file)), of);
}

function isToTry(results: Results, mutant: Mutant): boolean {
  const { tried, alive } = knownFor(results, mutant);
  if (values.alive) return alive[mutant.index] !== undefined;
  return !indexesOf(tried).has(mutant.index);
}

/** Prints who lives and the shares. Gives 1 where a file that was tried as a whole is under PERCENT_MIN. */
function told(results: Results, chosen: readonly Mutant[]): number {
  let isLow = false;
  for (const file of new Set(chosen.map((mutant) => mutant.file))) {
    const known = results.files[file];
    if (known === undefined) continue;
    for (const line of Object.values(known.alive)) say(`${file}:${line}`);
    const { tried, noticed, percent } = scoreOf([known]);
    say(`${file.padEnd(50)} ${percent.toFixed(1).padStart(5)} %  ${noticed} of ${tried}`);
    if (tried < known.mutants || percent >= PERCENT_MIN) continue;
    isLow = true;
    say(`${file} is under ${PERCENT_MIN} %`);
  }
  return isLow ? 1 : 0;
}

function read(file: string): string {
  return readFileSync(file, "utf8");
}

function sources(): Sources {
  const files = globSync("{src,test,scripts,bench}/**/*.{ts,js,lua}");
  return new Map(files.map((file) => [file, read(file)]));
}
