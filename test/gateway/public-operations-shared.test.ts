import assert from "node:assert/strict";
import { test } from "vitest";
import { startTestGateway, type TestGateway } from "../support/gateway/house.ts";
import { eventually } from "../support/poll.ts";
import { useRedis } from "../support/redis/redis-of-file.ts";
import {
  awayFromHourEdge,
  errorOf,
  rateLimitFieldsOf,
  sendRequest,
} from "../support/wire/client.ts";

const { server, redis } = await useRedis();

const API = `openapi: 3.1.0
info: { title: t, version: 1.0.0 }
paths: { /status: { get: { operationId: status, security: [], responses: {} } } }
`;
const LIMIT = 40;

function open(): Promise<TestGateway> {
  return startTestGateway({
    api: "./api.yaml",
    files: { "api.yaml": API },
    environment: { public: "open" },
    config: {
      store: server.url,
      plans: { free: { minute: 60 }, open: { hour: LIMIT } },
      trustedProxies: ["127.0.0.1"],
    },
  });
}

test("an address is admitted its limit over four gateways, not once more, and the store says so", async () => {
  const houses = await Promise.all([open(), open(), open(), open()]);
  await using stack = new AsyncDisposableStack();
  for (const house of houses) stack.use(house);
  for (const house of houses) await eventually(async () => (await house.admin("/readyz")).ok);
  const clients = ["192.0.2.1", "2001:db8::1"];
  await awayFromHourEdge();
  const asks = clients.flatMap((client) =>
    Array.from({ length: 2 * LIMIT }, async (_, i) => {
      const { port } = houses[i % houses.length] as TestGateway;
      const answer = await sendRequest(port, {
        path: "/v1/status",
        fields: [["X-Forwarded-For", client]],
      });
      if (answer.status !== 200) assert.equal(errorOf(answer).code, "rate_limited");
      assert.equal(rateLimitFieldsOf(answer).limit, LIMIT);
      return { client, isAdmitted: answer.status === 200 };
    }),
  );
  const answers = await Promise.all(asks);
  for (const client of clients) {
    const admitted = answers.filter((one) => one.client === client && one.isAdmitted).length;
    assert.equal(admitted, LIMIT, client);
  }
  const seen = houses.reduce((sum, house) => sum + house.backend.seen.length, 0);
  assert.equal(seen, clients.length * LIMIT);
  const keys = (await redis.keys("tg:*addr:*")).map((key) => key.replace(/^.*?addr:/, ""));
  assert.deepEqual(keys.sort(), ["192.0.2.1", "2001:db8:0:0::/64"]);
});
