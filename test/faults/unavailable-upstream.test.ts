import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { startTestUpstream } from "../support/gateway/backend.ts";
import { startTestGateway } from "../support/gateway/house.ts";
import { openClient } from "../support/wire/client.ts";

const CLIENTS = 4;
const REQUESTS = 200;

/** One upstream that answers 503 at once, one that serves; `accounts` keys ask in turn. */
async function askBoth(accounts: number): Promise<{ sick: number; statuses: number[] }> {
  const sick = await startTestUpstream((_seen, response) => void response.writeHead(503).end("no"));
  await using well = await startTestUpstream();
  const seen = { origin: sick.origin, seen: sick.seen, close: sick.close };
  await using house = await startTestGateway({
    backend: sick,
    upstream: seen,
    environment: { upstreams: [sick.origin, well.origin] },
  });
  const keys: string[] = [];
  for (let i = 0; i < accounts; i++) keys.push((await house.issue({ plan: "business" })).key);
  const statuses: number[] = [];
  let left = REQUESTS;
  const work = async () => {
    await using client = await openClient(house.port);
    while (left > 0) {
      left -= 1;
      statuses.push((await client.ask({ key: keys[(left >> 2) % accounts] as string })).status);
    }
  };
  await Promise.all(Array.from({ length: CLIENTS }, work));
  return { sick: sick.seen.length, statuses };
}

describe("an upstream that answers 503 at once", () => {
  it("is out after five of them in a row, where they came to two accounts", async () => {
    const { sick, statuses } = await askBoth(2);
    assert.ok(sick >= 5 && sick <= 5 + 2 * CLIENTS, `${sick} of ${REQUESTS}`);
    assert.equal(statuses.filter((status) => status === 503).length, sick);
    assert.equal(statuses.filter((status) => status === 200).length, REQUESTS - sick);
  });

  it("stays in service for one account alone, whose route may be the reason", async () => {
    const { sick } = await askBoth(1);
    assert.ok(sick > REQUESTS / 4, `${sick} of ${REQUESTS}`);
  });
});
