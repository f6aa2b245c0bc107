import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Redis } from "ioredis";
import { describe, it } from "vitest";
import { startTestGateway } from "../../support/gateway/house.ts";
import { startTollgate } from "../../support/gateway/processes.ts";
import { ACCOUNT, KEY } from "../../support/gateway/served.ts";
import { eventually } from "../../support/poll.ts";
import { startRedis } from "../../support/redis/redis.ts";
import { openAudited } from "../audit-kit.ts";
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
  await eventually(async () => assert.equal((await ask()).status, 429));
  const refused = await ask();
  assert.equal(refused.headers.get("x-ratelimit-reset"), String(ban.until));
  assert.equal(refused.headers.get("x-ratelimit-window"), "ban");
  assert.equal(((await refused.json()) as { code: string }).code, "key_banned");
  assert.deepEqual(jsonOf(await named("bans", "list", "--json")), [
    { account: "acme", environment: "production", until: ban.until, offences: 0 },
  ]);
  assert.equal((await named("bans", "lift", "acme")).status, 0);
  await eventually(async () => assert.equal((await ask()).status, 502));
  const unknown = 'Cannot find "nobody": no key or account has this ID\n';
  for (const verb of ["bans add --for 1h", "bans lift"]) {
    const { status, err } = await named(...verb.split(" "), "nobody");
    assert.deepEqual([status, err], [1, unknown], verb);
  }
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

  it("is done, and so are its end and a reset, where Redis does not take the message of it", async () => {
    const redis = await startRedis();
    try {
      const rights = ["on", ">s3cret", "allkeys", "allchannels", "+@all", "-incr"];
      await (await redis.client()).call("ACL", "SETUSER", "mute", ...rights);
      const store = `redis://mute:s3cret@127.0.0.1:${redis.port}`;
      await using house = await openAudited({ config: { store } });
      const { account, key } = await house.issue();
      assert.equal((await house.ask(key)).status, 200);
      const untold =
        /^Missing: redis:\S+: Redis: .* \(INCR tg:\S+\); gateways are not told of it.*\n$/;
      for (const [verb, out, answered] of [
        [`bans add ${account} --for 1h`, /is banned until/, 429],
        [`bans lift ${account}`, /is lifted/, 200],
        [`accounts reset ${account}`, /day had 2/, 200],
      ] as const) {
        const said = await runVerb([...verb.split(" "), "--config", house.file]);
        assert.deepEqual([said.status, out.test(said.out)], [1, true], `${verb}: ${said.out}`);
        assert.match(said.err, untold, verb);
        await eventually(async () => (await house.ask(key)).status === answered);
      }
      const reset = `/api/accounts/${account}/reset`;
      const byApi = await house.admin(reset, { method: "POST", body: "{}" });
      assert.equal(byApi.status, 200);
      assert.match(byApi.headers.get("x-tollgate-missing") ?? "", /^redis:[^ ]+$/);
    } finally {
      await redis.close();
    }
  });

  it("needs a time that can be read, with 64, and bans that are on, with 1", async () => {
    await using house = await startTestGateway({ config: { bans: "off" } });
    await house.issue({ account: "acme" });
    const add = (...args: string[]) => runVerb(["bans", "add", ...args, "--admin", house.adminUrl]);
    assert.match((await add("acme")).err, /^Missing --for 1h \(see/);
    const long = await add("acme", "--for", "long");
    assert.deepEqual([long.status, long.out], [64, ""]);
    assert.match(long.err, /^Cannot read --for as a duration .*: the value is "long"/);
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

type Why = {
  readonly strikes: number | null;
  readonly ban: { readonly imposed: boolean | null; readonly reason: string | null } | null;
  readonly bans: readonly { readonly imposed?: true; readonly reason?: string; at: number }[];
  readonly missing: readonly string[];
};

/** A gateway whose account `acme` was banned by hand, though it had earned a ban before. */
async function bannedByHand(store: string): Promise<void> {
  await using folder = await openFolder();
  const [admin = 0] = await freePorts(1);
  // A ban that is earned while an answer of the store is late is the gateway's alone.
  const more = "bans: { strikes: 2, grace: 1ms, duration: 50ms }\nstoreTimeout: 1s\n";
  const free = "{ second: 1 }";
  const file = await writeConfig(folder, { admin, store, free, more });
  const named = (...args: string[]) => runVerb([...args, "--config", file]);
  const args = ["--env", "production", "--plan", "free", "--account", "acme", "--json"];
  const { key } = jsonOf<{ key: string }>(await named("keys", "create", ...args));
  await using gateway = startTollgate(["start", "--config", file]);
  const { urls } = await gateway.line(({ msg }) => msg === "serving");
  const url = `${(urls as { production: string }).production}/v1/pets`;
  const ask = () => fetch(url, { headers: { Authorization: `Bearer ${key}` } });
  const why = async (...more: string[]) => {
    return jsonOf<Why>(await named("bans", "why", "acme", "--json", ...more));
  };
  const seen = gateway.line(({ kind, imposed }) => kind === "ban" && imposed !== true);
  await eventually(async () => assert.equal(await codeOf(ask()), "key_banned"));
  const earned = (await seen) as unknown as { offences: number; strikes: readonly number[] };
  assert.equal(earned.strikes.length, 2);

  const added = await named("bans", "add", "acme", "--for", "1h", "--reason", "scrapes 'all'");
  assert.equal(added.status, 0, added.err);
  const event = await gateway.line(({ kind, imposed }) => kind === "ban" && imposed === true);
  assert.deepEqual([event.reason, event.strikes], ["scrapes 'all'", undefined]);
  assert.ok((event.offences as number) > 0, "an earlier offence stays");
  const refused = await eventually(async () => {
    const answer = await ask();
    const until = Number(answer.headers.get("x-ratelimit-reset"));
    assert.equal(until, event.until);
    return answer;
  });
  const now = await why();
  assert.deepEqual([now.ban?.imposed, now.ban?.reason], [true, "scrapes 'all'"]);
  assert.deepEqual(now.missing, []);
  const last = now.bans.at(-1);
  assert.deepEqual([last?.imposed, last?.reason], [true, "scrapes 'all'"]);
  assert.equal(now.bans[0]?.imposed, undefined);
  const text = await named("bans", "why", "acme");
  assert.match(
    text.out,
    /^Account acme \(production\): banned since .* imposed by hand: scrapes 'all'/,
  );

  const id = refused.headers.get("x-request-id") ?? "";
  await eventually(() => assert.ok(gateway.stdout().includes(id)));
  const log = join(folder.path, "gateway.log");
  await writeFile(log, gateway.stdout());
  await explainsByHand({ named, id, log });
  const logged = await why("--log", log);
  assert.equal(logged.ban?.imposed, true, "the store tells the present ban");
  assert.deepEqual(logged.bans, now.bans);
  assert.equal((await named("bans", "lift", "acme")).status, 0);
  await gateway.line(({ kind }) => kind === "ban_lifted");
  assert.deepEqual((await why()).ban, null);
}

type Explained = {
  readonly named: (...args: string[]) => ReturnType<typeof runVerb>;
  readonly id: string;
  readonly log: string;
};

/** A refusal of a ban by hand says so, and one of which no event is there says nothing about it. */
async function explainsByHand({ named, id, log }: Explained): Promise<void> {
  const explained = jsonOf<{ rule: string }>(await named("explain", id, "--json"));
  assert.match(explained.rule, /imposed by hand: scrapes 'all'$/);
  const fromLog = jsonOf<{ rule: string }>(await named("explain", id, "--json", "--log", log));
  assert.equal(fromLog.rule, explained.rule);
  const bare = `${log}.bare`;
  const lines = (await readFile(log, "utf8")).split("\n");
  await writeFile(bare, lines.filter((line) => !line.includes('"kind":"ban"')).join("\n"));
  const unknown = jsonOf<{ rule: string }>(await named("explain", id, "--json", "--log", bare));
  assert.match(unknown.rule, /^A ban of the account ran: tollgate bans why acme says how/);
}

async function codeOf(answer: Promise<Response>): Promise<string> {
  return ((await (await answer).json()) as { code: string }).code;
}

describe("a ban by hand", () => {
  it("is never told as earned: by bans why, explain, the event and the log", async () => {
    await bannedByHand("memory");
  });

  it("nor with the store that all gateways share, whose command no gateway ran", async () => {
    const redis = await startRedis();
    try {
      await bannedByHand(redis.url);
    } finally {
      await redis.close();
    }
  });

  it("has a reason of one line, at most 200 characters, or is refused", async () => {
    const [admin = 0] = await freePorts(1);
    const config = { admin: { listen: `127.0.0.1:${admin}` } };
    await using house = await startTestGateway({ config });
    const { account } = await house.issue();
    for (const [reason, status] of [
      ["x".repeat(200), 0],
      ["x".repeat(201), 64],
      ["two\nlines", 64],
    ] as const) {
      const args = ["bans", "add", account, "--for", "1h", "--reason", reason];
      const said = await runVerb([...args, "--config", house.file]);
      assert.equal(said.status, status, said.err);
      if (status === 64) assert.match(said.err, /Cannot use this reason: it must be at most 200/);
    }
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
    const why = (id: string) => runVerb(["bans", "why", id, "--log", log, "--config", file]);
    const { status, out, err } = await why("acme");
    assert.deepEqual([status, err], [0, ""]);
    assert.match(out, /^ban +2026-11-22 02:00:00Z +until 2026-11-22 03:00:00Z, imposed by hand$/m);
    assert.doesNotMatch(out, /not banned/);
    assert.equal(out.split("Missing: ").length, 2, out);
    assert.match(out, /^Account acme \(production\): whether it is banned now is not known$/m);
    assert.equal((await why("k")).out, out, "by its key");
    await writeFile(log, `${JSON.stringify(lines[1])}\n`);
    assert.equal((await why("acme")).out, out, "from its event alone");
  });

  it("tells the strikes of the present ban alike from each gateway, and says what is not known", async () => {
    const redis = await startRedis();
    const policy = { strikes: 3, grace: "1ms", duration: "1h" };
    const open = async () => {
      const [admin = 0] = await freePorts(1);
      return startTestGateway({
        config: {
          ...{ store: redis.url, bans: policy, plans: { free: { day: 1 } } },
          admin: { listen: `127.0.0.1:${admin}` },
        },
        keys: { [KEY]: { account: ACCOUNT } },
      });
    };
    await using one = await open();
    await using other = await open();
    const gateways = [one, other];
    await eventually(async () => {
      for (const each of gateways)
        assert.equal(await codeOf(each.ask(KEY, "/v1/pets")), "key_banned");
    });
    const told = await Promise.all(
      gateways.map(async ({ file }) => {
        const said = await runVerb(["bans", "why", ACCOUNT, "--json", "--config", file]);
        assert.equal(said.status, 0, said.err);
        return jsonOf<Why & { ban: { strikes: unknown[] } }>(said);
      }),
    );
    assert.deepEqual(told[0]?.ban, told[1]?.ban);
    assert.equal(told[0]?.ban.imposed, false);
    assert.equal(told[0]?.ban.strikes.length, 3);
    const api = await (await one.admin(`/api/bans/${ACCOUNT}`)).json();
    const instants = JSON.stringify([told, api]).match(/"(?:at|until|lifted)":[^,}]+/g) ?? [];
    assert.ok(instants.length >= 14, "those of three answers and their strikes, and of an event");
    assert.deepEqual(
      instants.filter((instant) => !/:\d+$/.test(instant)),
      [],
      "are whole seconds",
    );
    // The event is told by one of the two: asked together they have it once.
    const origin = other.adminUrl;
    const both = ["bans", "why", ACCOUNT, "--json", "--admin", origin, "--config", one.file];
    assert.equal(jsonOf<Why>(await runVerb(both)).bans.length, 1);
    const client = await redis.client();
    await namesTheUnasked(one.file, origin);
    await listKilled(client);
    assert.deepEqual(jsonOf<Why>(await runVerb(both)).missing, []);
    const repeated = await runVerb([...both, "--admin", "http://127.0.0.1:1"]);
    assert.match(jsonOf<Why>(repeated).missing.join(), /127\.0\.0\.1:1/);
    // A ban whose cause was lost is told as a ban, and no more.
    const cause = await client.keys("tg:w{*");
    assert.equal(cause.length, 1);
    await client.hset(cause[0] ?? "", "c", "1000 1 h of another ban");
    assert.equal(jsonOf<Why>(await runVerb(both)).ban?.imposed, null);
    const { out } = await runVerb(both.filter((word) => word !== "--json"));
    assert.match(out, /: banned until [^,]+, how is not known; running strikes: /);
    await client.del(cause);
    const lost = jsonOf<Why>(await runVerb(both));
    assert.equal(lost.ban?.imposed, null);
    await redis.close();
  });
});

/** As a gateway that was killed stays listed, whom nobody can ask. */
async function listKilled(client: Redis): Promise<void> {
  const [listed = ""] = await client.hvals("tg:{0}:status");
  const killed = listed
    .replace(/^\d+/, (atMs) => `${Number(atMs) - 60_000}`)
    .replace(/"name":"[^"]*"/, '"name":"killed"');
  await client.hset("tg:{0}:status", "killed", killed);
}

/** One of two gateways is asked alone: a ban that only the other one told is not in its answer. */
async function namesTheUnasked(file: string, origin: string): Promise<void> {
  const missing = async (...more: string[]) => {
    const said = await runVerb(["bans", "why", ACCOUNT, "--json", "--config", file, ...more]);
    return jsonOf<Why>(said).missing;
  };
  await eventually(async () => {
    const words = /^bans that other gateways told are not known: \S+; name them with --admin URL/;
    const told = await missing();
    assert.equal(told.length, 1);
    assert.match(told[0] ?? "", words);
  });
  assert.deepEqual(await missing("--admin", origin), []);
  const log = `${file}.log`;
  await writeFile(log, "");
  assert.doesNotMatch((await missing("--log", log)).join(), /other gateways/);
}
