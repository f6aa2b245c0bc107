import assert from "node:assert/strict";
import { once } from "node:events";
import { Agent, type IncomingMessage, request } from "node:http";
import { connect } from "node:net";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { describe, it } from "vitest";
import { makeKey } from "../../../src/core/keys/key.ts";
import { createAuthFailureLimiter } from "../../../src/gateway/client/auth-failure-limiter.ts";
import { each } from "../../support/each.ts";
import { startTestGateway, type TestGateway } from "../../support/gateway/house.ts";
import { eventually } from "../../support/poll.ts";
import { monitorRedis } from "../../support/redis/monitor.ts";
import { startRedis } from "../../support/redis/redis.ts";
import { openClient, rateLimitFieldsOf } from "../../support/wire/client.ts";

const NOON = Date.UTC(2026, 6, 15, 12);

setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc") as () => void;

function heapMiB(): number {
  collect();
  return process.memoryUsage().heapUsed / 2 ** 20;
}

type Told = { readonly status: number; readonly headers: IncomingMessage["headers"] };

/** One request from an address of loopback, with these fields; its connection is its own. */
function askFrom(
  house: TestGateway,
  from: string,
  headers: Record<string, string> = {},
  agent: Agent | false = false,
): Promise<Told> {
  return new Promise((resolve, reject) => {
    const options = { localAddress: from, headers, agent };
    request(`${house.url}/v1/pets`, options, (response) => {
      response.resume();
      response.once("end", () => {
        resolve({ status: response.statusCode ?? 0, headers: response.headers });
      });
    })
      .once("error", reject)
      .end();
  });
}

const WRONG = { Authorization: "Bearer pets_live_nonsense-nonsense" };

describe("the allowance for failed authentications", () => {
  it("lets so many pass, tells where the address stands, and slows the next", async () => {
    const now = () => NOON + 12_500;
    await using house = await startTestGateway({ now, config: { unauthenticated: { minute: 3 } } });
    const { key } = await house.issue();
    await using client = await openClient(house.port);
    const told = [];
    for (const fields of [[], [["Authorization", "Bearer x"]], []] as const) {
      told.push(await client.ask({ fields }));
    }
    assert.deepEqual(
      told.map((response) => [
        response.status,
        rateLimitFieldsOf(response).limit,
        rateLimitFieldsOf(response).remaining,
      ]),
      [
        [401, 3, 2],
        [401, 3, 1],
        [401, 3, 0],
      ],
    );
    assert.ok(
      client.open() &&
        each(told).every((one) => !one.fields.some(([name]) => name === "Retry-After")),
    );

    const slowed = await client.ask({ key: "pets_live_unknown0unknown0unknown" });
    const value = (name: string) => slowed.fields.find(([field]) => field === name)?.[1];
    assert.equal(slowed.status, 401);
    assert.equal(value("Connection"), "close");
    assert.deepEqual(
      [rateLimitFieldsOf(slowed).limit, rateLimitFieldsOf(slowed).remaining],
      [3, 0],
    );
    assert.equal(value("Retry-After"), "48");
    for (const response of each([...told, slowed])) {
      assert.equal(
        rateLimitFieldsOf(response).reset,
        NOON / 1_000 + 60,
        "a minute ends at second 0",
      );
    }
    assert.equal(await client.ended, "closed");

    const agent = new Agent({ keepAlive: true });
    for (let i = 0; i < 5; i++) {
      const served = await askFrom(house, "127.0.0.1", { Authorization: `Bearer ${key}` }, agent);
      assert.equal(served.status, 200, "a valid key from the same address");
      assert.notEqual(served.headers.connection, "close");
      assert.equal(served.headers["x-ratelimit-limit"], "60", "its own fields");
      assert.equal(served.headers["x-ratelimit-remaining"], String(59 - i));
    }
    agent.destroy();
    assert.equal((await askFrom(house, "127.0.0.1", WRONG)).headers.connection, "close");
    await house.law();
  });

  it("is each address's own, and one that waits as told is not slowed any more", async () => {
    let nowMs = NOON + 200;
    const now = () => nowMs;
    // A count is forgotten by the machine's clock too: that of a second might be gone too soon.
    await using house = await startTestGateway({ now, config: { unauthenticated: { minute: 1 } } });
    await askFrom(house, "127.0.0.1", WRONG);
    const slowed = await askFrom(house, "127.0.0.1", WRONG);
    assert.equal(slowed.headers["retry-after"], "60");
    for (const other of ["127.0.0.2", "127.0.0.3", "127.1.2.3", "127.255.255.254"]) {
      assert.equal((await askFrom(house, other, WRONG)).headers["retry-after"], undefined);
    }
    nowMs = NOON + 59_999;
    assert.equal((await askFrom(house, "127.0.0.1", WRONG)).headers["retry-after"], "1");
    nowMs = NOON + 60_000;
    assert.equal((await askFrom(house, "127.0.0.1", WRONG)).headers["retry-after"], undefined);
  });

  it("is charged by 401s alone, and by the client behind a trusted proxy", async () => {
    const config = { unauthenticated: { minute: 2 }, trustedProxies: ["127.0.0.0/8"] };
    await using house = await startTestGateway({ config, now: () => NOON });
    const { key } = await house.issue();
    const behind = (client: string, more: Record<string, string> = {}) => {
      return askFrom(house, "127.0.0.1", { "X-Forwarded-For": client, ...more });
    };
    const valid = { Authorization: `Bearer ${key}` };
    for (let i = 0; i < 5; i++) assert.equal((await behind("192.0.2.1", valid)).status, 200);
    assert.equal((await behind("192.0.2.1", { Expect: "nonsense" })).status, 417);
    const left = async (client: string) => {
      return (await behind(client)).headers["x-ratelimit-remaining"];
    };
    assert.deepEqual([await left("192.0.2.1"), await left("192.0.2.1")], ["1", "0"]);
    assert.equal(await left("192.0.2.2"), "1");
    assert.equal(await left("2001:db8:0:1::a"), "1");
    assert.equal(await left("2001:db8:0:1:ffff::b"), "0", "a /64 is one client");
    assert.equal(await left("2001:db8:0:2::a"), "1");
    assert.equal(await left("::ffff:192.0.2.2"), "0", "IPv4 in IPv6 is IPv4");
  });

  it("holds for a window longer than a timer can be set for", async () => {
    const allowance = createAuthFailureLimiter({ window: "month", limit: 1 });
    // 31 days lie ahead, and a timer ends at 24.8.
    const first = Date.UTC(2026, 6, 1);
    assert.equal((await allowance.consume("192.0.2.1", first)).over, false);
    await new Promise((resolve) => setTimeout(resolve, 20));
    const { over, rateLimitInfo } = await allowance.consume("192.0.2.1", first);
    assert.equal(over, true);
    assert.equal(rateLimitInfo.resetMs, Date.UTC(2026, 7, 1));
  });
});

describe("a world of addresses that fail", () => {
  it("takes a bounded part of memory, however many they are", async (t) => {
    const allowance = createAuthFailureLimiter({ window: "hour", limit: 1_000 });
    const fail = async (from: number, to: number) => {
      for (let i = from; i < to; i++) {
        await allowance.consume(`10.${(i >> 16) & 255}.${(i >> 8) & 255}.${i & 255}`, NOON);
      }
    };
    const emptyMiB = heapMiB();
    await fail(0, 250_000);
    const fullMiB = heapMiB();
    await fail(250_000, 400_000);
    const fullerMiB = heapMiB();
    t.annotate(
      `250,000 addresses ${(fullMiB - emptyMiB).toFixed(1)} MiB, 400,000 ${(fullerMiB - emptyMiB).toFixed(1)} MiB`,
    );
    assert.ok(fullMiB - emptyMiB < 64, `${fullMiB - emptyMiB} MiB`);
    assert.ok(fullerMiB - fullMiB < 4, `${fullerMiB - fullMiB} MiB more`);
  });
});

/** The names that a gateway asks its store for by itself, whether requests come or not. */
const OF_ITSELF = ["version", "status", "gateways", "form", "time", "resets", "used", "eval"];
/** The commands that concern no key: it sends them now and then, or once it is connected again. */
const OF_A_CONNECTION = [
  "info",
  "hello",
  "auth",
  "select",
  "client",
  "subscribe",
  "script",
  "ping",
];

describe("100,000 wrong keys of any shape", () => {
  it("cause no command to the store, and touch no backend", async (t) => {
    const server = await startRedis();
    t.onTestFinished(() => server.close());
    const config = {
      store: server.url,
      unauthenticated: { minute: 10_000_000 },
      log: { level: "error" },
    };
    await using house = await startTestGateway({ config });
    const { key } = await house.issue();
    assert.equal((await house.ask(key)).status, 200);
    let asked: string[] = [];
    using _monitor = await monitorRedis(server.port, ({ args, source }) => {
      const named = args.find((one, i) => i > 0 && one.startsWith("tg:"));
      const name = named?.replace(/^tg:\w?\{\d+\}:/, "") ?? String(args[0]);
      if (source !== "lua" && !OF_A_CONNECTION.includes(name.toLowerCase())) asked.push(name);
    });

    const random = (max: number) => Math.floor(Math.random() * max);
    const shapes = [
      () => `Authorization: Bearer ${makeKey("pets", "live", random)}`,
      () => `Authorization: Bearer ${makeKey("pets", "test", random)}`,
      () => `Authorization: Bearer ${makeKey("other", "live", random)}`,
      () => `Authorization: Bearer ${makeKey("pets", "live", random).slice(0, -1)}_`,
      () => `Authorization: Bearer ${key.slice(0, -1)}${key.endsWith("a") ? "b" : "a"}`,
      () => `Authorization: Bearer ${"A".repeat(16 + random(497))}`,
      () => "Authorization: Basic cGV0czpsaXZl",
      () => `Authorization: Bearer ${random(99)}`,
      () => "X-Api-Key: tg:{0}:gateways",
    ];
    // The control: what a valid key causes is seen.
    await house.ask(key);
    await eventually(() => asked.some((name) => name.startsWith("production:")));
    asked = [];
    const seen = house.backend.seen.length;
    const startMs = performance.now();
    const batches = Array.from({ length: 100 }, () => batchOf(100, shapes));
    const answered = await Promise.all(
      Array.from({ length: 10 }, () => pipeline(house.port, batches)),
    );
    const tookMs = performance.now() - startMs;
    assert.deepEqual(answered, Array(10).fill(10_000));
    t.annotate(`100,000 in ${(tookMs / 1000).toFixed(1)} s`);
    assert.equal(house.backend.seen.length, seen);
    assert.deepEqual(
      [...new Set(asked)].filter((name) => !OF_ITSELF.includes(name)),
      [],
    );
    for (const name of OF_ITSELF) {
      // A store that is late, as on a machine that stalls, is asked twice a second.
      const most = (tookMs / 1_000) * 2 + 4;
      const times = asked.filter((one) => one === name).length;
      assert.ok(times <= most, `${times} times ${name}, at most ${most.toFixed(1)}`);
    }
  });

  function batchOf(requests: number, shapes: readonly (() => string)[]): string {
    const heads = Array.from({ length: requests }, (_, i) => {
      return `GET /v1/pets HTTP/1.1\r\nHost: gw.test\r\n${shapes[i % shapes.length]?.()}\r\n\r\n`;
    });
    return heads.join("");
  }

  /** Sends batches of 100 requests over one connection, one after the other, and counts the 401s. */
  async function pipeline(port: number, batches: readonly string[]): Promise<number> {
    const socket = connect(port, "127.0.0.1").on("error", () => {});
    await once(socket, "connect");
    const status = "HTTP/1.1 401 ";
    let [refused, tail] = [0, ""];
    socket.setEncoding("latin1").on("data", (text: string) => {
      const all = tail + text;
      refused += all.split(status).length - 1;
      tail = all.slice(1 - status.length);
    });
    for (const [i, batch] of batches.entries()) {
      socket.write(batch);
      await eventually(() => refused >= 100 * (i + 1), { withinMs: 60_000, everyMs: 1 });
    }
    socket.destroy();
    return refused;
  }
});

describe("whose failures count together", () => {
  it("cannot be reckoned from outside: the slots of two processes differ", async () => {
    const window = { window: "minute", limit: 1 } as const;
    const sharesSlot = async (salt: string, victim: string, other: string) => {
      const allowance = createAuthFailureLimiter(window, salt);
      await allowance.consume(victim, NOON);
      return (await allowance.peek(other, NOON)).remaining === 0;
    };
    const victim = "192.0.2.1";
    const known = createAuthFailureLimiter(window, "known");
    await known.consume(victim, NOON);
    let twin = 0;
    while ((await known.peek(`10.0.${twin >> 8}.${twin & 255}`, NOON)).remaining === 1) twin += 1;
    const other = `10.0.${twin >> 8}.${twin & 255}`;
    assert.equal(await sharesSlot("known", victim, other), true);
    assert.equal(await sharesSlot("another", victim, other), false);
  });
});
