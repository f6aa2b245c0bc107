import assert from "node:assert/strict";
import fc from "fast-check";
import { afterAll, beforeAll, describe, it } from "vitest";
import { each } from "../../support/each.ts";
import { startRedis, type TestRedis } from "../../support/redis/redis.ts";
import {
  callReload,
  crash,
  hangUp,
  hold,
  kill,
  killAgain,
  type Model,
  release,
  save,
  start,
  stop,
  stopAtOnce,
} from "./model-commands.ts";
import { GatewayUnderTest } from "./model-gateway.ts";

/** More on demand: TOLLGATE_MODEL_RUNS=100. */
const RUNS = Number(process.env.TOLLGATE_MODEL_RUNS ?? 8);
/** The deadline of a test for eight. A run takes two seconds on a quiet machine, and 14 s on a busy one. */
const RUN_MS_MAX = 22_500;
/** The same again: TOLLGATE_MODEL_SEED=123 TOLLGATE_MODEL_PATH=4, as the failure names them. */
const { TOLLGATE_MODEL_SEED: SEED, TOLLGATE_MODEL_PATH: PATH } = process.env;
const COMMANDS_MAX = 10;

let redis: TestRedis;
beforeAll(async () => {
  redis = await startRedis();
});
afterAll(() => redis.close());

/** How the gateway begins: with the memory store, or with so many processes that share a Redis. */
const beginning = fc.constantFrom<"memory" | number>("memory", 1, 2, 2, 3);

const by = fc.constantFrom("in place" as const, "by rename" as const);
const good = fc.record({ kind: fc.constant("good" as const), by });
const bad = fc.record({
  kind: fc.constantFrom("yaml" as const, "schema", "certificate", "restart"),
  by,
});
const any = fc.oneof(good, bad);

const commands = fc.commands<Model, GatewayUnderTest, false>(
  [
    good.map((how) => save(how)),
    bad.map((how) => save(how)),
    any.map((how) => save(how, "and SIGHUP")),
    any.map((how) => save(how, "and kill")),
    fc.constantFrom(hangUp, callReload),
    fc.constantFrom(hold),
    fc.constantFrom(hold, release),
    fc.constantFrom(kill(1), kill(2), killAgain),
    fc.constantFrom(stop, stopAtOnce),
    fc.constantFrom(stop, crash),
    fc.constantFrom(start),
  ],
  { maxCommands: COMMANDS_MAX, size: "max" },
);

let runs = 0;

type Step = fc.AsyncCommand<Model, GatewayUnderTest>;
type Setup = { readonly model: Model; readonly real: GatewayUnderTest };

/** Starts a gateway, takes the steps, and ends it: what it was asked is counted and answered. */
async function play(from: "memory" | number, steps: (setup: Setup) => Promise<void>) {
  runs += 1;
  const shared = { store: redis.url, storePrefix: `run${runs}` };
  await using real = await GatewayUnderTest.open(from === "memory" ? undefined : shared);
  const first = { limit: 1_000_000, fixed: from === "memory" ? 1 : from };
  real.save(first);
  const model: Model = {
    ...{ state: "down", file: first, inForce: first, isRefused: false },
    charged: { least: 0, most: 0 },
    isShared: from !== "memory",
    ...{ held: [], kills: 0, killedInDrain: [], limits: 0 },
  };
  await start.run(model, real);
  await steps({ model, real });
  if (stop.check(model)) await stop.run(model, real);
  if (release.check(model)) await release.run(model, real);
}

const toGood = save({ kind: "good", by: "in place" });
const toBad = save({ kind: "schema", by: "by rename" });
const toOther = save({ kind: "restart", by: "in place" });

/** Each in the order that some fault needs. */
const SEQUENCES: readonly (readonly [from: "memory" | number, steps: readonly Step[]])[] = [
  [2, [hold, stop, toGood, hangUp, release, start]],
  [2, [toGood, toBad, kill(2), toOther, callReload, toGood, toOther, stop, start, crash]],
  [2, [hold, kill(2), stop, start, hold, kill(1), stop]],
  [3, [hold, crash, release, start, toGood, killAgain, hangUp, hold, stop, kill(1)]],
  ["memory", [hold, stop, toBad, stopAtOnce, start, toGood, start, toBad, hangUp, crash]],
];

describe.concurrent("a gateway that is changed, killed and stopped", () => {
  const named = SEQUENCES.map(
    ([from, steps]) => [`${from}: ${steps.join(", ")}`, from, steps] as const,
  );
  it.each(named)("of %s: is as its operator knows it", async (_, from, steps) => {
    await play(from, async ({ model, real }) => {
      for (const step of each(steps)) {
        assert.ok(step.check(model), `${step} can be done while it is ${model.state}`);
        await step.run(model, real);
      }
    });
  });

  it(
    "in any order is as its operator knows it",
    async ({ annotate, onTestFailed }) => {
      // Not of fast-check, which prefers numbers near zero: each time other orders are tried.
      const seed = SEED === undefined ? Math.floor(Math.random() * 2 ** 31) : Number(SEED);
      annotate(`TOLLGATE_MODEL_SEED=${seed}`);
      const begun: string[] = [];
      // Also where it fails because it takes too long, of which fast-check knows nothing.
      onTestFailed(() => {
        const path = PATH ?? begun.length - 1;
        process.stderr.write(
          `TOLLGATE_MODEL_SEED=${seed} TOLLGATE_MODEL_PATH=${path} of ${begun.at(-1)}\n`,
        );
      });
      const endMs = performance.now() + (RUNS * RUN_MS_MAX) / 2;
      const any = fc.asyncProperty(beginning, commands, async (from, steps) => {
        // A slow machine tries fewer orders.
        if (performance.now() > endMs) return;
        begun.push(`${from}: ${[...steps].join(", ")}`);
        await play(from, (setup) => fc.asyncModelRun(() => setup, steps));
      });
      await fc.assert(any, {
        ...{ seed, numRuns: RUNS, endOnFailure: true },
        ...(PATH !== undefined && { path: PATH }),
      });
      annotate(`${begun.length} of ${RUNS} orders`);
    },
    RUNS * RUN_MS_MAX,
  );
});
