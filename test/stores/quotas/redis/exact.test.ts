import assert from "node:assert/strict";
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { afterAll, beforeAll, describe, it, type TestContext } from "vitest";
import { accountKey } from "../../../../src/stores/quotas/redis/account-key.ts";
import { startRedis, type TestRedis } from "../../../support/redis/redis.ts";
import { remembered } from "../outage/fallback-kit.ts";
import { type Admitted, accountOf, type Round } from "./exact-gateway.ts";
import { account } from "./redis-kit.ts";

/** More on demand: TOLLGATE_ROUNDS=1000. */
const ROUNDS = Number(process.env.TOLLGATE_ROUNDS ?? 200);
const KILLS = Math.ceil(ROUNDS / 20);
const REQUESTS = 500;

type Told = { round: number; admitted: Admitted[]; unanswered: number };

let server: TestRedis;
let round = 0;
beforeAll(async () => {
  server = await startRedis();
});
afterAll(() => server.close());

async function gateway(): Promise<ChildProcess> {
  const file = new URL("exact-gateway.ts", import.meta.url);
  const child = fork(file, [JSON.stringify(server.address)], {
    stdio: ["ignore", "inherit", "inherit", "ipc"],
  });
  await once(child, "message");
  return child;
}

async function gateways(t: TestContext, count: number): Promise<ChildProcess[]> {
  const all = await Promise.all(Array.from({ length: count }, gateway));
  t.onTestFinished(() => {
    for (const child of all) child.kill("SIGKILL");
  });
  return all;
}

async function play(children: readonly ChildProcess[], what: Round): Promise<Told[]> {
  const told = children.map(async (child) => ((await once(child, "message")) as [Told])[0]);
  for (const child of children) child.send(what);
  return Promise.all(told);
}

/** Every number from 1 to the limit was given, each to one request. */
function exactly(all: readonly Admitted[], { accounts, limit }: Round): void {
  const numbers = Array.from({ length: accounts }, (): number[] => []);
  for (const [of, number] of all) numbers[of]?.push(number);
  const whole = Array.from({ length: limit }, (_, i) => i + 1);
  for (const each of numbers)
    assert.deepEqual(
      each.sort((a, b) => a - b),
      whole,
    );
}

/** An answer that came before another request was sent has the smaller number: more remained. */
function inOrder(all: readonly Admitted[]): void {
  const sent = [...all].sort((a, b) => a[2] - b[2]);
  const answered = [...all].sort((a, b) => a[3] - b[3]);
  let [done, highest] = [0, 0];
  for (const [, number, sentMs] of sent) {
    for (let next = answered[done]; next && next[3] < sentMs; next = answered[done]) {
      highest = Math.max(highest, next[1]);
      done += 1;
    }
    assert.ok(number > highest, `number ${number} was sent after ${highest} had been answered`);
  }
}

describe("gateways that share one Redis", () => {
  for (const processes of [1, 2, 4]) {
    it(`admit exactly the limit, ${processes} of them, in ${ROUNDS} rounds of ${REQUESTS} requests each`, async (t) => {
      const children = await gateways(t, processes);
      for (let i = 0; i < ROUNDS; i++) {
        const limit = 1 + ((i * 7) % REQUESTS);
        const what = { round: round++, requests: REQUESTS, accounts: 1, limit };
        const told = await play(children, what);
        const all = told.flatMap(({ admitted }) => admitted);
        assert.equal(
          told.reduce((sum, { unanswered }) => sum + unanswered, 0),
          0,
        );
        exactly(all, what);
        inOrder(all);
      }
    });
  }

  it("admit exactly the limit of each of a thousand accounts", async (t) => {
    const children = await gateways(t, 4);
    const redis = await server.client();
    for (let i = 0; i < 3; i++) {
      const what = { round: round++, requests: 2_000, accounts: 1_000, limit: 5 };
      exactly(
        (await play(children, what)).flatMap(({ admitted }) => admitted),
        what,
      );
      for (let of = 0; of < 1_000; of += 37) {
        assert.equal(await remembered(redis, accountOf(what.round, of)), 5, "the history");
      }
    }
  });

  it(`never admit more than the limit when one is killed, in ${KILLS} rounds`, async (t) => {
    const children = await gateways(t, 2);
    const redis = await server.client();
    let next = gateway();
    for (let i = 0; i < KILLS; i++) {
      const [victim, survivor] = [await next, children[i % 2] as ChildProcess];
      next = gateway();
      const what = { round: round++, requests: 20 * REQUESTS, accounts: 1, limit: 10 * REQUESTS };
      const survived = play([survivor], what);
      const gone = once(victim, "exit");
      victim.send(what);
      setTimeout(() => victim.kill("SIGKILL"), 1 + (i % 8));
      await gone;
      const [told] = await survived;
      const text = await redis.hget(accountKey("tg", account(accountOf(what.round, 0))), "M");
      assert.equal(Number(text?.split(" ")[1]), what.limit);
      assert.equal(await remembered(redis, accountOf(what.round, 0)), what.limit, "the history");
      assert.ok((told?.admitted.length ?? 0) <= what.limit);
      inOrder(told?.admitted ?? []);
    }
    (await next).kill("SIGKILL");
  });
});
