import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import { it, onTestFinished, vi } from "vitest";
import { DAY_MS } from "../../src/core/quota/days.ts";
import { openBlackHole } from "../support/black-hole.ts";
import { startTestGateway } from "../support/gateway/house.ts";
import { KEY } from "../support/gateway/served.ts";
import { watchStalls } from "../support/in-time.ts";
import { eventually } from "../support/poll.ts";
import { startUsageReceiver } from "../support/usage-receiver.ts";
import { SECRET } from "../support/webhook-receiver.ts";
import { Billing, START } from "./billing.ts";

/** The pauses of senders, from now on to the end of the test. */
function watchPauses(): readonly number[] {
  const pausesMs: number[] = [];
  const wait = globalThis.setTimeout;
  const spy = vi.spyOn(globalThis, "setTimeout").mockImplementation(((
    work: () => void,
    ms: number,
  ) => {
    if (new Error().stack?.includes("/usage-event-sender.ts")) pausesMs.push(ms);
    return wait(work, ms);
  }) as typeof setTimeout);
  onTestFinished(() => spy.mockRestore());
  return pausesMs;
}

it("the pauses between attempts double from account to account too, once each is sent alone", async () => {
  const pausesMs = watchPauses();
  await using receiver = await startUsageReceiver();
  await using billing = new Billing({ receiver });
  const store = await billing.openStore();
  receiver.verdict = 500;
  for (const account of ["acme", "beta"]) await billing.charge(store, account, 1);
  billing.nowMs += DAY_MS;
  billing.send(store);
  const doubled = await eventually(() => {
    const from = pausesMs.findIndex((ms) => ms > 20);
    assert.ok(from !== -1 && pausesMs.length >= from + 3);
    return pausesMs.slice(from, from + 3);
  });
  assert.deepEqual(doubled, [40, 80, 160]);
});

it("the pauses between attempts double, and begin with the shortest after an acknowledgement", async () => {
  const pausesMs = watchPauses();
  await using receiver = await startUsageReceiver();
  await using billing = new Billing({ receiver, accounts: ["acme"] });
  const store = await billing.openStore();
  const retries = async (from: number) => {
    receiver.verdict = 500;
    await billing.charge(store, "acme", 1);
    billing.nowMs += DAY_MS;
    const of = () => pausesMs.slice(from).filter((ms) => ms !== 20);
    await eventually(() => assert.ok(of().length >= 2));
    const [first, second] = of();
    receiver.verdict = 200;
    const all = receiver.all().length;
    await eventually(() => assert.equal(receiver.all().length, all + 1));
    return [first, second];
  };
  billing.send(store);
  assert.deepEqual(await retries(0), [40, 80]);
  assert.deepEqual(await retries(pausesMs.length), [40, 80]);
});

it("a reload that names another receiver of usage events ends the pause, and one that does not leaves it", async () => {
  const pausesMs = watchPauses();
  await using receiver = await startUsageReceiver();
  await using repaired = await startUsageReceiver();
  await using billing = new Billing({ receiver, accounts: ["acme"], retryMs: 3_600_000 });
  const store = await billing.openStore();
  receiver.verdict = 500;
  await billing.charge(store, "acme", 3);
  billing.nowMs += DAY_MS;
  const sender = billing.send(store);
  await eventually(() => assert.equal(pausesMs.at(-1), 300_000));
  const begun = pausesMs.length;
  sender.reconfigure();
  assert.equal(pausesMs.length, begun);
  billing.receiver = repaired;
  sender.reconfigure();
  await eventually(() => assert.equal(repaired.all().length, 1));
  assert.deepEqual(repaired.units(), billing.charged);
  await eventually(() => assert.equal(billing.lines("usage_sent").length, 1));
});

it("days that are acknowledged are not looked for again, and a receiver that wants no usage is sent none", async () => {
  const pausesMs = watchPauses();
  const looks = async (count: number) => {
    const before = pausesMs.length;
    await eventually(() => assert.ok(pausesMs.length >= before + count));
  };
  await using receiver = await startUsageReceiver();
  await using billing = new Billing({ receiver, accounts: ["acme"] });
  const store = await billing.openStore();
  const claim = vi.spyOn(store.usageMarks, "claim");
  await billing.charge(store, "acme", 1);
  billing.nowMs += DAY_MS;
  billing.kinds = ["quota"];
  billing.send(store);
  await looks(3);
  assert.deepEqual([receiver.tries, claim.mock.calls.length], [0, 0]);
  billing.kinds = ["all"];
  await eventually(() => assert.equal(billing.lines("usage").length, 1));
  await looks(2);
  const asked = claim.mock.calls.length;
  await looks(3);
  assert.equal(claim.mock.calls.length, asked);
});

it("messages are halved while they fail, which is told once, and doubled as they are acknowledged", async () => {
  await using receiver = await startUsageReceiver();
  const accounts = Array.from({ length: 12 }, (_, i) => `a${10 + i}`);
  await using billing = new Billing({ receiver, accounts });
  const store = await billing.openStore();
  for (const account of accounts) await billing.charge(store, account, 1);
  billing.nowMs += DAY_MS;
  const sizes: number[] = [];
  receiver.verdict = (events) => {
    sizes.push(events.length);
    return sizes.length <= 2 ? 500 : 204;
  };
  billing.send(store);
  await eventually(() => assert.equal(billing.lines("usage").length, 12));
  assert.deepEqual(sizes, [12, 6, 3, 6, 3]);
  assert.deepEqual(
    billing.lines("usage_unsent").map(({ account, why }) => [account, why]),
    [[undefined, "the receiver answered 500"]],
  );
});

it("a receiver of usage events that does not answer holds up no end", async () => {
  await using hole = await openBlackHole();
  await using receiver = await startUsageReceiver();
  await using billing = new Billing({ receiver: { ...receiver, url: hole.origin } });
  const store = await billing.openStore();
  await billing.charge(store, "acme", 3);
  billing.nowMs += DAY_MS;
  const sender = billing.send(store);
  await eventually(() => assert.equal(hole.connections, 1));
  const { value: tookMs, stalledMs } = await watchStalls(async () => {
    const startMs = performance.now();
    await sender.close();
    return performance.now() - startMs;
  });
  assert.ok(tookMs < 3_000 + stalledMs, `${tookMs} ms, of 10 s that an answer may take`);
  assert.deepEqual(billing.lines("usage_unsent"), [], "it did not fail: it was cut");
});

it("a day is told as acknowledged only once the store has marked it, and else it is sent again", async () => {
  await using receiver = await startUsageReceiver();
  await using billing = new Billing({ receiver, accounts: ["acme"] });
  const store = await billing.openStore();
  const { usageMarks } = store;
  let [refused, isAway] = [0, true];
  // The store is there until the receiver has answered, and away when the mark is to be raised.
  const raise: typeof usageMarks.raise = async (marks) => {
    const isEarlier = receiver.tries === 0 || marks.length === 0;
    if (!isAway || isEarlier) return usageMarks.raise(marks);
    refused += 1;
    throw new Error("away");
  };
  const marks: typeof usageMarks = {
    read: (names) => usageMarks.read(names),
    claim: (lifeMs) => usageMarks.claim(lifeMs),
    release: () => usageMarks.release(),
    raise,
  };
  Object.assign(store, { usageMarks: marks });
  await billing.charge(store, "acme", 3);
  billing.nowMs += DAY_MS;
  billing.send(store);
  await eventually(() =>
    assert.ok(refused >= 2 && receiver.tries >= 2, `${refused} of ${receiver.tries}`),
  );
  assert.deepEqual(billing.lines("usage"), []);
  isAway = false;
  await eventually(() => assert.equal(billing.lines("usage").length, 1));
  assert.deepEqual(receiver.units(), billing.charged);
});

it("days of an account whose part of the store is away are sent as soon as it is back", async () => {
  await using receiver = await startUsageReceiver();
  await using billing = new Billing({ receiver });
  const store = await billing.openStore();
  const { usageMarks } = store;
  let [looks, isAway] = [0, true];
  const marks: typeof usageMarks = {
    read: async (names) => {
      looks += 1;
      const all = await usageMarks.read(names);
      return all.map((mark, i) => (isAway && names[i]?.account === "beta" ? undefined : mark));
    },
    claim: (lifeMs) => usageMarks.claim(lifeMs),
    release: () => usageMarks.release(),
    raise: (raised) => usageMarks.raise(raised),
  };
  Object.assign(store, { usageMarks: marks });
  for (const account of billing.accounts) await billing.charge(store, account, 3);
  billing.nowMs += DAY_MS;
  billing.send(store);
  await eventually(() => assert.deepEqual(receiver.units(), { acme: 3 }));
  const before = looks;
  await eventually(() => assert.ok(looks > before, "it looks for the rest"));
  isAway = false;
  await eventually(() => assert.deepEqual(receiver.units(), billing.charged));
});

it("a gateway that has stopped leaves no usage message under way", async () => {
  let nowMs = START;
  const [asked, cut] = [Promise.withResolvers<void>(), Promise.withResolvers<string>()];
  const receiver = createServer((request) => {
    request.socket.on("close", () => cut.resolve("cut"));
    asked.resolve();
  }).listen(0, "127.0.0.1");
  await once(receiver, "listening");
  const { port } = receiver.address() as AddressInfo;
  const events = { url: `http://127.0.0.1:${port}`, secret: SECRET, kinds: ["usage"] };
  await using house = await startTestGateway({
    config: { history: "400d", events },
    keys: { [KEY]: {} },
    now: () => nowMs,
  });
  assert.equal((await house.ask(KEY)).status, 200);
  nowMs += DAY_MS;
  await asked.promise;
  await house.started.stop();
  // An answer may take ten seconds.
  assert.equal(await Promise.race([cut.promise, delay(5_000, "goes on")]), "cut");
  receiver.close();
});
