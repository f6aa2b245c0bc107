import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { runVerb } from "../../cli/kit.ts";
import { each } from "../../support/each.ts";
import { startTestUpstream } from "../../support/gateway/backend.ts";
import { startTestGateway, type TestGateway } from "../../support/gateway/house.ts";
import { ACCOUNT, KEY } from "../../support/gateway/served.ts";
import { eventually } from "../../support/poll.ts";
import { useRedis } from "../../support/redis/redis-of-file.ts";
import { errorOf, sendRequest } from "../../support/wire/client.ts";

const { server } = await useRedis();
const HOLD = 50;
const tokens = { hold: HOLD, max: HOLD, used: ["header x-used"] };

/** A gateway whose backend answers when it is told to, and each `/v1/now` at once. */
async function openMetered(store: string) {
  const waiting: (() => void)[] = [];
  const backend = await startTestUpstream();
  backend.answer(({ target }, response) => {
    const end = () => void response.writeHead(200, { "X-Used": HOLD }).end("{}");
    if (target === "/v1/now") end();
    else waiting.push(end);
  });
  const house = await startTestGateway({
    backend,
    environment: { api: null, costs: [{ match: "POST /v1/{any}", meters: { tokens } }] },
    config: { store, plans: { free: { minute: 1_000, meters: { tokens: { month: 2 * HOLD } } } } },
    keys: { [KEY]: { id: ACCOUNT } },
  });
  const send = (path: string) => {
    return sendRequest(house.port, { key: KEY, method: "POST", path, body: "{}" });
  };
  const code = async () => errorOf(await send("/v1/now")).code;
  return { house, waiting, send, code, [Symbol.asyncDispose]: () => house[Symbol.asyncDispose]() };
}

const byAdmin = async (house: TestGateway, windows: readonly string[] | undefined) => {
  const body = JSON.stringify({ windows });
  const { status } = await house.admin(`/api/accounts/${ACCOUNT}/reset`, { method: "POST", body });
  assert.equal(status, 200);
};
const byCommand = async ({ file }: TestGateway, windows: readonly string[] = []) => {
  const named = windows.flatMap((window) => ["--window", window]);
  const said = await runVerb(["accounts", "reset", ACCOUNT, ...named, "--config", file]);
  assert.equal(said.status, 0, said.err);
};

describe("what requests under way held before a reset", () => {
  it.for([
    ["of the memory store", "memory", "one", byAdmin],
    ["at this gateway", "redis", "one", byAdmin],
    ["at another gateway", "redis", "other", byAdmin],
    ["by a command in Redis", "redis", "one", byCommand],
  ] as const)("makes no 429 meter_held any more: a reset %s", async ([, kind, where, reset]) => {
    const store = kind === "redis" ? server.url : kind;
    await using one = await openMetered(store);
    await using other = await openMetered(store);
    const { house } = where === "one" ? one : other;
    const running = [one.send("/v1/slow"), one.send("/v1/slow")];
    await eventually(() => assert.equal(one.waiting.length, 2));
    assert.equal(await one.code(), "meter_held");
    await reset(house, ["minute"]);
    assert.equal(await one.code(), "meter_held", "the meter was not reset");
    await reset(house, undefined);
    await eventually(async () => assert.equal((await one.send("/v1/now")).status, 200));
    running.push(one.send("/v1/slow"));
    await eventually(() => assert.equal(one.waiting.length, 3));
    assert.equal(await one.code(), "meter_held", "by a request of after the reset");
    one.waiting.pop()?.();
    await running.pop();
    assert.equal(await one.code(), "rate_limited", "nothing that was erased can return");
    for (const end of one.waiting) end();
    for (const { status } of each(await Promise.all(running))) assert.equal(status, 200);
    assert.equal(await one.code(), "rate_limited", "nothing of it has returned");
  });
});
