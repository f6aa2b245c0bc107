import { readFileSync, statSync } from "node:fs";
import { resolve } from "node:path";
import { parseArgs } from "node:util";
import { LOADS, type LoadName } from "./load/messages.ts";
import { type BesideOptions, measureBeside, type Side } from "./measure/beside.ts";
import { sideNames } from "./measure/side-names.ts";
import { besideText } from "./report/beside.ts";

const USAGE = `Usage: npm run -s bench:beside -- [options] PATH…

What a change costs: CPU and latency of one gateway beside others, several copies of each, in short
slices in random order. PATH is a folder with a checkout (npm ci done), or a file with further lines of
the configuration of this one. Several are held against the first; one PATH alone is held against this
checkout as it is, and without any it is held against itself, which tells the noise.

  --store memory|redis   default redis
  --keys N               accounts that take turns (default 1000)
  --spent N              accounts beside them that have nothing left, and are refused (default 0)
  --load NAME            one of ${LOADS.join(", ")} (default closed)
  --instances N          copies of each side (default 4)
  --rounds N             slices of each copy (default 12)
  --slice N              length of a slice in milliseconds (default 400)
  --warm-up N            requests that each copy answers first (default 75000)
`;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    store: { type: "string", default: "redis" },
    keys: { type: "string", default: "1000" },
    spent: { type: "string", default: "0" },
    load: { type: "string", default: "closed" },
    instances: { type: "string", default: "4" },
    rounds: { type: "string", default: "12" },
    slice: { type: "string", default: "400" },
    "warm-up": { type: "string", default: "75000" },
    help: { type: "boolean", default: false },
  },
});
for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, () => process.exit(130));

if (values.help) process.stdout.write(USAGE);
else {
  const options: BesideOptions = {
    sides: sidesOf(positionals),
    store: values.store === "memory" ? "memory" : "redis",
    keys: Number(values.keys),
    spent: Number(values.spent),
    load: LOADS.find((name) => name === values.load) ?? ("closed" satisfies LoadName),
    instances: Number(values.instances),
    rounds: Number(values.rounds),
    sliceMs: Number(values.slice),
    warmUpRequests: Number(values["warm-up"]),
  };
  const say = (text: string) => process.stderr.write(`${text}\n`);
  process.stdout.write(besideText(await measureBeside(options, say)));
}

function sidesOf(paths: readonly string[]): Side[] {
  const names = sideNames(paths);
  const given = paths.map((path, i): Side => {
    const name = names[i] as string;
    if (statSync(path).isDirectory()) return { name, root: resolve(path) };
    return { name, settings: readFileSync(path, "utf8") };
  });
  if (given.length > 1) return given;
  return [{ name: "this" }, ...(given.length === 1 ? given : [{ name: "itself" }])];
}
