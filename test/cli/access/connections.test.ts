import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { it } from "vitest";
import { openStoredAccounts } from "../../../src/cli/access/store-client.ts";
import type { Terminal } from "../../../src/cli/framework/terminal.ts";
import { loadConfig } from "../../../src/config/load/load.ts";
import { eventually } from "../../support/poll.ts";
import { startRedis } from "../../support/redis/redis.ts";
import { openFolder, runVerb, writeConfig } from "../kit.ts";

it("a verb that asked the store leaves no connection to it, which would hold up its end", async (t) => {
  const redis = await startRedis();
  t.onTestFinished(() => redis.close());
  await using folder = await openFolder();
  const file = await writeConfig(folder, { store: redis.url, keys: "redis" });
  const admin = await redis.client();
  const clients = async () =>
    String(await admin.call("CLIENT", "LIST"))
      .trim()
      .split("\n");
  const before = (await clients()).length;
  const create = "keys create --env production --plan free --account acme";
  for (const verb of [
    ...[create, "keys list", "accounts list", "accounts show acme", "bans list", "usage acme"],
    ...["usage --plan free", "bans lift acme", "accounts reset acme", "plans list", "deprecations"],
    "check --keys",
  ]) {
    const { status, err } = await runVerb([...verb.split(" "), "--config", file]);
    assert.equal(status, verb === "bans lift acme" ? 1 : 0, `${verb}: ${err}`);
    await eventually(async () => assert.equal((await clients()).length, before, verb));
  }
});

it("a verb that asks the store says what it does not find there: an account, or its plan", async (t) => {
  const redis = await startRedis();
  t.onTestFinished(() => redis.close());
  await using folder = await openFolder();
  const file = await writeConfig(folder, { store: redis.url, keys: "redis" });
  const run = (verb: string) => runVerb([...verb.split(" "), "--config", file]);
  await run("keys create --env production --plan pro --account acme");
  assert.equal((await run("bans add acme --for 1h")).status, 0);
  const text = await readFile(file, "utf8");
  await writeFile(file, text.replace(/^ {2}pro: .*\n/m, ""));
  const gone = "Account acme is on plan pro, which is not configured\n";
  for (const [verb, says] of [
    ["usage acme", gone],
    ["bans why acme", gone],
    ["bans lift nobody", 'Cannot find "nobody": no key or account has this ID\n'],
    ["bans why nobody", 'Cannot find "nobody": no key or account has this ID\n'],
  ] as const) {
    const { status, out, err } = await run(verb);
    assert.deepEqual([status, out, err], [1, "", says], verb);
  }
  const left =
    "Missing: account acme: no limits are configured for the plan; add it or give another with `accounts set ID --plan OTHER`\n";
  for (const [verb, shown] of [
    ["usage", "No usage is found\n"],
    ["usage --json", "[]\n"],
    ["usage --csv --top 9", "account,environment,plan,window,used,limit,remaining,reset\r\n"],
  ] as const) {
    const { status, out, err } = await run(verb);
    assert.deepEqual([status, out, err], [1, shown, left], verb);
  }
  for (const verb of ["usage --over 1%", "usage --env staging"]) {
    const { status, out, err } = await run(verb);
    assert.deepEqual([status, out, err], [0, "No account matches\n", ""], verb);
  }
  const loaded = await loadConfig(file, {});
  assert.ok(loaded.ok);
  const stored = await openStoredAccounts(loaded.config, { now: Date.now } as Terminal);
  t.onTestFinished(() => stored.close());
  const counts = await stored.accounts.countsOf({ id: "acme" });
  assert.deepEqual(counts, { ok: false, message: gone.trim() });
});
