import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, it } from "vitest";
import { runVerb } from "../../cli/kit.ts";
import { each } from "../../support/each.ts";
import {
  startTestGateway,
  type TestGateway,
  type TestGatewayOptions,
} from "../../support/gateway/house.ts";
import { runTollgate } from "../../support/gateway/processes.ts";
import { KEY } from "../../support/gateway/served.ts";
import { watchStalls } from "../../support/in-time.ts";
import { eventually } from "../../support/poll.ts";
import { useRedis } from "../../support/redis/redis-of-file.ts";
import { rateLimitFieldsOf, sendRequest } from "../../support/wire/client.ts";
import { onlyValue } from "../../support/wire/response.ts";

const { server } = await useRedis();

/** Strikes 100 ms apart, five of them in ten seconds; a ban of a second, then of four. */
const BANS = {
  strikes: 5,
  within: "10s",
  grace: "100ms",
  duration: "1s",
  factor: 4,
  max: "1h",
  forgetAfter: "1h",
};

const API = `openapi: 3.1.0
info: { title: t, version: 1.0.0 }
paths:
  /narrow:
    get: { operationId: narrow, x-limits: { day: 2 }, responses: {} }
  /pets:
    get: { operationId: pets, responses: {} }
  /huge:
    get: { operationId: huge, x-cost: 1001, responses: {} }
`;

type Refused = {
  readonly status: number;
  readonly code: string | undefined;
  readonly message: string | undefined;
  readonly retry: number;
};

function open(store: string, more: TestGatewayOptions = {}): Promise<TestGateway> {
  const plans = { free: { day: 3 }, enterprise: "custom" };
  return startTestGateway({ ...more, config: { store, bans: BANS, plans, ...more.config } });
}

async function ask(house: TestGateway, key: string): Promise<Refused> {
  const response = await house.ask(key);
  const text = await response.text();
  const error = response.ok ? undefined : (JSON.parse(text) as { code: string; message: string });
  const retry = Number(response.headers.get("retry-after") ?? 0);
  return { status: response.status, code: error?.code, message: error?.message, retry };
}

type Ban = { account: string; environment: string; until: number; offences: number };

async function bans(house: TestGateway): Promise<Ban[]> {
  return (await (await house.admin("/api/bans")).json()) as Ban[];
}

async function strikes(house: TestGateway, account: string): Promise<number> {
  const usage = await (await house.admin(`/api/usage/${account}`)).json();
  return (usage as { strikes: number }).strikes;
}

/** Asks each 10 ms until the ban, and gives what was told before it; `each` is called between. */
async function hammer(house: TestGateway, key: string, each: () => Promise<void> = async () => {}) {
  const before: Refused[] = [];
  const startMs = performance.now();
  for (;;) {
    const told = await ask(house, key);
    if (told.code === "key_banned") return { before, tookMs: performance.now() - startMs };
    before.push(told);
    await each();
    assert.ok(before.length < 2_000, "never banned");
    await sleep(10);
  }
}

for (const kind of ["memory", "redis"] as const) {
  const address = () => (kind === "memory" ? "memory" : server.url);

  describe(`bans, store: ${kind}`, () => {
    it("are not earned by a burst of 200 requests at once", async () => {
      // A grace that a slow machine does not outlast either.
      const patient = { ...BANS, grace: "1m", within: "10m" };
      await using house = await open(address(), { config: { bans: patient } });
      const { key, account } = await house.issue();
      const told = await Promise.all(Array.from({ length: 200 }, () => ask(house, key)));
      assert.equal(told.filter(({ status }) => status === 200).length, 3);
      assert.ok(each(told).every(({ code }) => code === undefined || code === "rate_limited"));
      assert.deepEqual(await bans(house), []);
      assert.equal(await strikes(house, account), 0);
    });

    it("are earned by hammering, at the strike that makes five, 100 ms apart", async (t) => {
      await using house = await open(address());
      const { key, account } = await house.issue();
      const { before, tookMs } = await hammer(house, key, async () => {
        assert.deepEqual(await bans(house), [], "no request before it earned one");
      });
      t.annotate(`${kind}: banned after ${Math.round(tookMs)} ms of a request each 10 ms`);
      assert.equal(before.filter(({ status }) => status === 200).length, 3);
      assert.ok(each(before.slice(3)).every(({ code }) => code === "rate_limited"));
      // The first refusal, more than the grace until the first strike, four times that between.
      assert.ok(tookMs >= 500, `${tookMs} ms`);
      const [ban] = await bans(house);
      assert.deepEqual([ban?.account, ban?.environment, ban?.offences], [account, "production", 1]);
      assert.equal(await strikes(house, account), 0, "the ban clears the strikes");
      await house.law();
    });

    it("follow from strikes, each of which the line of its refusal counts, as the store does", async () => {
      // The strike of a call that is late is lost, and one counts for as long as the loop may take.
      const config = { bans: { ...BANS, strikes: 50, within: "1h" }, storeTimeout: "1s" };
      await using house = await open(address(), { config });
      const { key, account } = await house.issue();
      for (let i = 0; i < 4; i++) await ask(house, key);
      for (const n of [1, 2, 3]) {
        // A strike comes more than the grace of 100 ms after the one before.
        await sleep(120);
        await ask(house, key);
        const [line] = house.lines.filter((one) => one.strikes === n);
        const by = kind === "memory" ? "store" : "memory";
        assert.deepEqual([line?.id, line?.by], [house.lines.at(-1)?.id, by]);
        await eventually(async () => assert.equal(await strikes(house, account), n));
      }
      await house.law();
    });

    it("are for the account: a further key of it is banned too, another account is not", async () => {
      await using house = await open(address());
      const { key, account } = await house.issue();
      const further = await house.issue({ account });
      const other = await house.issue();
      await hammer(house, key);
      const banned = await ask(house, further.key);
      assert.equal(banned.code, "key_banned");
      assert.match(
        banned.message ?? "",
        /^The API key is banned for a while/,
        "and not its window",
      );
      assert.equal((await ask(house, other.key)).status, 200);
    });

    it("escalate; requests meanwhile neither extend them nor count", async () => {
      const bansOf3s = { ...BANS, duration: "3s" };
      await using house = await open(address(), { config: { bans: bansOf3s } });
      const { key } = await house.issue();
      await hammer(house, key);
      const [first] = await bans(house);
      const untilMs = (first?.until ?? 0) * 1_000;
      const told = await Promise.all(Array.from({ length: 50 }, () => ask(house, key)));
      const after = await bans(house);
      // A machine that stalls lets the ban end meanwhile: what came then says nothing.
      if (Date.now() < untilMs - 1_000) {
        assert.ok(each(told).every(({ code }) => code === "key_banned"));
        assert.deepEqual(
          after.map(({ until, offences }) => [until, offences]),
          [[first?.until, 1]],
        );
      }
      await eventually(async () => (await ask(house, key)).code === "rate_limited");
      const fromMs = Date.now();
      await hammer(house, key);
      const toMs = Date.now();
      // On a machine that stalls requests of above came after the first ban, and earned the second.
      const [last] = await bans(house);
      const offences = last?.offences ?? 0;
      assert.ok(offences >= 2, `${offences}`);
      const lastsMs = 3_000 * 4 ** (offences - 1);
      const endMs = (last?.until ?? 0) * 1_000;
      assert.ok(endMs - fromMs >= lastsMs, `four times as long: ${endMs - fromMs} ms`);
      assert.ok(endMs - toMs <= lastsMs + 1_000, `and no longer: ${endMs - toMs} ms`);
    });

    it("tell a Retry-After that is enough and not a second too long, of ban and window", async () => {
      const config = { plans: { free: { second: 2 } }, bans: { ...BANS, strikes: 1, grace: "0s" } };
      await using house = await open(address(), { config });
      const { key } = await house.issue();
      let told: Refused | undefined;
      await eventually(
        async () => {
          told = await ask(house, key);
          return told.code === "key_banned";
        },
        { everyMs: 1 },
      );
      const bannedMs = performance.now();
      assert.ok(told?.retry === 1 || told?.retry === 2, JSON.stringify(told));
      // A timer alone may be early by a millisecond or two.
      const retryMs = bannedMs + (told?.retry ?? 0) * 1_000;
      await eventually(() => performance.now() >= retryMs, { everyMs: 1 });
      assert.equal((await ask(house, key)).status, 200, "the first request passes");
    });

    it("tell the limit that earned them, that of an operation to every other operation too", async () => {
      const config = {
        plans: { free: { day: 1_000, year: 5_000 } },
        bans: { ...BANS, strikes: 1, grace: "0s", duration: "48h", max: "48h" },
      };
      const environment = { standing: "/v1/_limits" };
      const served = { api: "./api.yaml", files: { "api.yaml": API }, environment };
      await using house = await open(address(), { ...served, config });
      const { key } = await house.issue();
      const told = async (path: string) => {
        const answer = await sendRequest(house.port, { key, path });
        return [onlyValue(answer, "X-RateLimit-Window"), rateLimitFieldsOf(answer).limit];
      };
      await eventually(async () => (await told("/v1/narrow"))[0] === "ban", { everyMs: 5 });
      for (const path of ["/v1/narrow", "/v1/pets", "/v1/pets", "/v1/_limits", "/v1/huge"]) {
        assert.deepEqual(await told(path), ["ban", 2], path);
      }
      await house.law();
    });
  });
}

describe("bans over a reload", () => {
  const plans = { free: { day: 1_000, year: 5_000 } };
  const configOf = (store: string, bans: typeof BANS | "off") => ({ store, plans, bans });

  async function openBanned(store: string) {
    const served = { api: "./api.yaml", files: { "api.yaml": API } };
    const house = await open(store, { ...served, config: configOf(store, BANS) });
    const { key, account } = await house.issue();
    const body = JSON.stringify({ id: account, for: "1h" });
    const added = await house.admin("/api/bans", { method: "POST", body });
    assert.equal(added.status, 201, await added.text());
    const reload = async (bans: typeof BANS | "off") => {
      await house.rewrite(configOf(store, bans));
      const reloaded = await house.gateway.reload();
      assert.ok(reloaded.ok, JSON.stringify(reloaded));
    };
    return { house, key, account, reload };
  }

  for (const kind of ["memory", "redis"] as const) {
    it(`are listed while they are in force and no longer, before any request too, store: ${kind}`, async () => {
      const { house: opened, ...rest } = await openBanned(kind === "redis" ? server.url : kind);
      await using house = opened;
      const { key, account, reload } = rest;
      const listed = async () => {
        const asked = kind === "redis" ? ["--config", house.file] : ["--admin", house.adminUrl];
        const told = await runVerb(["bans", "list", "--json", ...asked]);
        assert.equal(told.status, 0, told.err);
        const byVerb = (JSON.parse(told.out) as Ban[]).map((ban) => ban.account);
        const byGateway = (await bans(house)).map((ban) => ban.account);
        return [byVerb, byGateway].map((all) => all.includes(account));
      };
      assert.deepEqual(await listed(), [true, true]);
      await reload("off");
      assert.deepEqual(await listed(), [false, false]);
      assert.equal((await ask(house, key)).status, 200);
      await reload(BANS);
      assert.deepEqual(await listed(), [true, true]);
      assert.equal((await ask(house, key)).code, "key_banned");
    });
  }

  for (const kind of ["memory", "redis"] as const) {
    it(`are told without a decision as the configuration in force has them, store: ${kind}`, async () => {
      const { house: opened, ...rest } = await openBanned(kind === "redis" ? server.url : kind);
      await using house = opened;
      const { key, reload } = rest;
      const told = async () => {
        const answer = await sendRequest(house.port, { key, path: "/v1/huge" });
        assert.equal(answer.status, 403);
        return onlyValue(answer, "X-RateLimit-Window");
      };
      // The memory store knows the ban before a request is decided.
      if (kind === "redis") assert.equal((await ask(house, key)).code, "key_banned");
      assert.equal(await told(), "ban");
      await reload("off");
      assert.equal(await told(), "day");
      await reload(BANS);
      assert.equal(await told(), "ban");
      await house.law();
    });
  }
});

describe("bans at several gateways", () => {
  async function two(config: Record<string, unknown> = {}) {
    const keys = { [KEY]: { id: "shared" } };
    const one = await open(server.url, { keys, config });
    const other = await open(server.url, { keys, config });
    return {
      one,
      other,
      [Symbol.asyncDispose]: async () => {
        await one[Symbol.asyncDispose]();
        await other[Symbol.asyncDispose]();
      },
    };
  }

  it("are in force at the second one within 200 ms of the request that earned it", async (t) => {
    await using houses = await two();
    await ask(houses.other, KEY);
    let seenMs = Number.POSITIVE_INFINITY;
    let running = true;
    const watch = (async () => {
      while (running) {
        if ((await ask(houses.other, KEY)).code === "key_banned") {
          seenMs = performance.now();
          return;
        }
        await sleep(5);
      }
    })();
    await hammer(houses.one, KEY);
    const earnedMs = performance.now();
    const { stalledMs } = await watchStalls(() => eventually(() => Number.isFinite(seenMs)));
    running = false;
    await watch;
    t.annotate(`in force elsewhere ${Math.round(seenMs - earnedMs)} ms after it was earned`);
    const tookMs = seenMs - earnedMs;
    assert.ok(tookMs < 200 + stalledMs, `${tookMs} ms, ${stalledMs} stalled`);
  });

  for (const how of ["the admin API", "the command line"] as const) {
    it(`are lifted by ${how} with effect within a second at both`, async () => {
      const bans = { ...BANS, duration: "1h" };
      await using houses = await two({ bans, plans: { free: { second: 2 } } });
      const { one, other } = houses;
      for (const house of [one, other]) {
        await eventually(async () => (await ask(house, KEY)).code === "key_banned", {
          withinMs: 60_000,
          everyMs: 20,
        });
      }
      let sinceMs = performance.now();
      if (how === "the admin API") {
        const lifted = await one.admin("/api/bans/shared", { method: "DELETE", body: "{}" });
        assert.equal(lifted.status, 200, await lifted.text());
      } else {
        const told = await runTollgate(["bans", "lift", "shared", "--config", one.file, "--json"]);
        assert.equal(told.code, 0, told.stderr);
        sinceMs = performance.now();
      }
      const { stalledMs } = await watchStalls(async () => {
        for (const house of [one, other]) {
          await eventually(async () => (await ask(house, KEY)).code !== "key_banned");
        }
      });
      const tookMs = performance.now() - sinceMs;
      assert.ok(tookMs < 1_000 + stalledMs, `${tookMs} ms, ${stalledMs} stalled`);
      for (const house of [one, other]) {
        // Asking sooner than told would be strikes, and five of them a ban that is deserved.
        let told = await ask(house, KEY);
        if (told.status === 429) {
          // A timer alone may be early by a millisecond.
          await sleep(told.retry * 1_000 + 2);
          told = await ask(house, KEY);
        }
        assert.equal(told.status, 200, "obeying Retry-After is enough");
      }
      assert.deepEqual(await (await other.admin("/api/bans")).json(), []);
    });
  }
});
