import assert from "node:assert/strict";
import type { ServerResponse } from "node:http";
import { afterEach, beforeEach, describe, it } from "vitest";
import { jsonOf, runVerb } from "../../cli/kit.ts";
import { each } from "../../support/each.ts";
import { startTestUpstream } from "../../support/gateway/backend.ts";
import { startTestGateway, type TestGateway } from "../../support/gateway/house.ts";
import { KEY, spawnGateway } from "../../support/gateway/served.ts";
import { eventually } from "../../support/poll.ts";
import { errorOf, openClient, sendRequest } from "../../support/wire/client.ts";
import { onlyValue, type RawResponse } from "../../support/wire/response.ts";

/** A month has no edge that a test is likely to meet, and the law looks at the longest window. */
const PLANS = {
  narrow: { minute: 1_000, month: 1_000, concurrent: 3 },
  free: { minute: 1_000, month: 1_000 },
  agreed: { custom: true, concurrent: 2 },
};

describe("the requests that an account may have under way", () => {
  let house: TestGateway;
  let held: ServerResponse[];
  let asked: Promise<RawResponse>[];

  beforeEach(async () => {
    house = await startTestGateway({ config: { plans: PLANS } });
    held = [];
    asked = [];
    house.backend.answer((_seen, response) => void held.push(response));
  });
  afterEach(() => house[Symbol.asyncDispose]());

  /** One more request of the key, which the backend holds. */
  const hold = async (key: string) => {
    const before = held.length;
    asked.push(sendRequest(house.port, { key }));
    await eventually(() => assert.equal(held.length, before + 1));
  };
  const refuses = async (key: string, max: number) => {
    const answer = await sendRequest(house.port, { key });
    assert.deepEqual([answer.status, errorOf(answer).code], [429, "too_concurrent"]);
    assert.equal(onlyValue(answer, "Retry-After"), "1");
    await eventually(() => assert.equal(house.lines.at(-1)?.why, `${max} under way`));
    const { charged, decidedAt, by, strikes } = house.lines.at(-1) as (typeof house.lines)[number];
    assert.deepEqual([charged, decidedAt, by, strikes], [0, undefined, undefined, undefined]);
  };
  const finish = async () => {
    for (const response of held.splice(0)) response.end("[]");
    for (const { status } of each(await Promise.all(asked.splice(0)))) assert.equal(status, 200);
    await house.law();
  };
  /** By a command; resolves when the gateway has read it. */
  const set = async (account: string, ...args: string[]) => {
    const whole = ["accounts", "set", account, ...args, "--json", "--config", house.file];
    const said = await runVerb(whole);
    assert.deepEqual([said.status, said.err], [0, ""]);
    const { limits } = jsonOf<{ limits: Record<string, number> }>(said);
    await eventually(async () => {
      const known = (await (await house.admin(`/api/accounts/${account}`)).json()) as typeof said;
      assert.deepEqual({ ...known }, { ...known, limits });
    });
    return limits;
  };

  it("are its own number where it has one, above or below that of its plan", async () => {
    const more = await house.issue({ plan: "narrow", limits: { concurrent: 4 } });
    const fewer = await house.issue({ plan: "narrow", limits: { concurrent: 1 } });
    const none = await house.issue({ plan: "free", limits: { concurrent: 2 } });
    for (let i = 0; i < 4; i++) await hold(more.key);
    await refuses(more.key, 4);
    await hold(fewer.key);
    await refuses(fewer.key, 1);
    for (let i = 0; i < 2; i++) await hold(none.key);
    await refuses(none.key, 2);
    await finish();
  });

  it("change within a second by a command, while some are under way, and are the plan's again with --no-limits", async () => {
    const { key, account } = await house.issue({ plan: "narrow" });
    for (let i = 0; i < 3; i++) await hold(key);
    await refuses(key, 3);
    assert.deepEqual(await set(account, "--limit", "concurrent=5"), { concurrent: 5 });
    for (let i = 0; i < 2; i++) await hold(key);
    await refuses(key, 5);
    await set(account, "--limit", "concurrent=1");
    await refuses(key, 1);
    await finish();
    await hold(key);
    await refuses(key, 1);
    assert.deepEqual(await set(account, "--no-limits"), {});
    for (let i = 0; i < 2; i++) await hold(key);
    await refuses(key, 3);
    await finish();
  });

  it("are those of a custom plan until the account agrees on another number", async () => {
    const { key, account } = await house.issue({ plan: "agreed", limits: { month: 500 } });
    const { key: own } = await house.issue({
      plan: "agreed",
      limits: { month: 500, concurrent: 1 },
    });
    for (let i = 0; i < 2; i++) await hold(key);
    await refuses(key, 2);
    await hold(own);
    await refuses(own, 1);
    const more = ["--no-limits", "--limit", "concurrent=9", "--config", house.file];
    const alone = await runVerb(["accounts", "set", account, ...more]);
    assert.equal(alone.status, 64, "a custom plan needs a window beside it");
    await finish();
  });

  it("are refused as suspended first, and as too many ahead of their cost and a ban", async () => {
    const { key, account } = await house.issue({ plan: "narrow", limits: { concurrent: 1 } });
    await hold(key);
    const ban = { method: "POST", body: JSON.stringify({ id: account, for: "1h" }) };
    assert.equal((await house.admin("/api/bans", ban)).status, 201);
    await refuses(key, 1);
    const post = { method: "POST", body: "{}" };
    assert.equal((await house.admin(`/api/accounts/${account}/suspend`, post)).status, 200);
    assert.equal(errorOf(await sendRequest(house.port, { key })).code, "account_suspended");
    await finish();
  });
});

describe("a request is under way", () => {
  it("until a client that stopped reading is cut", async () => {
    await using house = await startTestGateway({
      environment: { limits: { idleTimeout: "700ms" } },
      config: { plans: PLANS },
    });
    const long = Buffer.alloc(16_000_000, "x");
    house.backend.answer((_seen, response) => void response.end(long));
    const { key } = await house.issue({ limits: { concurrent: 1 } });
    await using client = await openClient(house.port);
    client.socket.pause();
    client.write(`GET /v1/pets HTTP/1.1\r\nHost: gw.test\r\nAuthorization: Bearer ${key}\r\n\r\n`);
    await eventually(() => assert.equal(house.backend.seen.length, 1));
    assert.equal(errorOf(await sendRequest(house.port, { key })).code, "too_concurrent");
    await eventually(() => assert.ok(house.lines.some(({ status }) => status === 499)), {
      withinMs: 60_000,
    });
    house.backend.answer((_seen, response) => void response.end("[]"));
    for (let i = 0; i < 3; i++) assert.equal((await sendRequest(house.port, { key })).status, 200);
    await house.law();
  });

  it("no longer once its process was killed: the next one starts from none", async () => {
    await using backend = await startTestUpstream();
    const held: ServerResponse[] = [];
    backend.answer((_seen, response) => void held.push(response));
    const options = {
      upstreams: [backend.origin],
      config: { plans: { vectors: { minute: 1_000, month: 1_000, concurrent: 2 } } },
    };
    await using served = await spawnGateway(options);
    const first = [0, 1].map(() => sendRequest(served.port, { key: KEY }).catch(() => "cut"));
    await eventually(() => assert.equal(held.length, 2));
    assert.equal(errorOf(await sendRequest(served.port, { key: KEY })).code, "too_concurrent");
    await served.running.kill();
    assert.deepEqual(await Promise.all(first), ["cut", "cut"]);
    backend.answer((_seen, response) => void response.end("[]"));
    await using again = await spawnGateway({ ...options, directory: served.directory });
    const answers = await Promise.all([0, 1].map(() => sendRequest(again.port, { key: KEY })));
    assert.deepEqual(
      answers.map(({ status }) => status),
      [200, 200],
    );
  });
});
