import { parseArgs } from "node:util";
import { type Compared, comparePeers } from "./peers/compare.ts";
import { missing } from "./peers/needs.ts";

const USAGE = `Usage: npm run -s bench:peers -- [--rounds N] [--seconds N] [--json]

CPU of gateway and store for a proxied, counted request, side by side in one run: Tollgate, and nginx
with Lua and one Redis script a request. Rounds are interleaved; what is compared is the ratio within
a round, and what is told is the median of the ratios.

  --rounds N    rounds for each number of keys, 1 to 100 (default 5)
  --seconds N   how long each gateway is under load in a round, 1 to 60 (default 2)
  --json        prints the figures of the median rounds, in microseconds of CPU a request

Needs Linux and the Debian packages nginx, libnginx-mod-http-lua, lua-nginx-redis, wrk, redis-server.
`;

const { values } = parseArgs({
  options: {
    rounds: { type: "string", default: "5" },
    seconds: { type: "string", default: "2" },
    json: { type: "boolean", default: false },
    help: { type: "boolean", default: false },
  },
});
const [rounds, seconds] = [Number(values.rounds), Number(values.seconds)];
const within = (number: number, max: number) => {
  return Number.isInteger(number) && number >= 1 && number <= max;
};
const lacks = missing();

if (values.help) process.stdout.write(USAGE);
else if (!within(rounds, 100) || !within(seconds, 60)) {
  process.stderr.write(
    `Cannot measure ${values.rounds} rounds of ${values.seconds} s: give --rounds 1 to 100 and --seconds 1 to 60\n`,
  );
  process.exitCode = 64;
} else if (lacks.length > 0) {
  process.stderr.write(
    `Cannot compare without ${lacks.join(", ")}: apt-get install ${lacks.join(" ")}\n`,
  );
  process.exitCode = 1;
} else {
  const results = await comparePeers({ rounds, seconds }, (text) => {
    process.stderr.write(`${text}\n`);
  });
  process.stdout.write(values.json ? `${JSON.stringify(results)}\n` : table(results));
}

function table(results: Readonly<Record<string, Compared>>): string {
  const lines = Object.entries(results).map(([name, { ratio }]) => {
    return `${name.padEnd(10)} tollgate / nginx+Lua, CPU of gateway and Redis: ${ratio.toFixed(2)}\n`;
  });
  return lines.join("");
}
