import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { createServer as createTlsServer } from "node:tls";
import { describe, it } from "vitest";
import type { RedisAddress } from "../../../src/config/schema/addresses.ts";
import { parseStoreAddress } from "../../../src/config/schema/addresses.ts";
import { each } from "../../support/each.ts";
import { eventually } from "../../support/poll.ts";
import { startRedis } from "../../support/redis/redis.ts";
import { startCluster, startSentinel } from "../../support/redis/redis-engines.ts";
import { redisTls } from "../../support/redis/redis-tls.ts";
import { openAuthority } from "../../support/wire/certificates.ts";
import { account, open, perDay, spend } from "../quotas/redis/redis-kit.ts";

/** The address as the configuration reads it: what passes `check` has to open. */
function checked(url: string): RedisAddress {
  const read = parseStoreAddress(url);
  assert.ok("value" in read && read.value.kind !== "memory", url);
  return read.value;
}

describe("an address with rediss+ passes check and opens", () => {
  it("rediss+cluster: every bucket is reached, and the channel, over TLS", async (t) => {
    using authority = openAuthority();
    const cluster = await startCluster(3, [], redisTls(authority));
    t.onTestFinished(() => cluster.close());
    assert.match(cluster.address.url, /^rediss\+cluster:/);
    const tls = { ca: authority.ca };
    const { store, failures } = await open(checked(cluster.address.url), { tls });
    t.onTestFinished(() => store.close());
    await eventually(() => store.health().ok, { withinMs: 60_000 });
    for (let i = 0; i < 40; i++) {
      assert.equal((await spend(store, account(`a${i}`), perDay(1))).admitted, true);
      assert.equal((await spend(store, account(`a${i}`), perDay(1))).admitted, false);
    }
    assert.deepEqual(failures, []);
    const heldBy = await Promise.all(cluster.clients.map((client) => client.dbsize()));
    assert.ok(
      each(heldBy).every((keys) => keys > 0),
      `each node counts some: ${heldBy}`,
    );

    const stranger = await open(checked(cluster.address.url));
    t.onTestFinished(() => stranger.store.close());
    assert.deepEqual(await stranger.store.charge(account("b"), perDay(1)), { unavailable: true });
  });

  it("rediss+sentinel: Sentinel and master are reached over TLS, with a password", async (t) => {
    using authority = openAuthority();
    const group = await startSentinel("correct-horse", redisTls(authority));
    t.onTestFinished(() => group.close());
    assert.match(group.address.url, /^rediss\+sentinel:/);
    const tls = { ca: authority.ca };
    const { store, failures } = await open(checked(group.address.url), { tls });
    t.onTestFinished(() => store.close());
    await eventually(() => store.health().ok, { withinMs: 60_000 });
    assert.equal((await spend(store, account("a"), perDay(1))).admitted, true);
    assert.equal((await spend(store, account("a"), perDay(1))).admitted, false);
    assert.deepEqual(failures, []);

    const stranger = await open(checked(group.address.url));
    t.onTestFinished(() => stranger.store.close());
    assert.deepEqual(await stranger.store.charge(account("b"), perDay(1)), { unavailable: true });
  });
});

it("an address with rediss at which a Redis speaks no TLS is told as that, and not as a slow network", async (t) => {
  const server = await startRedis();
  t.onTestFinished(() => server.close());
  const { store } = await open(checked(server.url.replace("redis:", "rediss:")));
  t.onTestFinished(() => store.close());
  const why =
    "Redis cannot be reached: connected, but there is no answer by TLS: if it speaks none, the address needs redis in place of rediss";
  await eventually(() => assert.deepEqual(store.health(), { ok: false, why }));
});

describe("an address with redis at which TLS is spoken is told as that", () => {
  const why =
    "Redis cannot be reached: the connection ended before any reply: if it speaks TLS, the address needs rediss in place of redis";

  it("if it is a Redis, which resets the connection", async (t) => {
    using authority = openAuthority();
    const server = await startRedis({ tls: redisTls(authority) });
    t.onTestFinished(() => server.close());
    const { store } = await open(checked(server.url.replace("rediss:", "redis:")));
    t.onTestFinished(() => store.close());
    await eventually(() => assert.deepEqual(store.health(), { ok: false, why }));
  });

  it("if it is another server, which ends the connection", async (t) => {
    using authority = openAuthority();
    const server = createTlsServer(authority.issue(["IP:127.0.0.1"])).listen(0, "127.0.0.1");
    await once(server, "listening");
    t.onTestFinished(() => void server.close());
    const { port } = server.address() as AddressInfo;
    const { store } = await open(checked(`redis://127.0.0.1:${port}`));
    t.onTestFinished(() => store.close());
    await eventually(() => assert.deepEqual(store.health(), { ok: false, why }));
  });
});

it("an address at which another server answers is told as that", async (t) => {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  t.onTestFinished(() => void server.close());
  const { port } = server.address() as AddressInfo;
  const { store } = await open(checked(`redis://127.0.0.1:${port}`));
  t.onTestFinished(() => store.close());
  const why = "Redis cannot be reached: what answers there does not speak the protocol of Redis";
  await eventually(() => assert.deepEqual(store.health(), { ok: false, why }));
});
