import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { startTestGateway, type TestGateway } from "../../support/gateway/house.ts";
import { ACCOUNT, KEY } from "../../support/gateway/served.ts";
import { eventually } from "../../support/poll.ts";
import { monitorRedis } from "../../support/redis/monitor.ts";
import { useRedis } from "../../support/redis/redis-of-file.ts";
import { sendRequest } from "../../support/wire/client.ts";

const { server, redis } = await useRedis();
const STANDING = "/v1/_limits";
const OLD = Array.from({ length: 10 }, (_, i) => `/v1/old${i}`);
const API = `openapi: 3.1.0
info: { title: t, version: 1.0.0 }
paths:
${OLD.map((_, i) => `  /old${i}: { get: { operationId: old${i}, deprecated: true, responses: {} } }`).join("\n")}
`;

function open(): Promise<TestGateway> {
  return startTestGateway({
    api: "./api.yaml",
    files: { "api.yaml": API },
    keys: { [KEY]: { id: ACCOUNT } },
    environment: { standing: STANDING },
    config: { store: server.url, plans: { free: { month: 1_000 } } },
  });
}

/** Route and requests of each deprecated call that the account is told. */
async function told({ port }: TestGateway): Promise<unknown> {
  const { status, body } = await sendRequest(port, { key: KEY, path: STANDING });
  assert.equal(status, 200);
  const { deprecated } = JSON.parse(body.toString());
  return deprecated?.map((one: Record<string, unknown>) => [one.route, one.requests]);
}

describe("the deprecated calls of a standing", () => {
  it("are told at the first ask, with those at a gateway that the account left", async () => {
    await using one = await open();
    for (const path of ["/v1/old0", "/v1/old3", "/v1/old3"]) await one.ask(KEY, path);
    await one.admin("/api/deprecations");
    await using other = await open();
    await other.ask(KEY, "/v1/old3");
    const all = [
      ["/v1/old0", 1],
      ["/v1/old3", 3],
    ];
    assert.deepEqual(await told(other), all);
    await eventually(async () => assert.deepEqual(await told(one), all));
  });

  it("cost an account that asks without a pause one command a second beside its two", async () => {
    await using house = await open();
    const sentMs: number[] = [];
    using _monitor = await monitorRedis(server.port, ({ seconds, args, source }) => {
      if (source !== "lua" && args.some((one) => one.includes(ACCOUNT))) {
        sentMs.push(1_000 * seconds);
      }
    });
    const startMs = performance.now();
    while (performance.now() < startMs + 2_100) await told(house);
    assert.ok(sentMs.length >= 6, `${sentMs.length} commands`);
    for (const [i, ms] of sentMs.entries()) {
      const fourth = sentMs[i + 3] ?? Number.POSITIVE_INFINITY;
      assert.ok(fourth - ms >= 900, `four commands in ${fourth - ms} ms`);
    }
  });

  it("are left out if the store does not tell them", async () => {
    await using house = await open();
    await house.ask(KEY, "/v1/old0");
    await redis.set("tg:{0}:calls production GET /v1/old5", "damage");
    assert.equal(await told(house), undefined);
    await redis.del("tg:{0}:calls production GET /v1/old5");
    await eventually(async () => assert.deepEqual(await told(house), [["/v1/old0", 1]]));
  });
});
