import assert from "node:assert/strict";
import { afterAll, test } from "vitest";
import { KEY } from "../support/gateway/served.ts";
import { sendRequest } from "../support/wire/client.ts";
import { lastSeen, lawHolds, namesOf, openAttacked } from "./attacked.ts";

const house = await openAttacked({ config: { trustedProxies: ["127.0.0.1"] } });
afterAll(() => house[Symbol.asyncDispose]());

test("no name with an underscore is ever forwarded, from trusted peers neither", async () => {
  const twins = [
    ...["X_Consumer_Id", "X_Consumer-Plan", "X-Consumer_Id", "x_forwarded_for", "X_Request_Id"],
    ...["Content_Length", "Transfer_Encoding", "_", "__", "_host", "host_", "Authorization_"],
  ];
  const fields = twins.map((name) => [name, "evil"] as const);
  assert.equal((await sendRequest(house.port, { key: KEY, fields })).status, 200);
  const seen = lastSeen(house);
  assert.deepEqual(
    namesOf(seen).filter((name) => name.includes("_")),
    [],
  );
  assert.ok(!JSON.stringify(seen.rawHeaders).includes("evil"));
});

test("a twin is not what it looks like: Content_Length frames no body, Authorization_ is no key", async () => {
  const twin = [["Content_Length", "40"]] as const;
  assert.equal((await sendRequest(house.port, { key: KEY, fields: twin })).status, 200);
  for (const name of ["Authorization_", "_Authorization", "X_Authorization"]) {
    const fields = [[name, `Bearer ${KEY}`]] as const;
    assert.equal((await sendRequest(house.port, { fields })).status, 401);
  }
});

test("the law holds after all of it", () => lawHolds(house));
