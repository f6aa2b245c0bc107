import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { startTestGateway, type TestGateway } from "../../support/gateway/house.ts";
import { ACCOUNT, KEY } from "../../support/gateway/served.ts";
import { eventually } from "../../support/poll.ts";
import { useProxiedRedis } from "../../support/redis/redis-of-file.ts";
import { rateLimitFieldsOf, sendRequest, standardItems } from "../../support/wire/client.ts";
import { onlyValue } from "../../support/wire/response.ts";

const { server, proxy } = await useProxiedRedis();
const STANDING = "/v1/_limits";
const METERED = "/v1/chat";
const API = `openapi: 3.1.0
info: { title: t, version: 1.0.0 }
paths:
  /pets:
    get: { operationId: list, responses: {} }
  /chat:
    get: { operationId: chat, x-meters: { tokens: { hold: 1, max: 1, used: [header x-used] } }, responses: {} }
`;

function open(config: Readonly<Record<string, unknown>>): Promise<TestGateway> {
  return startTestGateway({
    api: "./api.yaml",
    files: { "api.yaml": API },
    keys: { [KEY]: { id: ACCOUNT } },
    environment: { standing: STANDING },
    // No month ends in the middle of a test.
    config: { plans: { free: { month: 10 } }, bans: "off", rateLimitFields: "ietf", ...config },
  });
}

/** The status of an answer, and what both kinds of fields say is left. */
async function left({ port }: TestGateway, path = "/v1/pets") {
  const answer = await sendRequest(port, { key: KEY, path });
  const { limit, remaining } = rateLimitFieldsOf(answer);
  assert.equal(standardItems(answer, "RateLimit").get("month")?.r, remaining);
  return [answer.status, `${remaining} of ${limit}`] as const;
}

describe("an answer without a decision", () => {
  it("never tells more room than the standing that the gateway has just told", async () => {
    await using here = await open({ store: server.url });
    await using there = await open({ store: server.url });
    assert.deepEqual(await left(here), [200, "9 of 10"]);
    for (let i = 0; i < 5; i++) await left(there);
    assert.deepEqual(await left(here, STANDING), [200, "4 of 10"]);
    assert.deepEqual(await left(here, METERED), [403, "4 of 10"]);
    assert.deepEqual(await left(there), [200, "3 of 10"]);
    assert.deepEqual(await left(here, STANDING), [200, "3 of 10"]);
    assert.deepEqual(await left(here, METERED), [403, "3 of 10"]);
    assert.deepEqual(await left(here), [200, "2 of 10"]);
  });
});

describe("a standing that is asked for more often than the store is", () => {
  for (const store of ["memory", server.url]) {
    it(`has the fields of what was answered since (${store.slice(0, 6)})`, async () => {
      await using house = await open({ store });
      await left(house);
      for (let i = 0; i < 2; i++) assert.deepEqual(await left(house, STANDING), [200, "9 of 10"]);
      await left(house);
      assert.deepEqual(await left(house, STANDING), [200, "8 of 10"]);
      for (let i = 0; i < 8; i++) await left(house);
      assert.deepEqual(await left(house), [429, "0 of 10"]);
      assert.deepEqual(await left(house, STANDING), [200, "0 of 10"]);
      await house.law();
    });
  }
});

it("a standing tells in its fields the limit that its body has, right after an answer came late", async () => {
  const store = `redis://127.0.0.1:${proxy.port}`;
  const timed = { onStoreFailure: "local", expectedGateways: 2, storeTimeout: "100ms" };
  await using house = await open({ store, ...timed });
  for (let i = 0; i < 5; i++) await left(house);
  proxy.behave({ answerLatencyMs: 300 });
  const [, late] = await left(house);
  proxy.behave({});
  assert.match(late, / of 3$/, "the answer was not late");
  const answer = await sendRequest(house.port, { key: KEY, path: STANDING });
  const { windows } = JSON.parse(answer.body.toString()) as { windows: { limit: number }[] };
  assert.equal(windows[0]?.limit, 10);
  const { limit, remaining } = rateLimitFieldsOf(answer);
  assert.deepEqual([limit, remaining], [10, 4]);
  assert.equal(standardItems(answer, "RateLimit").get("month")?.r, 4);
});

describe("while the store is unreachable, an answer without a decision", () => {
  const ask = async (house: TestGateway, paths: readonly string[]) => {
    const answers = [];
    for (const path of paths) answers.push(await left(house, path));
    return answers;
  };
  const openAway = async (
    onStoreFailure: string,
    bans: unknown = "off",
    prepare = async (_house: TestGateway) => {},
  ) => {
    const store = `redis://127.0.0.1:${proxy.port}`;
    const house = await open({ store, onStoreFailure, expectedGateways: 2, bans });
    for (let i = 0; i < 7; i++) await left(house);
    await prepare(house);
    await proxy.refuse();
    await eventually(() => house.said.some(({ kind }) => kind === "store_away"), {
      withinMs: 10_000,
    });
    return house;
  };

  it("tells the share as the limit, less what was admitted from it, and takes nothing", async () => {
    await using house = await openAway("local");
    assert.deepEqual(await ask(house, [METERED, STANDING, "/v1/pets", METERED, STANDING]), [
      [403, "2 of 2"],
      [503, "2 of 2"],
      [200, "1 of 2"],
      [403, "1 of 2"],
      [503, "1 of 2"],
    ]);
    assert.deepEqual(await ask(house, ["/v1/pets", "/v1/pets", METERED, STANDING]), [
      [200, "0 of 2"],
      [503, "0 of 2"],
      [403, "0 of 2"],
      [503, "0 of 2"],
    ]);
  });

  it("tells the share as the limit once a reload has turned bans off, and before it the ban", async () => {
    await using house = await openAway("local", {}, async (banning) => {
      const body = JSON.stringify({ id: ACCOUNT, for: "1h" });
      assert.equal((await banning.admin("/api/bans", { method: "POST", body })).status, 201);
    });
    const banned = await sendRequest(house.port, { key: KEY, path: METERED });
    assert.equal(onlyValue(banned, "X-RateLimit-Window"), "ban");
    await house.rewrite({ bans: "off" });
    assert.ok((await house.gateway.reload()).ok);
    assert.deepEqual(await ask(house, [METERED, "/v1/pets", METERED]), [
      [403, "2 of 2"],
      [200, "1 of 2"],
      [403, "1 of 2"],
    ]);
  });

  it("tells what was admitted with onStoreFailure: allow", async () => {
    await using house = await openAway("allow");
    assert.deepEqual(await ask(house, [METERED, "/v1/pets", METERED, STANDING]), [
      [403, "3 of 10"],
      [200, "2 of 10"],
      [403, "2 of 10"],
      [503, "2 of 10"],
    ]);
    assert.deepEqual(await ask(house, ["/v1/pets", "/v1/pets", "/v1/pets", METERED]), [
      [200, "1 of 10"],
      [200, "0 of 10"],
      [200, "0 of 10"],
      [403, "0 of 10"],
    ]);
  });

  it("tells with onStoreFailure: deny what was last known", async () => {
    await using house = await openAway("deny");
    assert.deepEqual(await ask(house, [METERED, "/v1/pets", STANDING]), [
      [403, "3 of 10"],
      [503, "3 of 10"],
      [503, "3 of 10"],
    ]);
  });
});
