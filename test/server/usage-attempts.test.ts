import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import { it, vi } from "vitest";
import { DAY_MS } from "../../src/core/quota/days.ts";
import { lateFailure } from "../../src/stores/redis/store-failure.ts";
import { openBlackHole } from "../support/black-hole.ts";
import { startTestGateway } from "../support/gateway/house.ts";
import { KEY } from "../support/gateway/served.ts";
import { watchStalls } from "../support/in-time.ts";
import { eventually } from "../support/poll.ts";
import { startUsageReceiver } from "../support/usage-receiver.ts";
import { SECRET } from "../support/webhook-receiver.ts";
import { Billing, memory, START } from "./billing.ts";

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

it("messages after one that failed alone begin with one event", async () => {
  await using receiver = await startUsageReceiver();
  const accounts = ["bad", "good1", "good2", "good3"];
  await using billing = new Billing({ receiver, accounts, retryMs: 1 });
  const store = await billing.openStore();
  for (const account of accounts) await billing.charge(store, account, 1);
  billing.nowMs += DAY_MS;
  const sizes: number[] = [];
  receiver.verdict = (events) => {
    sizes.push(events.length);
    return events.some(({ subject }) => subject === "bad") ? 500 : 204;
  };
  billing.send(store);
  await eventually(() => assert.equal(billing.lines("usage").length, 3));
  assert.deepEqual(sizes.slice(0, 5), [4, 2, 1, 1, 2]);
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
    read: (accountRefs) => usageMarks.read(accountRefs),
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

it("no message is sent by a gateway whose turn another one has taken meanwhile", async () => {
  await using receiver = await startUsageReceiver();
  await using billing = new Billing({ receiver, accounts: ["acme"] });
  const store = await billing.openStore();
  const { usageMarks } = store;
  let [asked, isFree] = [0, false];
  const marks: typeof usageMarks = {
    read: (accountRefs) => usageMarks.read(accountRefs),
    claim: async (lifeMs) => {
      asked += 1;
      return (asked === 1 || isFree) && usageMarks.claim(lifeMs);
    },
    release: () => usageMarks.release(),
    raise: (raised) => usageMarks.raise(raised),
  };
  Object.assign(store, { usageMarks: marks });
  await billing.charge(store, "acme", 3);
  billing.nowMs += DAY_MS;
  billing.send(store);
  await eventually(() => assert.ok(asked >= 3));
  assert.equal(receiver.tries, 0);
  isFree = true;
  await eventually(() => assert.deepEqual(receiver.units(), billing.charged));
});

it("days of an account whose part of the store is away are sent as soon as it is back", async () => {
  await using receiver = await startUsageReceiver();
  await using billing = new Billing({ receiver });
  const store = await billing.openStore();
  const { usageMarks } = store;
  let [looks, isAway] = [0, true];
  const marks: typeof usageMarks = {
    read: async (accountRefs) => {
      looks += 1;
      const all = await usageMarks.read(accountRefs);
      return all.map((mark, i) =>
        isAway && accountRefs[i]?.account === "beta" ? undefined : mark,
      );
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

it("a day that is over for one node of a Cluster is sent once it is over for the node of its account", async () => {
  let behindMs = 0;
  const open = (now: () => number) => memory(() => now() - behindMs);
  await using receiver = await startUsageReceiver();
  await using billing = new Billing({ receiver, accounts: ["acme"], open });
  const store = await billing.openStore();
  // The time that a gateway reads is that of one node.
  Object.assign(store, { readNow: async () => billing.nowMs });
  const claim = vi.spyOn(store.usageMarks, "claim");
  await billing.charge(store, "acme", 3);
  [behindMs, billing.nowMs] = [DAY_MS, billing.nowMs + DAY_MS];
  billing.send(store);
  await eventually(() => assert.ok(claim.mock.calls.length >= 2, "it looks again"));
  assert.equal(receiver.tries, 0);
  behindMs = 0;
  await eventually(() => assert.deepEqual(receiver.units(), billing.charged));
});

it("a day is sent although the store did not tell its time at first", async () => {
  await using receiver = await startUsageReceiver();
  await using billing = new Billing({ receiver, accounts: ["acme"] });
  const store = await billing.openStore();
  await billing.charge(store, "acme", 3);
  billing.nowMs += DAY_MS;
  vi.spyOn(store, "readNow").mockRejectedValueOnce(lateFailure(2_000));
  billing.send(store);
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
  await house.gateway.stop();
  // An answer may take ten seconds.
  assert.equal(await Promise.race([cut.promise, delay(5_000, "goes on")]), "cut");
  receiver.close();
});
