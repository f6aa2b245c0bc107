import { parseArgs } from "node:util";
import { PARTS, type Part, type RunOptions } from "./report/report.ts";
import { VARIANTS } from "./variants/variants.ts";

export const USAGE = `Usage: npm run -s bench -- [options]

CPU and latency of a proxied, counted request: Tollgate beside other gateways and bare proxies, in one
run, in short slices in random order, after a warm-up of each. Also what refusals cost, and how cost
and memory grow with accounts. All of it takes some 11 minutes on two quiet cores.

  --variants A,B     only these: ${VARIANTS.map(({ name }) => name)
    .join(", ")
    .replace(/(.{1,76})(?:, |$)/g, "$1,\n                     ")
    .trimEnd()
    .replace(/,$/, "")}
  --parts A,B        only these of ${PARTS.join(", ")}
  --rounds N         slices for each variant and kind of traffic, 1 to 1000 (default 6)
  --slice N          length of a slice in milliseconds, 100 to 60000 (default 500)
  --warm-up N        requests that each instance answers first, 1 to 10000000 (default 75000)
  --accounts N       the last step of growth, which begins at 1000, up to 1000000 (default 1000000)
  --json             prints all figures for scripts
  --write            writes docs/performance.md with its plots; the table in README.md as well, if the
                     machine was quiet and the warm-up whole
  --from FILE        measures nothing: takes the figures that --json printed

Needs Linux and redis-server. Variants whose programs are missing are left out, and named:
apt-get install nginx libnginx-mod-http-lua lua-nginx-redis haproxy caddy. npm packages of the peers
are installed into bench/ when they are first needed.
`;

export type Parsed = {
  readonly run: RunOptions;
  readonly json: boolean;
  readonly write: boolean;
  readonly from: string | undefined;
};

/** "help", or what is wrong, for people. */
export function parseOptions(args: readonly string[]): Parsed | string {
  let values: ReturnType<typeof parseFlags>;
  try {
    values = parseFlags(args);
  } catch (error) {
    return `Cannot measure: ${error instanceof Error ? error.message : error}`;
  }
  if (values.help) return "help";
  const mistakes: string[] = [];
  const number = (name: "rounds" | "slice" | "warm-up" | "accounts", min: number, max: number) => {
    const value = Number(values[name]);
    if (!Number.isInteger(value) || value < min || value > max) {
      mistakes.push(`--${name} ${values[name]} is no whole number from ${min} to ${max}`);
    }
    return value;
  };
  const list = (name: "variants" | "parts", known: readonly string[]) => {
    const given = values[name]?.split(",") ?? [];
    const strange = given.filter((one) => !known.includes(one));
    if (strange.length > 0)
      mistakes.push(`--${name} ${strange.join(",")}: give some of ${known.join(", ")}`);
    return given;
  };
  const parts = list("parts", PARTS) as Part[];
  const run = {
    parts: parts.length === 0 ? PARTS : parts,
    variants: list(
      "variants",
      VARIANTS.map(({ name }) => name),
    ),
    rounds: number("rounds", 1, 1000),
    sliceMs: number("slice", 100, 60_000),
    warmUpRequests: number("warm-up", 1, 10_000_000),
    accountsMax: number("accounts", 1000, 1_000_000),
  };
  if (mistakes.length > 0) return `Cannot measure: ${mistakes.join("; ")}`;
  return { run, json: values.json, write: values.write, from: values.from };
}

function parseFlags(args: readonly string[]) {
  const { values } = parseArgs({
    args: [...args],
    options: {
      variants: { type: "string" },
      parts: { type: "string" },
      rounds: { type: "string", default: "6" },
      slice: { type: "string", default: "500" },
      "warm-up": { type: "string", default: "75000" },
      accounts: { type: "string", default: "1000000" },
      json: { type: "boolean", default: false },
      write: { type: "boolean", default: false },
      from: { type: "string" },
      help: { type: "boolean", default: false },
    },
  });
  return values;
}
