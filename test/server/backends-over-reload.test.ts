import assert from "node:assert/strict";
import { createServer } from "node:http";
import { describe, it } from "vitest";
import { startTestGateway, type TestGateway } from "../support/gateway/house.ts";
import { KEY } from "../support/gateway/served.ts";
import { eventually } from "../support/poll.ts";
import { freePort } from "../support/redis/redis.ts";

const CHECK = { healthCheck: { path: "/", every: "1s" } };

/** A gateway whose only backend has no listener. `change` reloads with these keys. */
async function startWithDeadBackend(environment: Readonly<Record<string, unknown>>) {
  const port = await freePort();
  const upstreams = [`http://127.0.0.1:${port}`];
  const base = { listen: "127.0.0.1:0", basePath: "/v1", keyTag: "live", upstreams };
  const production = { ...base, ...environment };
  const house = await startTestGateway({
    keys: { [KEY]: {} },
    config: { environments: { production } },
  });
  const change = async (keys: Readonly<Record<string, unknown>>) => {
    await house.rewrite({ environments: { production: { ...base, ...keys } } });
    const reloaded = await house.gateway.reload();
    assert.ok(reloaded.ok, JSON.stringify(reloaded));
  };
  return { house, port, change, [Symbol.asyncDispose]: () => house[Symbol.asyncDispose]() };
}

const told = ({ said }: TestGateway) => {
  const kinds = said.map(({ kind }) => String(kind));
  return kinds.filter((kind) => kind.startsWith("upstream_"));
};

async function statusOf(house: TestGateway): Promise<number> {
  const response = await house.admin("/readyz/production");
  await response.body?.cancel();
  return response.status;
}

async function answerAt(port: number): Promise<AsyncDisposable> {
  const server = createServer((_request, response) => void response.end("[]"));
  await new Promise<void>((resolve) => server.listen(port, "127.0.0.1", resolve));
  return {
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

async function failFiveTimes(house: TestGateway): Promise<void> {
  for (let i = 0; i < 5; i++) assert.equal((await house.ask(KEY)).status, 502);
}

describe("a backend that is down stays down over a reload of", () => {
  const more = { limits: { upstreamConnections: 7 } };
  const cases = [
    ["its connections, by its checks", CHECK, { ...CHECK, ...more }],
    ["its connections, by its requests", {}, more],
    ["a check that is left out", CHECK, {}],
    ["a check that is new", {}, CHECK],
    ["a check of another path", CHECK, { healthCheck: { path: "/other", every: "1s" } }],
  ] as const;

  it.for(cases)("%s, until it answers", async ([, before, after]) => {
    await using dead = await startWithDeadBackend(before);
    const { house, port, change } = dead;
    assert.equal(await statusOf(house), 200, "one never tried counts as up");
    if (before !== CHECK) await failFiveTimes(house);
    await eventually(() => assert.deepEqual(told(house), ["upstream_down"]));
    assert.equal(await statusOf(house), 503);

    await change(after);
    assert.equal(await statusOf(house), 503);
    assert.equal((await house.ask(KEY)).status, 502, "the last one is tried all the same");

    await using _server = await answerAt(port);
    await eventually(async () => assert.equal(await statusOf(house), 200), { withinMs: 12_000 });
    await eventually(() => assert.deepEqual(told(house), ["upstream_down", "upstream_up"]));
  });
});

it("a backend that a reload takes away and a later one brings back was never tried", async () => {
  await using dead = await startWithDeadBackend({});
  const { house, port, change } = dead;
  await failFiveTimes(house);
  assert.equal(await statusOf(house), 503);
  await change({ upstreams: ["http://127.0.0.1:9"] });
  assert.equal(await statusOf(house), 200);
  await change({ upstreams: [`http://127.0.0.1:${port}`] });
  assert.equal(await statusOf(house), 200);
});
