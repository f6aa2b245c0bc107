import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { randomInt } from "node:crypto";
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, it } from "vitest";
import { stringify } from "yaml";
import { digestKey, makeKey } from "../../src/core/keys/key.ts";
import { each } from "../support/each.ts";
import { startTestUpstream } from "../support/gateway/backend.ts";
import { type RunningProcess, startNode } from "../support/gateway/processes.ts";
import { provided } from "../support/needing.ts";
import { eventually } from "../support/poll.ts";
import { useRedis } from "../support/redis/redis-of-file.ts";

const ROOT = join(import.meta.dirname, "../..");
/** The last version before accounts were records of their own: key records of version 1. */
const BEFORE = "dbe24edf68cb2f446f4c6fc50418fb870a858c7f";
/** A month has no edge that a test is likely to meet. */
const LIMIT = 60;
/** The version before waits for 50 ms alone, and few rounds of a busy machine have no later answer. */
const ROUNDS_MAX = 60;
/** Each of them is as slow as the machine is busy. */
const SLOW_MS = 240_000;

/** Whether the history of the repository is here: an archive of the sources has none. */
const hasHistory = (() => {
  try {
    execFileSync("git", ["cat-file", "-e", `${BEFORE}:src/main.ts`], {
      cwd: ROOT,
      stdio: "ignore",
    });
    return true;
  } catch {
    return false;
  }
})();

const folder = mkdtempSync(join(tmpdir(), "tollgate-neighbours-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const { server, redis } = await useRedis();

/** The sources of the version before, in a folder of their own, with the packages of this one. */
function checkOut(): string {
  const sources = join(folder, "before");
  mkdirSync(sources);
  const tar = execFileSync("git", ["archive", BEFORE, "src", "package.json"], {
    cwd: ROOT,
    maxBuffer: 64 * 1024 * 1024,
  });
  execFileSync("tar", ["x", "-C", sources], { input: tar });
  symlinkSync(join(ROOT, "node_modules"), join(sources, "node_modules"));
  return sources;
}

const KEYS = Array.from({ length: ROUNDS_MAX }, () => makeKey("pets", "live", randomInt));

/** The same keys in the form of each version: accounts `a0`, `a1`, ... of one plan, a key each. */
function keyFile(version: 1 | 2): string {
  const common = { environment: "production", created: "2026-01-01T00:00:00.000Z" };
  const keys = KEYS.map((key, i) => ({
    ...(version === 1 ? { plan: "free", limits: {} } : { version }),
    ...{ id: `k_${i}`, digest: digestKey(key), name: "", account: `a${i}`, scopes: [], ...common },
  }));
  const accounts = KEYS.map((_, i) => {
    return { version, id: `a${i}`, plan: "free", limits: {}, ...common };
  });
  return JSON.stringify(version === 1 ? { version, keys } : { version, keys, accounts });
}

const backend = await startTestUpstream();
afterAll(() => backend.close());
let homes = 0;

/** Starts a gateway of these sources, which may refuse to. */
function begin(sources: string, keys: string): RunningProcess {
  homes += 1;
  const home = join(folder, `gateway-${homes}`);
  mkdirSync(home);
  writeFileSync(join(home, "keys.json"), keys);
  const production = { listen: "127.0.0.1:0", basePath: "/v1", keyTag: "live" };
  const config = {
    ...{ store: server.url, keys: "./keys.json", onStoreFailure: "deny" },
    environments: { production: { ...production, upstreams: [backend.origin] } },
    plans: { free: { month: LIMIT } },
    bans: { strikes: 1, within: "1m", grace: "1s", duration: "1h" },
    admin: "off",
    ...(sources === ROOT && { storeTimeout: "1s" }),
  };
  writeFileSync(join(home, "tollgate.yaml"), stringify(config));
  const file = join(home, "tollgate.yaml");
  return startNode([join(sources, "src/main.ts"), "start", "--config", file]);
}

async function urlOf(running: RunningProcess): Promise<string> {
  const { urls } = await running.line(({ msg }) => msg === "serving");
  return `${(urls as Record<string, string>).production}/v1/pets`;
}

type Told = { readonly status: number; readonly remaining: number; readonly code: string };

async function ask(url: string, key: string): Promise<Told> {
  const response = await fetch(url, { headers: { Authorization: `Bearer ${key}` } });
  const text = await response.text();
  const code = response.status === 200 ? "" : (JSON.parse(text) as { code: string }).code;
  return {
    status: response.status,
    remaining: Number(response.headers.get("x-ratelimit-remaining")),
    code,
  };
}

/** Asks both in turn, a few at a time; undefined where a busy machine made Redis late. */
async function exhaust(urls: readonly string[], key: string): Promise<Told[] | undefined> {
  const told: Told[] = [];
  const wasLate = () => told.some(({ status }) => status === 503);
  const asker = async (first: number) => {
    for (let i = first; i < LIMIT + 20 && !wasLate(); i += 4) {
      told.push(await ask(urls[(i % 2) ^ (i & 4 ? 1 : 0)] as string, key));
    }
  };
  await Promise.all([0, 1, 2, 3].map(asker));
  return wasLate() ? undefined : told;
}

const history = provided(hasHistory, "the history of the repository");

describe("a gateway of the version before and one of today", history, () => {
  it(
    "share one Redis: exact together, and a ban of one is a ban of the other",
    async () => {
      const before = checkOut();
      await using old = begin(before, keyFile(1));
      await using today = begin(ROOT, keyFile(2));
      const urls = [await urlOf(old), await urlOf(today)];
      let rounds = 0;
      for (const [i, key] of KEYS.entries()) {
        const told = await exhaust(urls, key);
        if (told === undefined) continue;
        const admitted = told.filter(({ status }) => status === 200);
        const numbers = admitted.map(({ remaining }) => remaining).sort((a, b) => a - b);
        assert.deepEqual(
          numbers,
          [...Array(LIMIT).keys()],
          "each number once, by whichever gateway",
        );
        assert.ok(each(told).every(({ status }) => [200, 429].includes(status)));
        // The one bans, the other has to know.
        const [banner = "", other = ""] = urls;
        const banned = (url: string) =>
          eventually(async () => assert.equal((await ask(url, key)).code, "key_banned"), {
            everyMs: 100,
            withinMs: 60_000,
          });
        await banned(banner);
        await banned(other);
        const hash = (await redis.keys(`tg:*:production:a${i}`))[0] as string;
        assert.match((await redis.hget(hash, "b")) ?? "", / 3600000 M 1$/);
        rounds += 1;
        break;
      }
      assert.ok(rounds > 0, "Redis was late in every round");
    },
    SLOW_MS,
  );

  it("keep apart where they cannot: the old one refuses today's key file in words", async () => {
    const sources = join(folder, "before");
    await using old = begin(sources, keyFile(2));
    const { code, stdout, stderr } = await old.exited;
    assert.notEqual(code, 0);
    assert.match(stdout + stderr, /keys\.json:1:\d+: .*version/);
  });
});
