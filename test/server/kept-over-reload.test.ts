import assert from "node:assert/strict";
import { it } from "vitest";
import { startTestGateway, type TestGateway } from "../support/gateway/house.ts";
import { KEY } from "../support/gateway/served.ts";
import { eventually } from "../support/poll.ts";
import { startRedis } from "../support/redis/redis.ts";
import { SECRET, startWebhookReceiver } from "../support/webhook-receiver.ts";

async function reload(house: TestGateway, config: Readonly<Record<string, unknown>>) {
  await house.rewrite(config);
  const reloaded = await house.started.reload();
  assert.ok(reloaded.ok, JSON.stringify(reloaded));
}

it("events go to the receiver that the configuration in force names, from that reload on", async () => {
  await using before = await startWebhookReceiver();
  await using after = await startWebhookReceiver();
  const events = ({ url }: { readonly url: string }) => ({ events: { url, secret: SECRET } });
  await using house = await startTestGateway({ config: events(before) });
  await reload(house, events(after));
  await eventually(() => assert.equal(after.received.length, 1));
  assert.deepEqual(
    after.received.flatMap((message) => message.events.map(({ kind }) => kind)),
    ["config_reloaded"],
  );
  assert.equal(before.tries, 0);
});

it("failures of an address are counted on over a reload that leaves their allowance as it is", async () => {
  const unauthenticated = { day: 5 };
  await using house = await startTestGateway({ config: { unauthenticated } });
  const left = async () => {
    const { status, headers } = await house.ask("pets_live_no_key");
    assert.equal(status, 401);
    return Number(headers.get("x-ratelimit-remaining"));
  };
  assert.deepEqual([await left(), await left()], [4, 3]);
  await reload(house, { unauthenticated, log: { level: "warn" } });
  assert.equal(await left(), 2);
  await reload(house, { unauthenticated: { day: 9 } });
  assert.equal(await left(), 8);
});

it("a limit is told by the windows of the configuration in force", async () => {
  const redis = await startRedis();
  try {
    await using receiver = await startWebhookReceiver();
    const events = (quota: readonly string[]) => {
      return { events: { url: receiver.url, secret: SECRET, quota } };
    };
    await using house = await startTestGateway({
      config: { store: redis.url, plans: { free: { month: 10 } }, ...events(["minute"]) },
      keys: { [KEY]: {} },
    });
    await reload(house, events(["month"]));
    for (let i = 0; i < 8; i++) assert.equal((await house.ask(KEY)).status, 200);
    await eventually(() => {
      const told = house.said.filter(({ kind }) => kind === "quota");
      assert.deepEqual(
        told.map(({ window, percent, used }) => [window, percent, used]),
        [["month", 80, 8]],
      );
    });
  } finally {
    await redis.close();
  }
});

it("what is charged late is told by the windows of the configuration that is in force by then", async () => {
  const redis = await startRedis();
  try {
    await using receiver = await startWebhookReceiver();
    const events = (quota: readonly string[]) => {
      return { events: { url: receiver.url, secret: SECRET, quota } };
    };
    await using house = await startTestGateway({
      config: {
        ...{ store: redis.url, storeTimeout: "100ms", onStoreFailure: "local" },
        ...{ plans: { free: { month: 10 } }, ...events(["minute"]) },
      },
      keys: { [KEY]: {} },
    });
    await reload(house, events(["month"]));
    assert.equal((await house.ask(KEY)).status, 200);
    redis.stop();
    for (let i = 0; i < 8; i++) assert.equal((await house.ask(KEY)).status, 200);
    redis.cont();
    const told = () => house.said.filter(({ kind }) => kind === "quota");
    await eventually(() => assert.equal(told().length, 1));
    assert.deepEqual(
      told().map(({ window, percent, used }) => [window, percent, used]),
      [["month", 80, 9]],
    );
  } finally {
    redis.cont();
    await redis.close();
  }
});
