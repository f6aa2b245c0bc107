import assert from "node:assert/strict";
import { afterAll, test } from "vitest";
import { each } from "../support/each.ts";
import type { TestGateway } from "../support/gateway/house.ts";
import { startPetsGateway } from "../support/gateway/pets.ts";
import { KEY } from "../support/gateway/served.ts";
import { startRedis } from "../support/redis/redis.ts";
import { errorOf, openClient, rateLimitFieldsOf, sendRequest } from "../support/wire/client.ts";
import { onlyValue, type RawResponse, valuesOf } from "../support/wire/response.ts";

const MINUTE_MS = 60_000;
const DAY_MS = 86_400_000;
const NOON = Date.UTC(2026, 5, 1, 12);
const redis = await startRedis();
afterAll(() => redis.close());

/** The plans of the pets API that have limits of their own. */
const PLANS = [
  { plan: "free", minute: 60, day: 1_000 },
  { plan: "pro", minute: 300, day: 10_000 },
  { plan: "business", minute: 1_000, day: 100_000 },
] as const;

/** So many requests over one connection, one after the other. */
async function askTimes(house: TestGateway, key: string, times: number): Promise<RawResponse[]> {
  await using client = await openClient(house.port);
  const answers: RawResponse[] = [];
  for (let i = 0; i < times; i++) answers.push(await client.ask({ key }));
  return answers;
}

const minuteOf = (ms: number) => Math.floor(ms / MINUTE_MS);

function statuses(answers: readonly RawResponse[]): number[] {
  return answers.map(({ status }) => status);
}

const KINDS = [
  { store: "memory", open: () => startPetsGateway({ now: () => NOON }), nowMs: () => NOON },
  {
    store: "redis",
    open: () => startPetsGateway({ config: { store: redis.url } }),
    nowMs: Date.now,
  },
] as const;

for (const { store, open, nowMs } of KINDS) {
  const house = await open();
  afterAll(() => house[Symbol.asyncDispose]());

  /** Asks with a key of its own, and with another one where a minute ended meanwhile. */
  async function inOneMinute<T>(
    wanted: Readonly<Record<string, unknown>>,
    ask: (key: string) => Promise<T>,
  ) {
    for (;;) {
      const { key } = await house.issue(wanted);
      const beforeMs = nowMs();
      const answers = await ask(key);
      const afterMs = nowMs();
      if (minuteOf(beforeMs) === minuteOf(afterMs)) return { answers, beforeMs, afterMs };
    }
  }

  for (const { plan, minute } of PLANS) {
    test(`8 ${plan} allows ${minute} requests a minute and refuses the next (${store})`, async () => {
      const { answers } = await inOneMinute({ plan }, (key) => askTimes(house, key, minute + 1));
      assert.deepEqual(statuses(answers.slice(0, minute)), Array(minute).fill(200));
      assert.deepEqual(
        answers.slice(0, minute).map((answer) => rateLimitFieldsOf(answer).remaining),
        Array.from({ length: minute }, (_, i) => minute - 1 - i),
      );
      const [last] = answers.slice(-1) as [RawResponse];
      assert.deepEqual([last.status, errorOf(last).code], [429, "rate_limited"]);
      assert.deepEqual(
        [rateLimitFieldsOf(last).limit, rateLimitFieldsOf(last).remaining],
        [minute, 0],
      );
      await house.law();
    });
  }

  test(`8 a day's limit holds beside the minute's (${store})`, async () => {
    const { key } = await house.issue({ limits: { day: 5 } });
    const answers = await askTimes(house, key, 6);
    assert.deepEqual(statuses(answers), [200, 200, 200, 200, 200, 429]);
    const { limit, remaining, reset } = rateLimitFieldsOf(answers[5] as RawResponse);
    const midnight = (Math.floor(nowMs() / DAY_MS) + 1) * (DAY_MS / 1_000);
    assert.deepEqual([limit, remaining, reset], [5, 0, midnight]);
    await house.law();
  });

  test(`8.1 every API response carries the three fields once, refusals included (${store})`, async () => {
    const { answers } = await inOneMinute({ limits: { minute: 4 } }, async (key) => [
      await sendRequest(house.port, { key }),
      await sendRequest(house.port, { key, path: "/v1/pets/999" }),
      await sendRequest(house.port, { key, path: "/v1/none" }),
      await sendRequest(house.port, { key, method: "DELETE" }),
      await sendRequest(house.port, { key }),
    ]);
    assert.deepEqual(statuses(answers), [200, 404, 404, 405, 429]);
    assert.deepEqual(
      answers.map((answer) => rateLimitFieldsOf(answer).remaining),
      [3, 2, 1, 0, 0],
    );
    for (const answer of [
      await sendRequest(house.port),
      await sendRequest(house.port, { path: "/v1/pets/../x" }),
    ]) {
      assert.equal(rateLimitFieldsOf(answer).limit, 60, "of the address's failure allowance");
    }
    await house.law();
  });

  test(`8.2 X-RateLimit-Reset is the Unix timestamp at which the limit resets (${store})`, async () => {
    const { answers, beforeMs } = await inOneMinute({}, (key) => askTimes(house, key, 3));
    assert.deepEqual(
      answers.map((answer) => rateLimitFieldsOf(answer).reset),
      Array(3).fill((minuteOf(beforeMs) + 1) * 60),
    );
  });

  test(`8.3 over the limit: 429 Too Many Requests with Retry-After (${store})`, async () => {
    const limits = { minute: 1 };
    const asked = await inOneMinute({ limits }, (key) => askTimes(house, key, 2));
    const [first, second] = asked.answers as [RawResponse, RawResponse];
    assert.equal(valuesOf(first, "Retry-After").length, 0);
    assert.deepEqual([second.status, second.reason], [429, "Too Many Requests"]);
    const seconds = Number(onlyValue(second, "Retry-After"));
    const { reset } = rateLimitFieldsOf(second);
    const most = reset - asked.beforeMs / 1_000;
    const least = reset - asked.afterMs / 1_000;
    assert.ok(seconds >= least && seconds <= most + 1, `${seconds} for ${least} to ${most}`);
    await house.law();
  });
}

test("8 Free allows 1,000 requests a day, and the next day again", async () => {
  let nowMs = Date.UTC(2026, 5, 1);
  await using house = await startPetsGateway({ now: () => nowMs });
  const { key } = await house.issue();
  let passed = 0;
  for (let minute = 0; minute < 16; minute++) {
    const answers = await askTimes(house, key, 60);
    passed += answers.filter(({ status }) => status === 200).length;
    nowMs += MINUTE_MS;
  }
  assert.equal(passed, 960);
  const answers = await askTimes(house, key, 41);
  assert.deepEqual(statuses(answers), [...Array(40).fill(200), 429]);
  const { limit, reset } = rateLimitFieldsOf(answers[40] as RawResponse);
  assert.deepEqual([limit, reset], [1_000, Date.UTC(2026, 5, 2) / 1_000]);
  await house.law();
  nowMs = Date.UTC(2026, 5, 2) - 1;
  assert.deepEqual(statuses(await askTimes(house, key, 1)), [429]);
  nowMs += 1;
  assert.deepEqual(statuses(await askTimes(house, key, 1)), [200]);
});

for (const { plan, minute, day } of PLANS.slice(1)) {
  test(`8 ${plan} allows ${day} requests a day and refuses the next`, async () => {
    const dayStart = Math.floor(NOON / DAY_MS) * DAY_MS;
    const account = `{"environment":"production","account":"one","day":[${dayStart},${day - 2},0]}`;
    await using house = await startPetsGateway({
      now: () => NOON,
      keys: { [KEY]: { plan, id: "one" } },
      files: { "state.json": `{"version":1,"accounts":[${account}]}` },
    });
    const answers = await askTimes(house, KEY, 3);
    assert.deepEqual(statuses(answers), [200, 200, 429]);
    assert.deepEqual(rateLimitFieldsOf(answers[1] as RawResponse), {
      limit: day,
      remaining: 0,
      reset: (dayStart + DAY_MS) / 1_000,
    });
    assert.ok(minute > 3, "the minute had room");
  });
}

test("8 Enterprise is custom: what was agreed for the key holds, and without it there is no key", async () => {
  await using house = await startPetsGateway({ now: () => NOON });
  const { key } = await house.issue({ plan: "enterprise", limits: { minute: 3, day: 4 } });
  const answers = await askTimes(house, key, 4);
  assert.deepEqual(statuses(answers), [200, 200, 200, 429]);
  const body = JSON.stringify({ environment: "production", plan: "enterprise" });
  const refused = await house.admin("/api/keys", { method: "POST", body });
  assert.equal(refused.status, 400);
  await house.law();
});

test("8.3 a refused request costs nothing: waiting as told is enough", async () => {
  let nowMs = NOON + 500;
  await using house = await startPetsGateway({ now: () => nowMs });
  const { key } = await house.issue({ limits: { minute: 1 } });
  const answers = await askTimes(house, key, 5);
  assert.deepEqual(statuses(answers), [200, 429, 429, 429, 429]);
  const seconds = Number(onlyValue(answers[4] as RawResponse, "Retry-After"));
  nowMs += (seconds - 1) * 1_000;
  assert.deepEqual(statuses(await askTimes(house, key, 1)), [429]);
  nowMs += 1_000;
  assert.deepEqual(statuses(await askTimes(house, key, 1)), [200]);
});

test("8.4 repeated requests after a 429 ban the account for a while; backing off never does", async () => {
  let nowMs = NOON;
  await using house = await startPetsGateway({ now: () => nowMs });
  const limits = { minute: 1 };
  const hasty = await house.issue({ limits });
  const patient = await house.issue({ limits });
  const at = async (key: string, ms: number) => {
    nowMs = NOON + ms;
    const [answer] = (await askTimes(house, key, 1)) as [RawResponse];
    return answer.status === 200 ? "ok" : errorOf(answer).code;
  };
  const codes: string[] = [];
  for (let second = 0; second <= 24; second++) codes.push(await at(hasty.key, second * 1_001));
  assert.equal(codes.indexOf("key_banned"), 21, "the 20th strike is answered with the ban");
  assert.ok(each(codes.slice(21)).every((code) => code === "key_banned"));
  assert.equal(await at(hasty.key, 21 * 1_001 + MINUTE_MS - 1), "key_banned");
  assert.equal(await at(hasty.key, 21 * 1_001 + MINUTE_MS), "ok", "a temporary ban");

  nowMs = NOON + 10 * MINUTE_MS;
  const told: string[] = [];
  for (let minute = 10; minute < 14; minute++) {
    for (const backOff of [0, 100, 1_100, 3_000, 7_000, 15_000, 31_000]) {
      told.push(await at(patient.key, minute * MINUTE_MS + backOff));
    }
  }
  assert.ok(!told.includes("key_banned"), told.join());
});

test("8.5 higher limits come from a plan upgrade, at once and with the count kept", async () => {
  await using house = await startPetsGateway({ now: () => NOON });
  const { key } = await house.issue();
  assert.equal((await askTimes(house, key, 61)).at(-1)?.status, 429);
  const upgraded = { free: { minute: 62, day: 1000 }, pro: { minute: 300, day: 10000 } };
  await house.rewrite({ plans: { ...upgraded, business: { minute: 1 }, enterprise: "custom" } });
  assert.deepEqual(await house.gateway.reload().then(({ ok }) => ok), true);
  assert.deepEqual(statuses(await askTimes(house, key, 3)), [200, 200, 429]);
  await house.law();
});
