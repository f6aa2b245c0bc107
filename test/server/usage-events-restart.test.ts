import assert from "node:assert/strict";
import { join } from "node:path";
import { it } from "vitest";
import { DAY_MS, dayOf } from "../../src/core/quota/days.ts";
import { createMemoryQuotaStore } from "../../src/stores/quotas/memory/create-memory-quota-store.ts";
import type { QuotaStore } from "../../src/stores/quotas/quota-store.ts";
import { freePorts, openFolder, runVerb, writeConfig } from "../cli/kit.ts";
import { open } from "../stores/quotas/redis/redis-kit.ts";
import { startTollgate } from "../support/gateway/processes.ts";
import { eventually } from "../support/poll.ts";
import { startRedis } from "../support/redis/redis.ts";
import { startUsageReceiver } from "../support/usage-receiver.ts";
import { SECRET } from "../support/webhook-receiver.ts";

/** Closed at every hour of today, as the real clock of a process says. */
const DAYS = [4, 3, 2].map((ago) => dayOf(Date.now()) - ago);
const ACCOUNTS = ["acme", "beta", "gamma"];
const EVENTS = DAYS.length * ACCOUNTS.length;

/** Charges each account on each day; returns the units of each. */
async function fill(
  openStore: (now: () => number) => Promise<QuotaStore>,
  accounts: readonly string[] = ACCOUNTS,
) {
  let nowMs = 0;
  const store = await openStore(() => nowMs);
  const units: Record<string, number> = {};
  for (const [i, day] of DAYS.entries()) {
    nowMs = day * DAY_MS + DAY_MS / 2;
    for (const account of accounts) {
      const limits = [{ window: "month", limit: 10 ** 6 }] as const;
      const quotaRequest = { limits, bans: undefined, requests: 1, cost: 2 + i, plan: "pro" };
      await store.charge({ environment: "production", account }, quotaRequest);
      units[account] = (units[account] ?? 0) + 2 + i;
    }
  }
  await store.close();
  return units;
}

const sent = ({ lines }: Pick<ReturnType<typeof startTollgate>, "lines">) =>
  lines().filter(({ kind }) => kind === "usage").length;

it("a gateway that is killed between two attempts loses no day, and after a restart sends only what is new", async () => {
  await using folder = await openFolder();
  await using receiver = await startUsageReceiver();
  const events = `{ url: "${receiver.url}", secret: "${SECRET}", kinds: [usage] }`;
  const file = await writeConfig(folder, { more: `history: 400d\nevents: ${events}\n` });
  for (const account of ACCOUNTS) {
    const args = ["--env", "production", "--plan", "pro", "--account", account, "--config", file];
    assert.equal((await runVerb(["keys", "create", ...args])).status, 0);
  }
  const stateFile = join(folder.path, "data/state.json");
  const openStore = (now: () => number) => {
    return createMemoryQuotaStore({ stateFile, now, report: () => {}, historyMs: 400 * DAY_MS });
  };
  const units = await fill(openStore);
  receiver.verdict = "dies";
  {
    await using first = startTollgate(["start", "--config", file]);
    await first.line(({ msg }) => msg === "usage_unsent", 60_000);
    await first.kill();
  }
  assert.equal(receiver.counted().size, EVENTS, "the receiver stored what it did not acknowledge");
  receiver.verdict = 204;
  {
    await using second = startTollgate(["start", "--config", file]);
    await eventually(() => assert.equal(sent(second), EVENTS), { withinMs: 60_000 });
    await second.stop();
  }
  const all = receiver.all().length;
  assert.ok(all > EVENTS, "there were doubles");
  assert.deepEqual(receiver.units(), units);
  // New days are sent, and those that were acknowledged before the restart are not.
  const next = ["--env", "production", "--plan", "pro", "--account", "delta", "--config", file];
  assert.equal((await runVerb(["keys", "create", ...next])).status, 0);
  const more = await fill(openStore, ["delta"]);
  await using third = startTollgate(["start", "--config", file]);
  await eventually(() => assert.equal(sent(third), DAYS.length), { withinMs: 60_000 });
  await third.stop();
  assert.equal(receiver.all().length, all + DAYS.length);
  assert.deepEqual(receiver.units(), { ...units, ...more });
});

it("of two gateways with workers on one Redis each day is sent once, by whichever is there", async () => {
  const redis = await startRedis();
  try {
    await using folder = await openFolder();
    await using receiver = await startUsageReceiver();
    const [one = 0, two = 0] = await freePorts(2);
    const events = `{ url: "${receiver.url}", secret: "${SECRET}", kinds: [usage] }`;
    const more = `history: 400d\nworkers: 2\nstorePrefix: eu\nevents: ${events}\n`;
    const settings = { store: redis.url, keys: "redis", more };
    const file = await writeConfig(folder, { ...settings, admin: one });
    await using elsewhere = await openFolder();
    const other = await writeConfig(elsewhere, { ...settings, admin: two });
    for (const account of ACCOUNTS) {
      const args = ["--env", "production", "--plan", "pro", "--account", account, "--config", file];
      assert.equal((await runVerb(["keys", "create", ...args])).status, 0);
    }
    const units = await fill(async (now) => {
      const options = { now, prefix: "eu", historyMs: 400 * DAY_MS };
      return (await open(redis.address, options)).store;
    });
    await using first = startTollgate(["start", "--config", file]);
    await using second = startTollgate(["start", "--config", other]);
    await eventually(() => assert.equal(sent(first) + sent(second), EVENTS), { withinMs: 90_000 });
    assert.equal(receiver.all().length, EVENTS);
    assert.deepEqual(receiver.units(), units);
    assert.deepEqual([...new Set(receiver.all().map(({ source }) => source))], ["/tollgate/eu"]);
    await first.stop();
    await second.stop();
  } finally {
    await redis.close();
  }
});

it("the marks of what was sent live as long as a history that a reload lengthened, with several workers too", async () => {
  const redis = await startRedis();
  try {
    await using folder = await openFolder();
    await using receiver = await startUsageReceiver();
    const events = `{ url: "${receiver.url}", secret: "${SECRET}", kinds: [usage] }`;
    const write = (history: string, more: string) => {
      const settings = { store: redis.url, keys: "redis", admin: port };
      return writeConfig(folder, {
        ...settings,
        more: `history: ${history}\nworkers: 2\n${more}`,
      });
    };
    const [port = 0] = await freePorts(1);
    const file = await write("30d", "");
    const args = ["--env", "production", "--plan", "pro", "--account", "acme", "--config", file];
    assert.equal((await runVerb(["keys", "create", ...args])).status, 0);
    await fill(
      async (now) => (await open(redis.address, { now, historyMs: 400 * DAY_MS })).store,
      ["acme"],
    );
    await using gateway = startTollgate(["start", "--config", file]);
    await gateway.line(({ msg }) => msg === "serving", 60_000);
    await write("400d", `events: ${events}\n`);
    await eventually(() => assert.equal(sent(gateway), DAYS.length), { withinMs: 60_000 });
    const client = await redis.client();
    const [name = ""] = await client.keys("*:usage-acknowledged");
    const lifeMs = await client.pttl(name);
    assert.ok(lifeMs > 400 * DAY_MS, `${lifeMs / DAY_MS} days`);
  } finally {
    await redis.close();
  }
});
