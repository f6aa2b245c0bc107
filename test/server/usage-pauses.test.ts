import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { it, onTestFinished, vi } from "vitest";
import { DAY_MS } from "../../src/core/quota/days.ts";
import { eventually } from "../support/poll.ts";
import { startUsageReceiver } from "../support/usage-receiver.ts";
import { startWebhookReceiver } from "../support/webhook-receiver.ts";
import { Billing } from "./billing.ts";

/**
 * The pauses of senders, from now on to the end of the test, and those that have neither ended nor
 * been cancelled. If they are `short`, each is over at once.
 */
function watchPauses({ short = false } = {}) {
  const pausesMs: number[] = [];
  const waiting = new Set<unknown>();
  const [wait, cancel] = [globalThis.setTimeout, globalThis.clearTimeout];
  const begun = vi.spyOn(globalThis, "setTimeout").mockImplementation(((
    work: () => void,
    ms: number,
  ) => {
    if (!new Error().stack?.includes("/usage-event-sender.ts")) return wait(work, ms);
    pausesMs.push(ms);
    const end = () => {
      waiting.delete(timer);
      work();
    };
    const timer = wait(end, short ? 0 : ms);
    waiting.add(timer);
    return timer;
  }) as typeof setTimeout);
  const cancelled = vi.spyOn(globalThis, "clearTimeout").mockImplementation((timer) => {
    waiting.delete(timer);
    cancel(timer);
  });
  onTestFinished(() => {
    begun.mockRestore();
    cancelled.mockRestore();
  });
  return { pausesMs, waiting };
}

it("a sender looks a second after its start, then each ten seconds, and tries again after 1 s to 5 min", async () => {
  const { pausesMs } = watchPauses({ short: true });
  await using receiver = await startUsageReceiver();
  await using billing = new Billing({ receiver, accounts: ["acme"], isPaced: true });
  const store = await billing.openStore();
  const claim = vi.spyOn(store.usageMarks, "claim");
  receiver.verdict = 500;
  await billing.charge(store, "acme", 1);
  billing.send(store);
  await eventually(() => assert.ok(pausesMs.length >= 3));
  billing.nowMs += DAY_MS;
  await eventually(() => assert.ok(pausesMs.filter((ms) => ms === 300_000).length >= 2));
  const looks = pausesMs.findIndex((ms, i) => i > 0 && ms !== 10_000);
  assert.deepEqual(pausesMs.slice(0, looks), [1_000, ...Array(looks - 1).fill(10_000)]);
  const retriesS = pausesMs.slice(looks, looks + 11).map((ms) => ms / 1_000);
  assert.deepEqual(retriesS, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
  // An answer may take ten seconds, and its mark may wait for the store.
  assert.deepEqual([...new Set(claim.mock.calls.flat())], [30_000]);
});

it.for([
  ["is not there", undefined, undefined],
  ["is busy", 503, undefined],
  ["has another secret", 401, undefined],
  ["refuses the event", 400, "acme"],
  ["fails at the event", 500, "acme"],
] as const)("a receiver that %s is asked after each pause", async ([, status, named]) => {
  const { pausesMs } = watchPauses({ short: true });
  await using receiver = await startUsageReceiver();
  await using billing = new Billing({ receiver, accounts: ["acme"] });
  if (status === undefined) billing.receiver = { ...receiver, url: "http://127.0.0.1:9" };
  else receiver.verdict = status;
  const store = await billing.openStore();
  await billing.charge(store, "acme", 3);
  billing.nowMs += DAY_MS;
  const sender = billing.send(store);
  await eventually(() => assert.ok(pausesMs.includes(640)));
  if (status !== undefined) {
    const failed = pausesMs.slice(pausesMs.indexOf(40) - 1).length;
    assert.ok(receiver.tries >= failed - 1, `${receiver.tries} tries before ${failed} pauses`);
  }
  const told = billing.lines("usage_unsent").map(({ account }) => account);
  assert.deepEqual([...new Set(told)], [named]);
  if (named === undefined) assert.equal(told.length, 1, "once");
  receiver.verdict = 200;
  billing.receiver = receiver;
  sender.reconfigure();
  await eventually(() => assert.equal(billing.lines("usage_sent").length, 1));
  assert.deepEqual(receiver.units(), billing.charged);
});

it("an event that is refused alone is set aside by its refusal, and none while the receiver is busy", async () => {
  await using receiver = await startUsageReceiver();
  const accounts = ["bad", "good1", "good2"];
  await using billing = new Billing({ receiver, accounts, retryMs: 1 });
  const store = await billing.openStore();
  for (const account of accounts) await billing.charge(store, account, 1);
  billing.nowMs += DAY_MS;
  const asked: string[] = [];
  receiver.verdict = (events) => {
    asked.push(events.map(({ subject }) => subject).join());
    if (asked.length <= 4) return 503;
    return events.some(({ subject }) => subject === "bad") ? 422 : 204;
  };
  billing.send(store);
  await eventually(() => assert.equal(billing.lines("usage").length, 2));
  assert.deepEqual(asked.slice(0, 7), [
    "bad,good1,good2",
    ..."bad ".repeat(4).trim().split(" "),
    "good1",
    "good2",
  ]);
});

it("the pauses between attempts double from account to account too, once each is sent alone", async () => {
  const { pausesMs } = watchPauses();
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
  const { pausesMs } = watchPauses();
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
  const { pausesMs, waiting } = watchPauses();
  await using receiver = await startUsageReceiver();
  await using broken = await startUsageReceiver();
  await using repaired = await startUsageReceiver();
  await using billing = new Billing({ receiver, accounts: ["acme"], retryMs: 200_000 });
  const store = await billing.openStore();
  for (const one of [receiver, broken]) one.verdict = 500;
  await billing.charge(store, "acme", 3);
  billing.nowMs += DAY_MS;
  const sender = billing.send(store);
  await eventually(() => assert.equal(pausesMs.at(-1), 200_000));
  const begun = pausesMs.length;
  sender.reconfigure();
  assert.equal(pausesMs.length, begun);
  billing.receiver = broken;
  sender.reconfigure();
  await eventually(() => assert.equal(pausesMs.length, begun + 2));
  assert.deepEqual(pausesMs.slice(begun), [0, 200_000], "as after a first failure");
  assert.deepEqual([broken.tries, waiting.size], [1, 1], "in place of the pause before");
  billing.receiver = repaired;
  sender.reconfigure();
  await eventually(() => assert.equal(repaired.all().length, 1));
  assert.deepEqual(repaired.units(), billing.charged);
  await eventually(() => assert.equal(billing.lines("usage_sent").length, 1));
});

it("a reload that names another receiver sends it an event that the one before refused in the place of the event", async () => {
  await using receiver = await startUsageReceiver();
  await using other = await startUsageReceiver();
  const accounts = ["bad", "good"];
  await using billing = new Billing({ receiver, accounts, retryMs: 1 });
  const store = await billing.openStore();
  for (const account of accounts) await billing.charge(store, account, 1);
  billing.nowMs += DAY_MS;
  receiver.verdict = (events) => {
    if (events.some(({ subject }) => subject === "bad")) return 422;
    billing.receiver = other;
    sender.reconfigure();
    return 503;
  };
  const sender = billing.send(store);
  await eventually(() => assert.equal(other.all().length, 2));
  assert.deepEqual(
    other.all().map(({ subject }) => subject),
    accounts,
  );
});

it("a reload that names another receiver while a message is on its way begins no second look", async () => {
  const { pausesMs, waiting } = watchPauses();
  await using receiver = await startUsageReceiver();
  await using next = await startUsageReceiver();
  await using billing = new Billing({ receiver, accounts: ["acme"] });
  const store = await billing.openStore();
  await billing.charge(store, "acme", 3);
  billing.nowMs += DAY_MS;
  receiver.verdict = () => {
    billing.receiver = next;
    sender.reconfigure();
    return 200;
  };
  const sender = billing.send(store);
  await eventually(() => assert.equal(billing.lines("usage").length, 1));
  await eventually(() => assert.equal(waiting.size, 1));
  // The end of the message is followed by one look, which finds the next receiver.
  assert.deepEqual([...new Set(pausesMs)].toSorted(), [0, 20]);
  assert.equal(pausesMs.filter((ms) => ms === 0).length, 1);
});

it("a sender has closed once it looks no more, and never looks again", async () => {
  const { pausesMs, waiting } = watchPauses();
  await using receiver = await startUsageReceiver();
  await using billing = new Billing({ receiver, accounts: ["acme"] });
  const store = await billing.openStore();
  const pausing = billing.send(store);
  await eventually(() => assert.ok(pausesMs.length >= 2 && waiting.size === 1));
  await pausing.close();
  assert.equal(waiting.size, 0);
  const released = Promise.withResolvers<void>();
  const release = vi.spyOn(store.usageMarks, "release").mockReturnValue(released.promise);
  const looking = billing.send(store);
  await eventually(() => assert.equal(release.mock.calls.length, 1));
  const closed = looking.close().then(() => "closed");
  assert.equal(await Promise.race([closed, sleep(20, "looks")]), "looks");
  released.resolve();
  assert.deepEqual([await closed, waiting.size], ["closed", 0]);
});

it("days that are acknowledged are not looked for again, and none before the records are read or for a receiver that wants no usage", async () => {
  const { pausesMs } = watchPauses();
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
  billing.isReady = false;
  billing.send(store);
  await looks(3);
  [billing.isReady, billing.kinds] = [true, ["quota"]];
  await looks(3);
  assert.deepEqual([receiver.tries, claim.mock.calls.length], [0, 0]);
  billing.kinds = ["all"];
  await eventually(() => assert.equal(billing.lines("usage").length, 1));
  await looks(2);
  const asked = claim.mock.calls.length;
  await looks(3);
  assert.equal(claim.mock.calls.length, asked);
});

it("a reload that names another receiver cuts the message to one that is hung, and sends it at once", async () => {
  await using hung = await startWebhookReceiver();
  await using right = await startUsageReceiver();
  hung.status = 0;
  await using billing = new Billing({ receiver: { ...right, url: hung.url }, retryMs: 60_000 });
  const store = await billing.openStore();
  for (const account of ["acme", "beta"]) await billing.charge(store, account, 2);
  billing.nowMs += DAY_MS;
  const sender = billing.send(store);
  await eventually(() => assert.equal(hung.tries, 1));
  sender.reconfigure();
  billing.receiver = right;
  sender.reconfigure();
  await eventually(() => assert.equal(billing.lines("usage").length, 2), { withinMs: 5_000 });
  assert.deepEqual(right.units(), billing.charged);
  assert.deepEqual([hung.tries, billing.lines("usage_unsent")], [1, []]);
});
