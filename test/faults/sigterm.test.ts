import assert from "node:assert/strict";
import { Agent } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { test } from "vitest";
import { each } from "../support/each.ts";
import { startTestUpstream } from "../support/gateway/backend.ts";
import { askOnce, type RequestOutcome } from "../support/gateway/load.ts";
import { KEY, spawnGateway } from "../support/gateway/served.ts";
import { eventually } from "../support/poll.ts";

const TIMES = 20;
const AT_ONCE = 4;
const CLIENTS = 12;

type Run = { readonly whole: number; readonly late: number; readonly refused: number };

/** Clients that ask without a pause, and again where there was no answer, until nobody listens. */
async function stopUnderLoad(number: number): Promise<Run> {
  await using backend = await startTestUpstream(async (_seen, response, _request, whole) => {
    await whole;
    await sleep(number % 3 === 0 ? 30 : 0);
    response.writeHead(200, { "Content-Type": "text/plain" });
    response.write("first, ");
    setTimeout(() => response.end("last"), 2);
  });
  // It is over once all are answered: a busy machine must not end it before.
  const limits = { drain: "10m" };
  await using served = await spawnGateway({ upstreams: [backend.origin], limits });
  const agent = new Agent({ keepAlive: true });
  const went: RequestOutcome[] = [];
  const client = async () => {
    for (let refused = 0; refused < 2; ) {
      const one = await askOnce(`${served.url}/v1/pets`, KEY, agent);
      went.push(one);
      if ("failed" in one && one.failed === "unsent") refused += 1;
    }
  };
  const clients = Array.from({ length: CLIENTS }, client);
  await eventually(() => went.length > 2 * CLIENTS, { withinMs: 60_000, everyMs: 2 });
  await sleep(10 * (number % 5));
  served.running.child.kill("SIGTERM");
  await Promise.all(clients);
  const { code, signal, stderr } = await served.running.exited;
  agent.destroy();

  assert.deepEqual({ code, signal, stderr }, { code: 0, signal: null, stderr: "" });
  const of = (status: number) =>
    went.filter((one) => "status" in one && one.status === status).length;
  const failed = (at: string) => went.filter((one) => "failed" in one && one.failed === at);
  assert.deepEqual(failed("cut"), [], "every answer that began is complete");
  assert.ok(each(went).every((one) => "failed" in one || [200, 503].includes(one.status)));
  // Every accepted request was answered: an unanswered connection is one whose request nobody took.
  assert.equal(backend.seen.length, of(200), `${failed("unanswered").length} unanswered`);
  const forwards = served.lines.reduce((sum, entry) => sum + entry.forwards, 0);
  const charged = served.lines.reduce((sum, entry) => sum + entry.charged, 0);
  assert.deepEqual([forwards, charged], [of(200), of(200)], "the last lines are in the log");
  assert.ok(of(200) > CLIENTS);
  return { whole: of(200), late: of(503), refused: failed("unsent").length };
}

test(`2.4 SIGTERM in flight: under load, ${TIMES} times: nothing that was accepted is lost, and it ends with 0`, async (t) => {
  const runs: Run[] = [];
  for (let from = 0; from < TIMES; from += AT_ONCE) {
    const numbers = Array.from({ length: AT_ONCE }, (_, i) => from + i);
    runs.push(...(await Promise.all(numbers.map(stopUnderLoad))));
  }
  const sum = (what: keyof Run) => runs.reduce((all, run) => all + run[what], 0);
  t.annotate(
    `${sum("whole")} answered, ${sum("late")} told to come again, ${sum("refused")} refused`,
  );
});

test("2.4 SIGTERM in flight: a request longer than the drain is cut off, and the process ends all the same", async () => {
  await using backend = await startTestUpstream(() => {});
  await using served = await spawnGateway({
    upstreams: [backend.origin],
    limits: { drain: "500ms" },
  });
  const agent = new Agent();
  const asked = askOnce(`${served.url}/v1/pets`, KEY, agent);
  while (backend.seen.length === 0) await sleep(5);
  const startMs = performance.now();
  served.running.child.kill("SIGTERM");
  const { code } = await served.running.exited;
  assert.equal(code, 0);
  assert.ok(performance.now() - startMs < 6_000);
  assert.ok("failed" in (await asked));
});
