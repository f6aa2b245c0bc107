import assert from "node:assert/strict";
import { describe, it, type TestContext } from "vitest";
import type { AccountRef } from "../../../src/stores/quotas/account-ref.ts";
import { DECIDE_SCRIPT } from "../../../src/stores/quotas/redis/account-scripts.ts";
import { eventually } from "../../support/poll.ts";
import { useRedis } from "../../support/redis/redis-of-file.ts";
import { type Asked, type Garble, openReplyProxy } from "../../support/wire/reply-proxy.ts";
import { account, openFor, perDay, spend } from "../quotas/redis/redis-kit.ts";

const { server, redis } = await useRedis();

const decides = ({ args }: Asked) => args[0] === DECIDE_SCRIPT.sha;
const asksVersion = ({ name, args }: Asked) => name === "get" && args[0] === "tg:{0}:version";

async function garbled(t: TestContext) {
  const proxy = await openReplyProxy(server);
  t.onTestFinished(() => proxy[Symbol.asyncDispose]());
  const opened = await openFor(t, `redis://127.0.0.1:${proxy.port}`);
  const { store, failures } = opened;
  const [little, much] = [account("little"), account("much")];
  const counts = new Map([little, much].map((accountRef) => [accountRef, 0]));
  /** Charges one; what is told has to be what this account has used. */
  const charge = async (accountRef: AccountRef) => {
    const before = failures.length;
    const answer = await store.charge(accountRef, perDay(1_000));
    // A call that failed may have run.
    const ran = (counts.get(accountRef) ?? 0) + 1;
    counts.set(accountRef, ran);
    if (!("decision" in answer)) {
      assert.ok(failures.length > before);
      const used = Number((await redis.hget(await keyOf(accountRef), "d"))?.split(" ")[1] ?? 0);
      counts.set(accountRef, used);
      return;
    }
    assert.equal(answer.decision.windows[0]?.used, ran, `of ${accountRef.account}`);
  };
  const keyOf = async ({ account }: AccountRef) =>
    (await redis.keys(`tg:*:production:${account}`))[0] ?? "none";
  for (let i = 0; i < 9; i++) await charge(much);
  await charge(little);
  /** One reply is garbled. */
  const once = (garble: Garble) => {
    let isDone = false;
    proxy.behave((asked, reply) => {
      const given = isDone ? undefined : garble(asked, reply);
      isDone ||= given !== undefined;
      return given;
    });
    return () => isDone;
  };
  const comesBack = async () => {
    await eventually(async () => {
      await charge(little);
      await charge(much);
      assert.deepEqual(store.health(), { ok: true });
    });
    const before = failures.length;
    for (let i = 0; i < 20; i++) await charge(i % 2 === 0 ? little : much);
    assert.equal(failures.length, before, "each command has its own reply again");
  };
  return { ...opened, proxy, once, charge, little, much, comesBack };
}

describe("a reply of Redis that is not the one of its command", () => {
  it("decides nothing where one more came before it, and the connection is made again", async (t) => {
    const { once, charge, little, much, comesBack, failures, proxy } = await garbled(t);
    let kept: Buffer | undefined;
    const isDone = once((asked, reply) => {
      if (!decides(asked)) return undefined;
      if (kept !== undefined) return [kept, reply];
      kept = reply;
      return undefined;
    });
    const before = proxy.accepted();
    await charge(much);
    await charge(little);
    assert.ok(isDone());
    assert.deepEqual(
      failures.map(({ code, executed }) => [code, executed]),
      [["unreadable", "unknown"]],
    );
    await comesBack();
    assert.equal(proxy.accepted(), before + 1);
  });

  it("decides nothing where one of another command was lost before it", async (t) => {
    const { once, comesBack, charge, much } = await garbled(t);
    const isDone = once((asked) => (asksVersion(asked) ? [] : undefined));
    await eventually(async () => {
      await charge(much);
      assert.ok(isDone());
    });
    await comesBack();
  });

  it("decides nothing where a number of it was changed on its way", async (t) => {
    const { once, charge, much, failures, comesBack } = await garbled(t);
    for (const [from, to] of [
      ["*5\r\n:1", "*5\r\n:2"],
      ["\r\n:1\r\n:", "\r\n:2\r\n:"],
      [":0\r\n", ":2\r\n"],
    ] as const) {
      once((asked, reply) => {
        return decides(asked) ? [Buffer.from(reply.toString().replace(from, to))] : undefined;
      });
      const before = failures.length;
      await charge(much);
      assert.equal(failures[before]?.code, "unreadable", `${from} as ${to}`);
      await comesBack();
    }
  });

  it("is not believed where two scripts have each other's", async (t) => {
    const { store, proxy, charge, much, little, comesBack } = await garbled(t);
    let held: Buffer | undefined;
    proxy.behave((asked, reply) => {
      if (held === undefined && decides(asked)) {
        held = reply;
        return [];
      }
      if (held === undefined || held.length === 0 || !asked.name.startsWith("eval"))
        return undefined;
      const both = [reply, held];
      held = Buffer.alloc(0);
      return both;
    });
    const lifted = assert.rejects(store.liftBan(little), { name: "StoreFailure" });
    await Promise.all([charge(much), lifted]);
    await comesBack();
  });

  for (const [what, unasked] of [
    ["a null", "$-1\r\n"],
    ["a list of a null", "*1\r\n$-1\r\n"],
    ["a number", ":7\r\n"],
  ] as const) {
    it(`ends the connection and not the process where it is ${what} that no command waits for`, async (t) => {
      const { once, charge, much, comesBack, proxy } = await garbled(t);
      const before = proxy.accepted();
      const isDone = once((asked, reply) => {
        return decides(asked) ? [reply, Buffer.from(unasked)] : undefined;
      });
      await charge(much);
      assert.ok(isDone());
      await comesBack();
      assert.equal(proxy.accepted(), before + 1);
    });

    it(`ends the connection and not the process where ${what} answers a subscription`, async (t) => {
      await using proxy = await openReplyProxy(server);
      let subscriptions = 0;
      proxy.behave(({ name }) => {
        if (name !== "subscribe") return undefined;
        subscriptions += 1;
        return subscriptions === 1 ? [Buffer.from(unasked)] : undefined;
      });
      const { store } = await openFor(t, `redis://127.0.0.1:${proxy.port}`);
      await eventually(async () => {
        assert.deepEqual(await redis.pubsub("NUMSUB", "tg:events"), ["tg:events", 1]);
        assert.ok(subscriptions > 1);
      });
      assert.equal((await spend(store, account("a"), perDay(9))).admitted, true);
    });
  }
});
