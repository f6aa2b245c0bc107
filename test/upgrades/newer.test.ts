import assert from "node:assert/strict";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, it } from "vitest";
import { decodeKeyFile } from "../../src/stores/keys/file/file-format.ts";
import { openRedisKeyStore } from "../../src/stores/keys/redis/redis-key-store.ts";
import { readState } from "../../src/stores/quotas/memory/state-file.ts";
import { openFallback } from "../stores/quotas/outage/fallback-kit.ts";
import { account, perDay } from "../stores/quotas/redis/redis-kit.ts";
import { eventually } from "../support/poll.ts";
import { useRedis } from "../support/redis/redis-of-file.ts";
import { recorded } from "./first-release.ts";

const { server, redis } = await useRedis();
const FORM = "tg:{0}:form";

/** A key and its account as a version to come might write them. */
const NEWER_KEY = `{"version":9,"id":"k_9","digest":"${"9".repeat(64)}","fresh":true}`;
const NEWER_ACCOUNT = `{"version":9,"id":"acme","fresh":true}`;
const ACCOUNT = `{"version":2,"id":"acme","environment":"production","plan":"free","limits":{},"created":"2026-01-01T00:00:00.000Z"}`;

describe("what a newer version wrote is refused in words", () => {
  let folder: string;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "tollgate-newer-"));
  });
  afterAll(() => rm(folder, { recursive: true, force: true }));

  async function mistakesIn(text: string): Promise<string> {
    const { damaged } = await decodeKeyFile("keys.json", text, { nowMs: 0 });
    return damaged.flatMap(({ mistakes }) => mistakes.map(({ why }) => why)).join("\n");
  }

  it("a key file, whole", async () => {
    const text = (await recorded("keys.json")).replace('"version":1', '"version":9');
    await assert.rejects(
      decodeKeyFile("keys.json", text, { nowMs: 0 }),
      /version.*reads versions.*9\. Run the version that wrote it, or a later one/,
    );
  });

  it("a state file, which stays as it was", async () => {
    const file = join(folder, "state.json");
    const text = (await recorded("state.json")).replace('"version":1', '"version":9');
    await writeFile(file, text);
    await assert.rejects(readState(file), /reads version.*9\. Run the version that wrote it/);
    assert.equal(await readFile(file, "utf8"), text);
  });

  it("a key and an account in a file that it reads otherwise", async () => {
    const file = (keys: string, accounts: string) =>
      `{"version":2,"keys":[\n${keys}\n],"accounts":[\n${accounts}\n]}\n`;
    assert.match(await mistakesIn(file(NEWER_KEY, ACCOUNT)), /this gateway reads version \d.*9/);
    assert.match(await mistakesIn(file("", NEWER_ACCOUNT)), /this gateway reads version \d.*9/);
  });

  it("a key and an account in Redis, which stay as they were while others are changed", async () => {
    const hash = { ":version": "7.x", k_9: NEWER_KEY, "@acme": NEWER_ACCOUNT };
    await redis.hset("tg:{0}:keys", hash);
    const address = server.address;
    const report = () => undefined;
    const store = await openRedisKeyStore({ address, prefix: "tg", report, watch: false });
    try {
      const damage = store.damage().join("\n");
      assert.match(damage, /k_9\.version .*this gateway reads version \d/);
      assert.match(damage, /@acme\.version .*this gateway reads version \d/);
      const refused = store.change((before) => ({
        records: { ...before, accounts: [{ ...ANOTHER, id: "acme" }] },
        result: 0,
      }));
      await assert.rejects(refused, /damaged/);
      assert.deepEqual(await redis.hgetall("tg:{0}:keys"), hash);
      await store.change((before) => ({
        records: { ...before, accounts: [{ ...ANOTHER, id: "other" }] },
        result: 0,
      }));
      const { k_9, "@acme": acme, "@other": other } = await redis.hgetall("tg:{0}:keys");
      assert.deepEqual([k_9, acme], [NEWER_KEY, NEWER_ACCOUNT]);
      assert.match(other ?? "", /"id":"other"/);
    } finally {
      await store.close();
    }
  });

  it("accounts in Redis: the store is away from the first heartbeat on, and nothing is written", async () => {
    await redis.hset(FORM, "version", 9);
    // The deadline is not what this is about: a busy machine may stall for longer than 50 ms.
    const policy = { onStoreFailure: "deny", storeTimeoutMs: 5_000 } as const;
    await using house = await openFallback(server, { policy });
    await eventually(() => !house.store.health().ok);
    assert.match(house.store.health().why ?? "", /newer form than this gateway reads/);
    assert.deepEqual(await house.store.charge(account("a"), perDay(5)), { unavailable: true });
    const { details } = house.told.find(({ message }) => message === "store_away") ?? {};
    assert.equal(details?.code, "NEWER");
    assert.deepEqual(await redis.keys("*"), [FORM]);
    await redis.hset(FORM, "version", 1);
    await eventually(() => house.store.health().ok);
    assert.ok("decision" in (await house.store.charge(account("a"), perDay(5))));
  });
});

const ANOTHER = {
  ...{ environment: "production", plan: "free", limits: [], meta: {}, createdMs: 0 },
};
