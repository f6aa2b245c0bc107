import assert from "node:assert/strict";
import { it } from "vitest";
import { startTestGateway } from "../support/gateway/house.ts";
import { openClient, type RequestOptions, requestBytes } from "../support/wire/client.ts";
import { onlyValue, valuesOf } from "../support/wire/response.ts";

const CONFIG = { limits: { drainDelay: "1s" } };
const ENVIRONMENT = { api: null, standing: "/v1/_limits", cors: { origins: ["https://app.test"] } };
const PREFLIGHT = [
  ["Origin", "https://app.test"],
  ["Access-Control-Request-Method", "GET"],
] as const;

it.each<[string, number, RequestOptions]>([
  ["OPTIONS *", 204, { method: "OPTIONS", path: "*" }],
  ["a preflight", 204, { method: "OPTIONS", fields: PREFLIGHT }],
  ["a standing", 200, { path: "/v1/_limits" }],
  ["an OPTIONS that goes no further", 204, { method: "OPTIONS", fields: [["Max-Forwards", "0"]] }],
])(
  "the answer to %s says that its connection closes while the gateway drains",
  async (_what, status, request) => {
    await using house = await startTestGateway({ config: CONFIG, environment: ENVIRONMENT });
    const { key } = await house.issue();
    const keyOf = request.fields === PREFLIGHT ? {} : { key };
    await using client = await openClient(house.port);
    const before = await client.ask({ ...request, ...keyOf });
    assert.deepEqual([before.status, valuesOf(before, "Connection")], [status, []]);
    const stopped = house.gateway.stop();
    const last = await client.ask({ ...request, ...keyOf });
    assert.deepEqual([last.status, onlyValue(last, "Connection")], [status, "close"]);
    assert.equal(await client.ended, "closed");
    await stopped;
  },
);

it("a known refusal does not close the connection of a request that came with it in one write", async () => {
  await using house = await startTestGateway({
    config: { ...CONFIG, plans: { free: { day: 1 } } },
  });
  const { key } = await house.issue();
  await using client = await openClient(house.port);
  const bytes = requestBytes({ key });
  client.write(Buffer.concat([bytes, bytes, bytes]));
  const statuses = (await client.responses(["GET", "GET", "GET"])).map(({ status }) => status);
  assert.deepEqual(statuses, [200, 429, 429]);
  const stopped = house.gateway.stop();
  client.write(Buffer.concat([bytes, bytes]));
  const answers = await client.responses(["GET", "GET"]);
  assert.deepEqual(
    answers.map((answer) => [answer.status, ...valuesOf(answer, "Connection")]),
    [[429], [429, "close"]],
  );
  await stopped;
});

it("a known refusal of a request whose body came with it in one write closes its connection", async () => {
  await using house = await startTestGateway({
    config: { ...CONFIG, plans: { free: { day: 1 } } },
  });
  const { key } = await house.issue();
  const post = { key, method: "POST", body: "hello" };
  await using client = await openClient(house.port);
  client.write(Buffer.concat([requestBytes({ key }), requestBytes({ key })]));
  const before = await client.responses(["GET", "GET"]);
  assert.deepEqual(
    before.map(({ status }) => status),
    [200, 429],
  );
  const stopped = house.gateway.stop();
  client.write(requestBytes(post));
  const [refused] = await client.responses(["POST"]);
  assert.ok(refused);
  assert.deepEqual([refused.status, onlyValue(refused, "Connection")], [429, "close"]);
  await stopped;
});
