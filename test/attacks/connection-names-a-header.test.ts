import assert from "node:assert/strict";
import { afterAll, test } from "vitest";
import { ACCOUNT, KEY } from "../support/gateway/served.ts";
import { sendRequest } from "../support/wire/client.ts";
import { fieldOf, lastSeen, lawHolds, namesOf, openAttacked } from "./attacked.ts";

const house = await openAttacked();
afterAll(() => house[Symbol.asyncDispose]());

const OURS: Readonly<Record<string, RegExp>> = {
  "x-consumer-id": new RegExp(`^${ACCOUNT}$`),
  "x-consumer-plan": /^enterprise$/,
  "x-request-id": /^[0-9a-f-]{36}$/,
  "x-forwarded-for": /^127\.0\.0\.1$/,
  "x-forwarded-proto": /^http$/,
  "x-forwarded-host": /^gw\.test$/,
  via: /^1\.1 tollgate$/,
  host: /./,
};

for (const name of Object.keys(OURS)) {
  for (const value of [name, name.toUpperCase(), `close, ${name}`, `,,${name} ,`]) {
    test(`Connection: ${value} removes nothing of ours`, async () => {
      const fields = [["Connection", value]] as const;
      assert.equal((await sendRequest(house.port, { key: KEY, fields })).status, 200);
      for (const [each, wanted] of Object.entries(OURS)) {
        const values = fieldOf(lastSeen(house), each);
        assert.equal(values.length, 1, each);
        assert.match(values[0] ?? "", wanted);
      }
    });
  }
}

test("Connection: Authorization is still a key: it is judged on what came", async () => {
  const fields = [["Connection", "Authorization"]] as const;
  assert.equal((await sendRequest(house.port, { key: KEY, fields })).status, 200);
  assert.equal((await sendRequest(house.port, { fields })).status, 401);
});

test("Connection names Content-Length or Transfer-Encoding: the body is framed all the same", async () => {
  for (const name of ["Content-Length", "Transfer-Encoding", "Content-Type"]) {
    const fields = [["Connection", name]] as const;
    assert.equal(
      (await sendRequest(house.port, { key: KEY, method: "POST", body: "{}", fields })).status,
      200,
    );
    assert.equal(lastSeen(house).body.toString(), "{}");
  }
});

test("what Connection names is dropped in any case and place, and Connection itself", async () => {
  const fields = [
    ["X-A", "1"],
    ["Connection", "x-a"],
    ["X-B", "2"],
    ["connection", "X-C , x-B"],
    ["x-c", "3"],
    ["X-D", "4"],
  ] as const;
  assert.equal((await sendRequest(house.port, { key: KEY, fields })).status, 200);
  const names = namesOf(lastSeen(house));
  for (const name of ["x-a", "x-b", "x-c"]) assert.ok(!names.includes(name), name);
  assert.ok(names.includes("x-d"));
  assert.ok(!fieldOf(lastSeen(house), "connection").join().includes("x-"));
});

test("the law holds after all of it", () => lawHolds(house));
