import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "vitest";
import { startTestGateway } from "../../support/gateway/house.ts";
import { startTollgate } from "../../support/gateway/processes.ts";
import { eventually } from "../../support/poll.ts";
import { startRedis } from "../../support/redis/redis.ts";
import { freePorts, jsonOf, openFolder, runVerb, writeConfig } from "../kit.ts";

async function banned(store: string): Promise<void> {
  await using folder = await openFolder();
  const [admin = 0] = await freePorts(1);
  const file = await writeConfig(folder, { admin, store });
  const named = (...args: string[]) => runVerb([...args, "--config", file]);
  const args = ["--env", "production", "--plan", "free", "--account", "acme", "--json"];
  const { key } = jsonOf<{ key: string }>(await named("keys", "create", ...args));
  await using gateway = startTollgate(["start", "--config", file]);
  const { urls } = await gateway.line(({ msg }) => msg === "serving");
  const url = `${(urls as { production: string }).production}/v1/pets`;
  const ask = () => fetch(url, { headers: { Authorization: `Bearer ${key}` } });
  assert.equal((await ask()).status, 502, "nothing is behind it");

  const added = await named("bans", "add", "acme", "--for", "1h", "--json");
  assert.equal(added.status, 0, added.err);
  const ban = jsonOf<{ account: string; until: number; offences: number }>(added);
  assert.deepEqual([ban.account, ban.offences], ["acme", 0]);
  assert.ok(Math.abs(ban.until - Date.now() / 1000 - 3_600) < 30);
  await eventually(async () => assert.equal((await ask()).status, 429), { withinMs: 1_000 });
  const refused = await ask();
  assert.equal(refused.headers.get("x-ratelimit-reset"), String(ban.until));
  assert.equal(refused.headers.get("x-ratelimit-window"), "ban");
  assert.equal(((await refused.json()) as { code: string }).code, "key_banned");
  assert.deepEqual(jsonOf(await named("bans", "list", "--json")), [
    { account: "acme", environment: "production", until: ban.until, offences: 0 },
  ]);
  assert.equal((await named("bans", "lift", "acme")).status, 0);
  await eventually(async () => assert.equal((await ask()).status, 502), { withinMs: 1_000 });
  const nobody = await named("bans", "add", "nobody", "--for", "1h");
  assert.equal(nobody.status, 1);
}

describe("bans add", () => {
  it("bans an account for a time, by the running gateway", () => banned("memory"));

  it("and by the store that all gateways share", async () => {
    const redis = await startRedis();
    try {
      await banned(redis.url);
    } finally {
      await redis.close();
    }
  });

  it("needs a time that can be read, with 64, and bans that are on, with 1", async () => {
    await using folder = await openFolder();
    const [admin = 0] = await freePorts(1);
    const file = await writeConfig(folder, { admin, more: "bans: off\n" });
    const add = (...args: string[]) => runVerb(["bans", "add", ...args, "--config", file]);
    assert.match((await add("acme")).err, /^Missing --for 1h \(see/);
    const long = await add("acme", "--for", "long");
    assert.deepEqual([long.status, long.out], [64, ""]);
    const args = ["--env", "production", "--plan", "free", "--account", "acme", "--config", file];
    await runVerb(["keys", "create", ...args]);
    await using gateway = startTollgate(["start", "--config", file]);
    await gateway.line(({ msg }) => msg === "serving");
    const off = await add("acme", "--for", "1h");
    assert.deepEqual([off.status, off.err], [1, "Bans are off: set bans in the configuration\n"]);
  });
});

describe("bans list", () => {
  it("lists them all, also where the gateway tells them on several pages", async () => {
    const [admin = 0] = await freePorts(1);
    await using house = await startTestGateway({
      config: { admin: { listen: `127.0.0.1:${admin}` } },
    });
    const made = [
      ...((await house.issue({ count: 1_000 })) as unknown as { account: string }[]),
      await house.issue(),
    ];
    for (let from = 0; from < made.length; from += 50) {
      const some = made.slice(from, from + 50).map(async ({ account: id }) => {
        const body = JSON.stringify({ id, for: "1h" });
        const added = await house.admin("/api/bans", { method: "POST", body });
        assert.equal(added.status, 201);
        await added.text();
      });
      await Promise.all(some);
    }
    const listed = await runVerb(["bans", "list", "--config", house.file, "--json"]);
    const accounts = jsonOf<{ account: string }[]>(listed).map(({ account }) => account);
    assert.deepEqual(accounts.toSorted(), made.map(({ account }) => account).toSorted());
  });
});

describe("bans why", () => {
  it("tells a ban that people imposed from its line in a log, which has no strikes", async () => {
    await using folder = await openFolder();
    const file = await writeConfig(folder);
    const log = join(folder.path, "gateway.log");
    const own = { account: "acme", env: "production" };
    const lines = [
      {
        ...{
          level: "info",
          time: Date.UTC(2026, 10, 22, 1),
          id: "r",
          ...own,
          key: "k",
          plan: "free",
        },
        ...{ method: "GET", route: "/v1/pets", path: "/v1/pets", status: 200, source: "backend" },
        ...{ decision: "admitted", charged: 1, forwards: 1, durationMs: 1, client: "127.0.0.1" },
        ...{ decidedAt: Date.UTC(2026, 10, 22, 1), cost: 1, strikes: 0, msg: "request" },
      },
      {
        ...{ level: "warn", time: Date.UTC(2026, 10, 22, 2), kind: "ban", ...own, plan: "free" },
        ...{ window: "day", until: Date.UTC(2026, 10, 22, 3) / 1_000, offences: 0, msg: "event" },
      },
    ];
    await writeFile(log, lines.map((line) => `${JSON.stringify(line)}\n`).join(""));
    const { status, out, err } = await runVerb([
      "bans",
      "why",
      "acme",
      "--log",
      log,
      "--config",
      file,
    ]);
    assert.deepEqual([status, err], [0, ""]);
    assert.match(out, /^ban +2026-11-22 02:00:00Z +until 2026-11-22 03:00:00Z, imposed by hand$/m);
  });
});
