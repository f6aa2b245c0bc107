import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, describe, it } from "vitest";
import type { ToldReset } from "../../../../../src/stores/quotas/redis/changes/invalidation-message.ts";
import {
  createInvalidationChannel,
  InvalidationPublisher,
} from "../../../../../src/stores/quotas/redis/changes/invalidation-publisher.ts";
import {
  InvalidationSubscriber,
  type InvalidationSubscriberOptions,
} from "../../../../../src/stores/quotas/redis/changes/invalidation-subscriber.ts";
import { createQuotaClient } from "../../../../../src/stores/quotas/redis/quota-client.ts";
import { connectRedis } from "../../../../../src/stores/redis/engines/single-link.ts";
import type { Link } from "../../../../../src/stores/redis/link.ts";
import type { StoreFailure } from "../../../../../src/stores/redis/store-failure.ts";
import { eventually } from "../../../../support/poll.ts";
import { startRedis } from "../../../../support/redis/redis.ts";
import { openTcpProxy } from "../../../../support/wire/tcp-proxy.ts";

const server = await startRedis();
const client = await server.client();
afterAll(() => server.close());

/** Among the accounts that a gateway dropped: all of them, and their bans. */
const EVERYTHING = "everything";

/** Each of the two connections of a gateway may be behind the other. */
type Behind = { readonly messagesMs?: number; readonly numbersMs?: number };

function behind(link: Link, { messagesMs = 0, numbersMs = 0 }: Behind, onUp: () => void): Link {
  const late: Pick<Link, "send" | "subscribe"> = {
    send: async (key, name, args, read) => {
      const reply = await link.send(key, name, args, read);
      if (name === "get") await sleep(numbersMs);
      return reply;
    },
    subscribe: (channel, heard) => {
      const message = (text: string) => void setTimeout(() => heard.message(text), messagesMs);
      const up = () => {
        heard.up();
        onUp();
      };
      return link.subscribe(channel, { ...heard, message, up });
    },
  };
  return { ...link, clustered: link.clustered, tried: link.tried, ...late };
}

function addressOf(user: string, port: number): typeof server.address {
  const url = `redis://${user}${user === "" ? "" : "@"}127.0.0.1:${port}`;
  return { kind: "redis", url, shown: url };
}

/** A gateway that hears so, the accounts that it dropped, and how often it read the number. */
function open(prefix: string, how: Behind = {}, { user = "", port = server.port } = {}) {
  const none: string[] = [];
  const seen = {
    dropped: none,
    learned: [] as string[],
    denied: [] as string[],
    resets: [] as ToldReset[],
  };
  const state = Object.assign(seen, { read: 0, isAway: false, isSubscribed: false });
  const onUp = () => {
    state.isSubscribed = true;
  };
  const link = behind(connectRedis({ address: addressOf(user, port) }), how, onUp);
  const quotaClient = createQuotaClient(link, prefix, {});
  const channel = createInvalidationChannel(prefix);
  const tellDenied = (what: string, failure?: StoreFailure) => {
    if (failure !== undefined) seen.denied.push(what);
  };
  const publisher = new InvalidationPublisher(quotaClient, tellDenied, channel);
  const heard: InvalidationSubscriberOptions = {
    ...{ quotaClient, tellDenied, pending: () => {} },
    reset: (toldReset) => seen.resets.push(toldReset),
    learn: (id) => seen.learned.push(id),
    invalidate: (ids = ["all"]) => seen.dropped.push(...ids),
    distrust: () => seen.dropped.push(EVERYTHING),
    probed: (failure) => {
      state.read += 1;
      state.isAway = failure !== undefined;
    },
  };
  const subscriber = new InvalidationSubscriber(heard, channel);
  return Object.assign(state, {
    publisher,
    [Symbol.asyncDispose]: async () => {
      subscriber.close();
      publisher.close();
      await link.close();
    },
  });
}

type Gateway = ReturnType<typeof open>;

/** Once it is subscribed and has read the number at the start, it has missed nothing. */
function hears(gateway: Gateway): Promise<void> {
  return eventually(() => assert.ok(gateway.isSubscribed && gateway.read >= 2));
}

/** Has one gateway tell of bans until another has read the number five times more. */
async function tellWhileRead(teller: Gateway, reader: Gateway): Promise<number> {
  await hears(reader);
  const enough = reader.read + 5;
  let told = 0;
  for (; reader.read < enough; told++) {
    await teller.publisher.publish(`production:a${told}`);
    await sleep(5);
  }
  return told;
}

describe.concurrent("a message and its number, which come by two connections", () => {
  it.each([
    ["message", { messagesMs: 40 }],
    ["number", { numbersMs: 40 }],
  ])(
    "drop what is known of its account and of no other, if the %s is the later one",
    async (what, how) => {
      await using teller = open(what);
      await using reader = open(what, how);
      const told = await tellWhileRead(teller, reader);
      await eventually(() => assert.equal(reader.dropped.length, told));
      assert.ok(!reader.dropped.includes(EVERYTHING));
    },
  );

  it("drop what is known of its account and of no other where the store counts from the beginning again", async () => {
    await using teller = open("again");
    await using reader = open("again", { numbersMs: 40 });
    const told = await tellWhileRead(teller, reader);
    await client.del("again:{0}:version");
    const further = await tellWhileRead(teller, reader);
    await eventually(() => assert.equal(reader.dropped.length, told + further));
    assert.ok(!reader.dropped.includes(EVERYTHING));
  });

  it("drop nothing of the gateway that told it, if the message is the later one", async () => {
    await using teller = open("own", { messagesMs: 40 });
    assert.ok((await tellWhileRead(teller, teller)) > 0);
    assert.deepEqual(teller.dropped, []);
  });

  it("drop everything if the message never comes", async () => {
    await using teller = open("never");
    await using reader = open("never", { messagesMs: 1e6 });
    await hears(reader);
    await teller.publisher.publish("production:a");
    await eventually(() => assert.deepEqual(reader.dropped, [EVERYTHING]));
  });

  it("drop nothing if none comes and all were its own, and everything once one was not", async () => {
    await using other = open("mine");
    await using reader = open("mine", { messagesMs: 1e6 });
    await hears(reader);
    await reader.publisher.publish("production:a");
    const enough = reader.read + 2;
    await eventually(() => assert.ok(reader.read >= enough));
    assert.deepEqual(reader.dropped, []);
    await other.publisher.publish("production:b");
    await eventually(() => assert.deepEqual(reader.dropped, [EVERYTHING]));
  });
});

describe("a message that could not be sent", () => {
  it("is told as a right that is missing, and sent once it can be", async () => {
    const rights = (...more: string[]) => client.call("ACL", "SETUSER", "mute", ...more);
    await rights("on", ">s3cret", "allkeys", "allchannels", "+@all", "-incr");
    await using teller = open("unsent", {}, { user: "mute:s3cret" });
    await using reader = open("unsent");
    await hears(reader);
    const total = { counter: "d", startMs: 0, endMs: undefined, used: 2 };
    teller.publisher.tellCounts("production:lowered", [total], 1);
    const id = "production:banned";
    teller.publisher.publishSoon(id, { id, atMs: 1, ban: undefined });
    const counters = ["#tokens.month", "#tokens.year"];
    const resets = [1, 2].map((i) => ({ id: `production:reset${i}`, atMs: i, counters }));
    for (const reset of resets) teller.publisher.publishSoon(reset.id, reset);
    const missing = () => teller.denied.filter((what) => what === "INCR unsent:{0}:version");
    await eventually(() => missing().length >= 2);
    assert.deepEqual([reader.dropped, reader.learned], [[], []]);
    await rights("+incr");
    await eventually(() => {
      const dropped = [...resets.map(({ id }) => id), "production:banned"];
      assert.deepEqual(reader.dropped.toSorted(), dropped.toSorted());
      assert.deepEqual(reader.resets, resets);
      assert.deepEqual(reader.learned, ["production:lowered"]);
    });
  });
});

/** Puts a store back to where it was after this many messages, as a failover does. */
async function goBack(prefix: string, kept: number, logged: number): Promise<void> {
  const log = `${prefix}:{0}:messages`;
  await client.set(`${prefix}:{0}:version`, kept);
  for (let number = logged + 1; number <= 3; number++) await client.hdel(log, String(number));
}

describe.concurrent("a gateway that was cut off while the store went back to a smaller number", () => {
  it.each([
    ["accounts that were named since", "beginning", { kept: 0, logged: 0 }, ["lifted"]],
    ["accounts that were named since", "copy of a replica", { kept: 2, logged: 2 }, ["lifted"]],
    ["nothing, if nobody was named", "beginning", { kept: 0, logged: 0 }, []],
    ["nothing, if nobody was named", "copy of a replica", { kept: 2, logged: 2 }, []],
    [
      "everything, if the log is too short",
      "copy of a replica",
      { kept: 2, logged: 0 },
      ["lifted"],
    ],
  ] as const)("drops %s: from the %s", async (what, _from, { kept, logged }, named) => {
    const prefix = `back${kept}${logged}${named.length}`;
    await using proxy = await openTcpProxy(server);
    await using teller = open(prefix);
    await using reader = open(prefix, {}, { port: proxy.port });
    await hears(reader);
    for (const id of ["a", "b", "c"]) await teller.publisher.publish(`production:${id}`);
    await eventually(() => assert.equal(reader.dropped.length, 3));
    await proxy.refuse();
    await eventually(() => assert.ok(reader.isAway));
    await goBack(prefix, kept, logged);
    for (const id of named) await teller.publisher.publish(`production:${id}`);
    reader.isSubscribed = false;
    await proxy.listen();
    await eventually(() => assert.ok(reader.isSubscribed && !reader.isAway));
    const enough = reader.read + 2;
    await eventually(() => assert.ok(reader.read >= enough));
    const expected = what.startsWith("everything")
      ? [EVERYTHING]
      : named.map((id) => `production:${id}`);
    assert.deepEqual(reader.dropped.slice(3), expected);
  });

  it("drops nothing for a message of its own, which it sent again to a store that had lost it", async () => {
    const log = "resent:{0}:messages";
    await using proxy = await openTcpProxy(server);
    await using reader = open("resent", {}, { port: proxy.port });
    await hears(reader);
    await reader.publisher.publish("production:a");
    const [sent = assert.fail("nothing was logged")] = await client.hvals(log);
    const origin = sent.split(".", 1)[0];
    await proxy.refuse();
    await eventually(() => assert.ok(reader.isAway));
    await goBack("resent", 1, 0);
    await client.hset(log, "1", `${origin}.99 production:banned`);
    reader.isSubscribed = false;
    await proxy.listen();
    await eventually(() => assert.ok(reader.isSubscribed && !reader.isAway));
    const enough = reader.read + 2;
    await eventually(() => assert.ok(reader.read >= enough));
    assert.deepEqual(reader.dropped, []);
  });
});
