import { spawnSync } from "node:child_process";
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { DECIDE_SCRIPT } from "../../src/stores/quotas/redis/account-scripts.ts";
import { each } from "../support/each.ts";
import { type LuaMutant, luaMutants } from "./lua-mutants.ts";
import { LuaTrial } from "./lua-trial.ts";

/**
 * npm run mutate:lua [-- FILE … --every N --from I]: changes the scripts of Redis one place at a time,
 * in a copy of the repository, and runs the tests that reach them against each change
 * (docs/evidence/mutation.md). `--every 3 --from 1` takes each third mutant from the second on.
 * Prints each that no test noticed and the score. The exit status is 1 where a file is under
 * SCORE_MIN.
 */
const SCORE_MIN = 90;
/** Random histories of the differential test: a mutant that it notices fails within the first few. */
const SEQUENCES = "50";
/** The tests end in seconds; a mutant that never ends has been noticed. */
const TEST_MS_MAX = 90_000;
const COPIED = ["config", "docs", "examples", "package.json", "scripts", "src", "test"];

/**
 * The tests that reach each script, those first that notice most for their time; `FILE#NAME` takes the
 * tests of that name.
 */
const LUA = "src/stores/quotas/redis/lua";
const STORE = "test/stores/quotas/redis/redis-store.test.ts#an account in Redis";
const DECIDED = [
  "test/stores/quotas/redis/decide.test.ts",
  "test/stores/quotas/redis/quota-store.test.ts",
];
const FIRST = "test/stores/quotas/redis/first-of-a-window.test.ts";
const HISTORY = "test/stores/quotas/redis/history.test.ts";
const ODD = ["test/stores/quotas/redis/oddities.test.ts", STORE];
const LATE = [
  "test/stores/quotas/outage/late-charge.test.ts",
  "test/stores/quotas/outage/fallback.test.ts",
];
const KEYS = ["redis-keys", "redis-keys-other-versions", "races"];
const TESTS: Readonly<Record<string, readonly string[]>> = {
  [`${LUA}/account.lua`]: [...DECIDED, ...ODD, ...LATE],
  [`${LUA}/time.lua`]: [...DECIDED, ...ODD, ...LATE],
  [`${LUA}/window.lua`]: [FIRST, ...DECIDED, ...ODD, ...LATE],
  [`${LUA}/plans.lua`]: [...DECIDED, ...ODD, HISTORY],
  [`${LUA}/day.lua`]: [HISTORY, ...DECIDED, ...LATE],
  [`${LUA}/charge.lua`]: [FIRST, ...DECIDED, ...ODD, HISTORY],
  [`${LUA}/decide.lua`]: [...DECIDED, ...ODD],
  [`${LUA}/history.lua`]: [HISTORY, ...DECIDED, ...LATE],
  [`${LUA}/refused.lua`]: [HISTORY, "test/stores/quotas/redis/quota-store.test.ts", STORE],
  [`${LUA}/late-charge.lua`]: LATE,
  [`${LUA}/reset.lua`]: ["test/stores/quotas/redis/quota-store.test.ts", STORE],
  "src/stores/quotas/redis/changes/invalidation-publisher.ts": [
    ...ODD,
    "test/stores/quotas/redis/events.test.ts",
  ],
  "src/stores/quotas/redis/store/markers.ts": ["test/stores/quotas/redis/store/markers.test.ts"],
  "src/stores/quotas/outage/heartbeat.ts": ["test/stores/quotas/outage/heartbeat.test.ts", ...LATE],
  "src/stores/keys/redis/redis-records.ts": KEYS.map((name) => `test/stores/keys/${name}.test.ts`),
};

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { every: { type: "string" }, from: { type: "string" } },
});
const named = positionals.length > 0 ? positionals : Object.keys(TESTS);
const strangers = named.filter((file) => TESTS[file] === undefined);
const say = (text: string) => process.stdout.write(`${text}\n`);

if (strangers.length > 0) {
  const expected = Object.keys(TESTS).join(", ");
  process.stderr.write(`Cannot mutate ${strangers.join(", ")}: expected some of ${expected}\n`);
  process.exitCode = 64;
} else {
  const copy = mkdtempSync(join(tmpdir(), "tollgate-mutants-"));
  try {
    for (const name of COPIED) cpSync(name, join(copy, name), { recursive: true });
    cpSync("vitest.config.ts", join(copy, "vitest.config.ts"));
    symlinkSync(resolve("node_modules"), join(copy, "node_modules"));
    await using trial = await LuaTrial.open();
    const scores: number[] = [];
    for (const file of named) scores.push(await scoreOf(file, copy, trial));
    process.exitCode = each(scores).every((score) => score >= SCORE_MIN) ? 0 : 1;
  } finally {
    rmSync(copy, { recursive: true, force: true });
  }
}

async function scoreOf(file: string, copy: string, trial: LuaTrial): Promise<number> {
  const source = readFileSync(file, "utf8");
  const [every, from] = [Number(values.every ?? 1), Number(values.from ?? 0)];
  const mutants = luaMutants(source, file.endsWith(".lua")).filter((_, i) => i % every === from);
  const isDecision = DECIDE_SCRIPT.text.includes(source);
  const isNoticed = async ({ text }: Pick<LuaMutant, "text">) => {
    if (isDecision && (await trial.notices(source, text))) return true;
    writeFileSync(join(copy, file), text);
    return TESTS[file]?.some((test) => !passes(test, copy)) ?? false;
  };
  if (await isNoticed({ text: source })) throw new Error(`The tests of ${file} fail as it is`);
  let killed = 0;
  for (const mutant of mutants) {
    if (await isNoticed(mutant)) killed += 1;
    else say(`${file}:${mutant.line}: ${mutant.before} -> ${mutant.after || "nothing"}`);
  }
  writeFileSync(join(copy, file), source);
  const percent = mutants.length === 0 ? 100 : (100 * killed) / mutants.length;
  say(`${file.padEnd(40)} ${percent.toFixed(1).padStart(5)} %  ${killed} of ${mutants.length}`);
  return percent;
}

function passes(test: string, copy: string): boolean {
  const vitest = join(copy, "node_modules/vitest/vitest.mjs");
  const env = { ...process.env, TOLLGATE_SEQUENCES: SEQUENCES };
  const options = { cwd: copy, env, stdio: "ignore", timeout: TEST_MS_MAX } as const;
  const [file = "", name = ""] = test.split("#");
  const args = [vitest, "run", file, "--testNamePattern", name, "--bail", "1"];
  const { status } = spawnSync(process.execPath, args, options);
  return status === 0;
}
