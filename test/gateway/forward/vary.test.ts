import assert from "node:assert/strict";
import { test } from "vitest";
import { startTestUpstream } from "../../support/gateway/backend.ts";
import { startTestGateway } from "../../support/gateway/house.ts";
import { KEY } from "../../support/gateway/served.ts";
import { sendRequest } from "../../support/wire/client.ts";
import { valuesOf } from "../../support/wire/response.ts";

test("a cache tells keys apart where the backend varies by its consumer, and all other Vary passes unchanged", async () => {
  const theirs = ["X-Consumer-Id", "Accept"];
  const backend = await startTestUpstream((_seen, response) => {
    response.writeHead(200, { Vary: theirs.shift() }).end("[]");
  });
  await using house = await startTestGateway({
    backend,
    config: { keyHeaders: ["authorization", "x-api-key"] },
    keys: { [KEY]: { limits: [{ window: "minute", limit: 3 }] } },
  });
  const consumer = await sendRequest(house.port, { key: KEY });
  assert.deepEqual(valuesOf(consumer, "Vary"), ["X-Consumer-Id, authorization, x-api-key"]);
  const other = await sendRequest(house.port, { fields: [["X-Api-Key", KEY]] });
  assert.equal(other.status, 200);
  assert.deepEqual(valuesOf(other, "Vary"), ["Accept"]);
  await house.law();
});
