import assert from "node:assert/strict";
import { it } from "vitest";
import { startTestUpstream } from "../../support/gateway/backend.ts";
import { startTestGateway } from "../../support/gateway/house.ts";
import { freePort } from "../../support/redis/redis.ts";
import { openClient } from "../../support/wire/client.ts";
import type { RawResponse } from "../../support/wire/response.ts";

/** Two environments on one listener: the first has the smaller limits. */
async function openShared() {
  const upstream = await startTestUpstream();
  const shared = { listen: `127.0.0.1:${await freePort()}`, basePath: "/v1" };
  const small = { headerCount: 5, requestTimeout: "600ms", headersTimeout: "600ms" };
  const upstreams = [upstream.origin];
  return startTestGateway({
    backend: upstream,
    config: {
      environments: {
        production: { ...shared, upstreams, keyTag: "live", hosts: ["small.test"], limits: small },
        staging: { ...shared, upstreams, keyTag: "test", hosts: ["large.test"] },
      },
    },
  });
}

function beginUpload(key: string, host: string): string {
  const head = `POST /v1/pets HTTP/1.1\r\nHost: ${host}\r\nAuthorization: Bearer ${key}\r\n`;
  return `${head}Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n`;
}

it.each([
  ["small.test", 431],
  ["large.test", 200],
])("trailers of an environment are measured by its own limits: %s", async (host, status) => {
  await using house = await openShared();
  const environment = host === "small.test" ? "production" : "staging";
  const { key } = await house.issue({ environment });
  await using client = await openClient(house.port);
  client.write(`${beginUpload(key, host)}0\r\nA: 1\r\nB: 2\r\nC: 3\r\n\r\n`);
  const [answer] = (await client.responses(["POST"])) as [RawResponse];
  assert.equal(answer.status, status);
});

it("an upload is late by the requestTimeout of its own environment", async () => {
  await using house = await openShared();
  const large = await house.issue({ environment: "staging" });
  const small = await house.issue();
  await using slow = await openClient(house.port);
  await using late = await openClient(house.port);
  slow.write(beginUpload(large.key, "large.test"));
  late.write(beginUpload(small.key, "small.test"));
  assert.equal((await late.responses(["POST"]))[0]?.status, 408);
  slow.write("0\r\n\r\n");
  assert.equal((await slow.responses(["POST"]))[0]?.status, 200);
});
