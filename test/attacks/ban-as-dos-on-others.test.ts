import assert from "node:assert/strict";
import { afterAll, test } from "vitest";
import { makeKey } from "../../src/core/keys/key.ts";
import { startTestGateway } from "../support/gateway/house.ts";
import { openClient, sendRequest } from "../support/wire/client.ts";

const BANS = {
  strikes: 2,
  within: "1m",
  grace: "1ms",
  duration: "1m",
  factor: 4,
  max: "1h",
  forgetAfter: "1h",
};
const house = await startTestGateway({
  config: {
    bans: BANS,
    plans: { free: { day: 50 }, enterprise: "custom" },
    unauthenticated: { minute: 5 },
  },
});
afterAll(() => house[Symbol.asyncDispose]());

test("a flood of 401s with somebody's key id, account or half a key does nothing to them", async () => {
  const victim = await house.issue();
  const near = `${victim.key.slice(0, -1)}${victim.key.endsWith("0") ? "1" : "0"}`;
  const guesses = [
    victim.id,
    victim.account,
    near,
    victim.key.slice(0, -1),
    makeKey("pets", "live", () => 0),
  ];
  for (let i = 0; i < 200; i++) {
    const answer = await sendRequest(house.port, {
      key: (guesses[i % guesses.length] as string).padEnd(20, "a"),
    });
    assert.equal(answer.status, 401);
  }
  const usage = await (await house.admin(`/api/usage/${victim.account}`)).json();
  const { strikes, ban, windows } = usage as {
    strikes: number;
    ban: unknown;
    windows: { used: number }[];
  };
  assert.deepEqual([strikes, ban ?? undefined, windows.at(-1)?.used], [0, undefined, 0]);
  assert.equal((await sendRequest(house.port, { key: victim.key })).status, 200);
});

test("a banned neighbour on the same connection and address is refused alone", async () => {
  const [bad, good] = [await house.issue(), await house.issue()];
  await using client = await openClient(house.port);
  let code = "";
  for (let i = 0; i < 500 && code !== "key_banned"; i++) {
    const { status, body } = await client.ask({ key: bad.key });
    code = status === 200 ? "" : (JSON.parse(body.toString()) as { code: string }).code;
  }
  assert.equal(code, "key_banned");
  assert.equal((await client.ask({ key: good.key })).status, 200);
  await house.law();
});

test("requests that cost nothing, refused before the key, are never strikes", async () => {
  const { key, account } = await house.issue();
  for (let i = 0; i < 50; i++)
    assert.equal((await sendRequest(house.port, { key, path: "/v1/../a" })).status, 400);
  const usage = (await (await house.admin(`/api/usage/${account}`)).json()) as { strikes: number };
  assert.equal(usage.strikes, 0);
  await house.law();
});
