import assert from "node:assert/strict";
import { randomInt } from "node:crypto";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll, beforeEach, describe, it } from "vitest";
import { stringify } from "yaml";
import { loadConfig } from "../../src/config/load/load.ts";
import { makeKey } from "../../src/core/keys/key.ts";
import type { GatewayHandle } from "../../src/server/process/gateway-handle.ts";
import { startGateway } from "../../src/server/start.ts";
import { createLog } from "../../src/telemetry/log/log.ts";
import { jsonOf, runVerb } from "../cli/kit.ts";
import { runTollgate } from "../support/gateway/processes.ts";
import { eventually } from "../support/poll.ts";
import { startRedis, type TestRedis } from "../support/redis/redis.ts";

type Event = Readonly<Record<string, unknown>>;

const DAY_MS = 86_400_000;
/** Far from 30 and from 7 days. */
const SUNSET = new Date(Date.now() + 20 * DAY_MS).toISOString();
const API = {
  openapi: "3.1.0",
  info: { title: "old", version: "1" },
  paths: {
    "/old": {
      get: {
        operationId: "old",
        deprecated: true,
        "x-deprecated-since": "2026-01-01",
        "x-sunset": SUNSET,
        responses: {},
      },
    },
  },
};

const CONFIG = {
  keys: "redis",
  stateFile: "./state.json",
  admin: "off",
  environments: {
    production: { listen: "127.0.0.1:0", basePath: "/v1", keyTag: "live", api: "./api.json" },
    staging: { listen: "127.0.0.1:0", basePath: "/v1", keyTag: "test" },
  },
  plans: { free: { minute: 60 }, pro: { minute: 600 } },
};

type House = {
  readonly directory: string;
  readonly store: string;
  /** The events of all gateways, in their order. */
  readonly events: Event[];
  readonly keys?: string;
};

/** One gateway of several in this process. */
async function openGateway(
  { directory, store, events, keys = "redis" }: House,
  number: number,
): Promise<{ readonly file: string; readonly gateway: GatewayHandle }> {
  const file = join(directory, `gateway-${number}.yaml`);
  const upstreams = ["http://127.0.0.1:9"];
  const { production, staging } = CONFIG.environments;
  const environments = {
    production: { ...production, upstreams },
    staging: { ...staging, upstreams },
  };
  const stateFile = `./state-${number}.json`;
  await writeFile(file, stringify({ ...CONFIG, environments, stateFile, store, keys }));
  const load = () => loadConfig(file, {});
  const loaded = await load();
  assert.ok(loaded.ok);
  const write = (line: string) => {
    const said = JSON.parse(line) as Event;
    if (said.msg === "event") events.push(said);
  };
  const gateway: GatewayHandle = await startGateway(loaded.config, {
    log: createLog({ write }, "info"),
    gateway: "one",
    load,
  });
  return { file, gateway };
}

const WAIT = { withinMs: 60_000 };
const SEEN_MS = 1_500;

async function runJson(file = "", args: readonly string[]): Promise<Record<string, string>> {
  const done = await runVerb([...args, "--config", file, "--json"]);
  assert.equal(done.status, 0, done.err);
  return jsonOf<Record<string, string>>(done);
}

describe("Of four gateways that share a store one tells", () => {
  let redis: TestRedis;
  let directory: string;
  let gateways: Awaited<ReturnType<typeof openGateway>>[];
  const events: Event[] = [];
  const house = () => ({ directory, store: redis.url, events });
  beforeAll(async () => {
    redis = await startRedis();
    directory = await mkdtemp(join(tmpdir(), "tollgate-news-"));
    await writeFile(join(directory, "api.json"), JSON.stringify(API));
    gateways = [];
    for (const number of [1, 2, 3, 4]) {
      gateways.push(await openGateway(house(), number));
    }
  });
  afterAll(async () => {
    for (const { gateway } of gateways) await gateway.stop({ atOnce: true });
    await redis.close();
    await rm(directory, { recursive: true, force: true });
  });

  /** Each test counts from what the one before it, or an earlier try of its own, has left. */
  let from = 0;
  beforeEach(() => {
    from = events.length;
  });

  const ever = (kind: string) => events.filter((event) => event.kind === kind);
  const told = (kind: string) => events.slice(from).filter((event) => event.kind === kind);

  const command = (...args: string[]) => runJson(gateways[0]?.file, args);

  /** The one event of the kind beyond those that were there. */
  const one = async (kind: string, before: number): Promise<Event> => {
    await eventually(() => assert.ok(told(kind).length > before), WAIT);
    return told(kind)[before] as Event;
  };

  /** Each gateway sees a change within a second: one that told it again would have by now. */
  const stays = async (counts: Readonly<Record<string, number>>) => {
    await delay(SEEN_MS);
    const kinds = Object.keys(counts);
    assert.deepEqual(Object.fromEntries(kinds.map((kind) => [kind, told(kind).length])), counts);
  };

  it("a key that a command issues, rotates and revokes, and an account that it changes", async () => {
    const issued = await command("keys", "create", "--env", "production", "--plan", "free");
    const { id: key, account } = issued;
    const issuing = await one("key_issued", 0);
    assert.deepEqual(
      [issuing.key, issuing.account, issuing.env, issuing.plan],
      [key, account, "production", "free"],
    );

    await command("accounts", "set", account ?? "", "--plan", "pro");
    const changed = await one("account_changed", 0);
    assert.deepEqual([changed.account, changed.plan], [account, "pro"]);
    await command("accounts", "suspend", account ?? "");
    assert.equal((await one("account_changed", 1)).plan, "pro");

    const rotated = await command("keys", "rotate", key ?? "");
    const rotating = await one("key_rotated", 0);
    assert.deepEqual([rotating.key, rotating.successor], [key, rotated.id]);
    await command("keys", "revoke", rotated.id ?? "");
    const revoking = await one("key_revoked", 0);
    assert.deepEqual([revoking.key, revoking.account], [rotated.id, account]);
    // A successor is told by the rotation alone.
    await stays({ key_issued: 1, account_changed: 2, key_rotated: 1, key_revoked: 1 });
  });

  it("a working key that is used in another environment, once a day", async () => {
    const { id, key = "" } = await command("keys", "create", "--env", "staging", "--plan", "free");
    const use = async (environment: string, token: string) => {
      for (const { gateway } of gateways) {
        const url = `${gateway.urls[environment]}/v1/old`;
        const answer = await fetch(url, { headers: { authorization: `Bearer ${token}` } });
        const said = await answer.text();
        assert.equal(answer.status, environment === "production" ? 401 : 502, said);
      }
    };
    // One gateway tells of the key; the others may read of it later.
    await eventually(() => use("staging", key), WAIT);
    await use("production", `${key.slice(0, -1)}${key.endsWith("0") ? "1" : "0"}`);
    await delay(300);
    assert.equal(told("key_elsewhere").length, 0);
    await use("production", key);
    await use("production", key);
    const event = await one("key_elsewhere", 0);
    await stays({ key_elsewhere: 1 });
    assert.deepEqual([event.key, event.env, event.usedIn], [id, "staging", "production"]);
    assert.doesNotMatch(JSON.stringify(event), new RegExp(key));
  });

  it("an operation whose sunset is near, also when another gateway starts later", async () => {
    await eventually(() => assert.equal(ever("sunset").length, 1));
    const { route, days, method } = ever("sunset")[0] as Event;
    assert.deepEqual([method, route, days], ["GET", "/v1/old", 30]);
    gateways.push(await openGateway(house(), 5));
    await delay(SEEN_MS);
    assert.equal(ever("sunset").length, 1);
  });

  it("each of many keys that are issued together", async () => {
    await command("keys", "create", "--env", "production", "--plan", "free", "--count", "200");
    await eventually(() => assert.ok(told("key_issued").length >= 200), WAIT);
    await stays({ key_issued: 200 });
    assert.equal(new Set(told("key_issued").map(({ key }) => key)).size, 200);
  });
});

/** Lines for `keys import --plain`: keys of accounts that have two each. */
function plainLines(start: string, count: number): string {
  return Array.from({ length: count }, (_, i) => {
    const account = `${start}-${Math.floor(i / 2)}`;
    const key = makeKey("pets", "live", (max) => randomInt(max));
    return `${JSON.stringify({ key, account, plan: "free", environment: "production" })}\n`;
  }).join("");
}

describe("An import of many keys is one event with its numbers", () => {
  /** More than the changes after which all records are indexed again, or read again from Redis. */
  const MANY = 4_400;
  const ENDED = 3_000;
  const OF_KEYS = ["key_issued", "key_revoked", "key_rotated", "account_changed", "keys_imported"];

  /** Imports, again, with a mistake, after a rotation, and to end keys; each told as it should be. */
  async function play(file: string, events: readonly Event[]): Promise<void> {
    const kinds = () => {
      const told = events.map(({ kind }) => kind as string);
      return told.filter((kind) => OF_KEYS.includes(kind));
    };
    const last = async (count: number) => {
      await eventually(() => assert.ok(kinds().length >= count, `${kinds()}`), WAIT);
      await delay(SEEN_MS);
      assert.equal(kinds().length, count, `${kinds()}`);
      const { kind, keys, accounts, ended } = events.filter((event) => {
        return OF_KEYS.includes(event.kind as string);
      })[count - 1] as Event;
      return [kind, keys, accounts, ended];
    };
    const add = async (lines: string, ...more: string[]) => {
      const args = ["keys", "import", "-", ...more, "--config", file];
      return runTollgate(args, { stdin: lines });
    };
    const lines = plainLines("many", MANY);
    assert.equal((await add(lines, "--plain")).code, 0);
    assert.deepEqual(await last(1), ["keys_imported", MANY, MANY / 2, 0]);

    assert.equal((await add(lines, "--plain")).code, 0, "again: nothing is new");
    const half = `${plainLines("half", 10)}${plainLines("half", 1).replace("free", "none")}`;
    assert.equal((await add(half, "--plain")).code, 1, "half of it is wrong: nothing is taken");
    await last(1);

    const exported = await runTollgate(["keys", "export", "--config", file]);
    const ids = [...exported.stdout.matchAll(/"record":"key".*?"id":"(k_\w+)"/g)];
    await runJson(file, ["keys", "rotate", ids[0]?.[1] ?? ""]);
    assert.deepEqual((await last(2))[0], "key_rotated");

    // The same keys, revoked elsewhere: they end here too.
    const revoked = exported.stdout
      .split("\n")
      .slice(-ENDED - 1)
      .map((line) => line.replace('"created"', '"revoked":"2026-01-01T00:00:00.000Z","created"'));
    assert.equal((await add(revoked.join("\n"))).code, 0);
    assert.deepEqual(await last(3), ["keys_imported", 0, 0, ENDED]);
  }

  async function withGateways(
    count: number,
    house: Omit<House, "directory" | "events">,
    use: (file: string, events: readonly Event[]) => Promise<void>,
  ): Promise<void> {
    const directory = await mkdtemp(join(tmpdir(), "tollgate-imports-"));
    await writeFile(join(directory, "api.json"), JSON.stringify(API));
    const events: Event[] = [];
    const gateways: Awaited<ReturnType<typeof openGateway>>[] = [];
    try {
      for (let i = 1; i <= count; i++) {
        gateways.push(await openGateway({ ...house, directory, events }, i));
      }
      await use(gateways[0]?.file ?? "", events);
    } finally {
      for (const { gateway } of gateways) await gateway.stop({ atOnce: true });
      await rm(directory, { recursive: true, force: true });
    }
  }

  it("of all gateways that share a Redis", async () => {
    const redis = await startRedis();
    try {
      await withGateways(3, { store: redis.url }, play);
    } finally {
      await redis.close();
    }
  });

  it("of a gateway with a key file", async () => {
    await withGateways(1, { store: "memory", keys: "./keys.json" }, play);
  });
});

it("a change that came while the store stood still is told once when it goes on", async () => {
  const redis = await startRedis();
  const directory = await mkdtemp(join(tmpdir(), "tollgate-news-"));
  await writeFile(join(directory, "api.json"), JSON.stringify(API));
  const events: Event[] = [];
  const issued = () => events.filter(({ kind }) => kind === "key_issued").length;
  const house = { directory, store: redis.url, events, keys: "./keys.json" };
  const gateways = [await openGateway(house, 1), await openGateway(house, 2)];
  try {
    redis.stop();
    await runJson(gateways[0]?.file, ["keys", "create", "--env", "production", "--plan", "free"]);
    // Longer than a marker is waited for: Redis has their commands, and nobody has its answers.
    await delay(SEEN_MS + 2_000);
    assert.equal(issued(), 0);
    redis.cont();
    await eventually(() => assert.equal(issued(), 1), WAIT);
    await delay(SEEN_MS);
    assert.equal(issued(), 1);
  } finally {
    for (const { gateway } of gateways) await gateway.stop({ atOnce: true });
    await redis.close();
    await rm(directory, { recursive: true, force: true });
  }
});
