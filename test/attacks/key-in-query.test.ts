import assert from "node:assert/strict";
import { afterAll, test } from "vitest";
import { KEY } from "../support/gateway/served.ts";
import { eventually } from "../support/poll.ts";
import { errorOf, sendRequest } from "../support/wire/client.ts";
import { lastSeen, lawHolds, openAttacked } from "./attacked.ts";

const house = await openAttacked();
afterAll(() => house[Symbol.asyncDispose]());

test("a key in the query is no key: 401, and no part of it is in the log", async () => {
  for (const name of ["api_key", "access_token", "key", "token", "apikey", "Authorization"]) {
    for (const value of [KEY, `Bearer%20${KEY}`]) {
      const answer = await sendRequest(house.port, { path: `/v1/pets?${name}=${value}` });
      assert.equal(errorOf(answer).code, "key_missing");
    }
  }
  await eventually(() => assert.equal(house.lines.length, 12));
  const text = JSON.stringify([house.lines, house.said]);
  assert.ok(!text.includes(KEY.slice(10)) && !text.includes("?"));
});

test("nor in a form body, a cookie, the user part of the target, or another scheme", async () => {
  const form = { method: "POST", body: `access_token=${KEY}` };
  const basic = Buffer.from(`${KEY}:`).toString("base64");
  assert.equal((await sendRequest(house.port, form)).status, 401);
  assert.equal((await sendRequest(house.port, { fields: [["Cookie", `key=${KEY}`]] })).status, 401);
  assert.equal(
    (await sendRequest(house.port, { fields: [["Authorization", `Basic ${basic}`]] })).status,
    401,
  );
  assert.equal(
    (await sendRequest(house.port, { path: `http://${KEY}@gw.test/v1/pets` })).status,
    400,
  );
});

test("beside a good key the query goes on as it came: it is the backend's", async () => {
  const path = `/v1/pets?access_token=${KEY}`;
  assert.equal((await sendRequest(house.port, { key: KEY, path })).status, 200);
  assert.equal(lastSeen(house).target, path);
  await eventually(() => assert.equal(house.lines.at(-1)?.path, "/v1/pets"));
  assert.ok(!JSON.stringify(house.lines).includes(KEY));
});

test("the law holds after all of it", () => lawHolds(house));
