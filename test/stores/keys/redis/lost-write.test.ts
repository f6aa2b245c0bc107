import assert from "node:assert/strict";
import { randomInt } from "node:crypto";
import { it, type TestContext } from "vitest";
import { issueKeys } from "../../../../src/core/keys/edit-keys.ts";
import type { KeyContext } from "../../../../src/core/keys/edit-rules.ts";
import type { Records } from "../../../../src/core/keys/records.ts";
import { applyKeyEdit } from "../../../../src/stores/keys/key-store.ts";
import { compareRecords } from "../../../../src/stores/keys/records/record-changes.ts";
import { withLostWrite } from "../../../../src/stores/keys/redis/lost-write.ts";
import { openRedisKeyStore } from "../../../../src/stores/keys/redis/redis-key-store.ts";
import { connectRedis } from "../../../../src/stores/redis/engines/single-link.ts";
import type { Link } from "../../../../src/stores/redis/link.ts";
import { eventually } from "../../../support/poll.ts";
import { type GivenKey, recordsFrom } from "../../../support/records.ts";
import { startRedis } from "../../../support/redis/redis.ts";
import { HASH } from "./redis-keys-kit.ts";

const RING: KeyContext = {
  keyPrefix: "pets",
  environments: [{ name: "production", keyTag: "live" }],
  plans: new Map([["free", [{ window: "day", limit: 5 }]]]),
  random: (max) => randomInt(max),
  nowMs: 0,
};
const issue = (records: Records) =>
  issueKeys(records, { environment: "production", plan: "free" }, RING);

/** Two masters, of which one replaces the other; stores on links that follow. */
async function openPair(t: TestContext) {
  const servers = [await startRedis(), await startRedis()] as const;
  const [old, fresh] = servers;
  let current = old;
  const open = (onWritten?: () => Promise<void>) => {
    const links = new Map<unknown, Link>();
    for (const server of servers) links.set(server, connectRedis({ address: server.address }));
    const to = () => links.get(current) as Link;
    const first = to();
    const link: Link = {
      ...first,
      tried: Promise.all([...links.values()].map(({ tried }) => tried)).then(() => undefined),
      send: async (...call) => {
        const answer = await to().send(...call);
        if (call[1].startsWith("eval")) await onWritten?.();
        return answer;
      },
      master: async () => (current === old ? "old" : "fresh"),
      close: async () => {
        for (const each of links.values()) await each.close();
      },
    };
    const options = { address: old.address, prefix: "tg", report: () => {}, watch: true };
    return openRedisKeyStore({ ...options, connect: () => link });
  };
  t.onTestFinished(async () => {
    for (const server of servers) await server.close();
  });
  const failOver = () => {
    current = fresh;
  };
  /** Gives the new master all that the old one has. */
  const replicate = async () => {
    const [from, to] = [await old.client(), await fresh.client()];
    await to.del(HASH);
    for (const [field, value] of Object.entries(await from.hgetall(HASH))) {
      await to.hset(HASH, field, value);
    }
  };
  return { open, failOver, replicate };
}

it("a key that is written to a master just before another replaces it is issued as the gateways read it, and none is told as lost", async (t) => {
  const { open, failOver, replicate } = await openPair(t);
  const gateway = await open();
  t.onTestFinished(() => gateway.close());
  let isFailing = false;
  const writer = await open(async () => {
    if (!isFailing) return;
    isFailing = false;
    // The gateway has the key from the old master before the new one is asked.
    const before = gateway.records().keys.length;
    await eventually(() => gateway.records().keys.length > before);
    failOver();
  });
  t.onTestFinished(() => writer.close());
  assert.ok((await applyKeyEdit(writer, issue)).ok);
  await eventually(() => gateway.records().keys.length === 1);
  await replicate();

  isFailing = true;
  const edited = await applyKeyEdit(writer, issue);
  assert.ok(edited.ok);
  const { record, account } = edited.issued[0] as (typeof edited.issued)[number];
  assert.equal(writer.find(record.digest)?.id, record.id);
  await eventually(() => {
    assert.deepEqual(gateway.health(), { ok: true });
    assert.equal(gateway.find(record.digest)?.id, record.id);
    assert.equal(gateway.account(account.id)?.plan, "free");
  });
  assert.equal(gateway.records().keys.length, 2);
});

/** A lost write that makes `after` of `before`, on records that another master has. */
async function rewritten(
  before: readonly GivenKey[],
  after: readonly GivenKey[],
  now: readonly GivenKey[],
) {
  const [was, is, found] = [before, after, now].map(recordsOf) as [Records, Records, Records];
  const again = await withLostWrite({ before: was, changes: await compareRecords(was, is) }, found);
  return again === found ? "there" : again?.keys.map(({ id, name }) => `${id} ${name}`.trim());
}

function recordsOf(given: readonly GivenKey[]): Records {
  return recordsFrom(given.map((key) => ({ digest: `${key.id}`, ...key })));
}

const [one, two, three] = [{ id: "one" }, { id: "two" }, { id: "three" }];

it("a lost write is written again as it was beside what others wrote meanwhile", async () => {
  assert.deepEqual(await rewritten([one], [one, two], [one, three]), ["one", "three", "two"]);
  const named = { ...one, name: "new" };
  assert.deepEqual(await rewritten([one], [named], [one, three]), ["one new", "three"]);
});

it("a lost write is not written again where it arrived after all", async () => {
  assert.equal(await rewritten([one], [one, two], [one, two, three]), "there");
});

it("a lost write that took a key away takes it away again, and leaves what others wrote meanwhile", async () => {
  assert.deepEqual(await rewritten([one, two], [one], [one, two, three]), ["one", "three"]);
  assert.equal(await rewritten([one, two], [one], [one]), "there");
});

it("an edit is made again where others changed what it was made from", async () => {
  const named = { ...one, name: "new" };
  const other = { ...one, name: "other" };
  assert.equal(await rewritten([one], [named], [other]), undefined, "the key itself");
  assert.equal(await rewritten([one], [one, two], [one, { ...two, name: "other" }]), undefined);
  assert.equal(await rewritten([one], [named], []), undefined, "a key that is gone");
  const further = { id: "two", account: "one" };
  const moved = { ...one, plan: "pro" };
  assert.equal(await rewritten([one], [one, further], [moved]), undefined, "its account");
});

it("a cap of a further key of an account is numbered again", async () => {
  const caps = { number: 1, limits: [] };
  const capped = { id: "two", account: "one", caps };
  assert.equal(await rewritten([one], [one, capped], [one]), undefined);
  assert.deepEqual(await rewritten([], [{ id: "two", caps }], []), ["two"], "a new account");
});
