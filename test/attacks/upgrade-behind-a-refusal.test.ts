import assert from "node:assert/strict";
import { afterAll, test } from "vitest";
import { startTestGateway } from "../support/gateway/house.ts";
import { KEY } from "../support/gateway/served.ts";
import { openClient, requestBytes, sendRequest } from "../support/wire/client.ts";

const house = await startTestGateway({ keys: { [KEY]: { plan: "business", id: "vectors" } } });
afterAll(() => house[Symbol.asyncDispose]());

const UPGRADE = [
  ["Connection", "Upgrade"],
  ["Upgrade", "websocket"],
  ["Sec-WebSocket-Version", "13"],
  ["Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="],
] as const;

/** Each answer ends its connection; Node would hand the upgrade behind it over all the same. */
const LAST: Readonly<Record<string, Buffer>> = {
  "a refused framing": requestBytes({ key: KEY, method: "GET", body: "{}" }),
  "an announced close": requestBytes({ key: KEY, fields: [["Connection", "close"]] }),
  "HTTP/1.0": requestBytes({ key: KEY, version: "1.0" }),
  "a refused target": requestBytes({ key: KEY, path: "/v1/../a" }),
};

for (const [name, first] of Object.entries(LAST)) {
  for (const between of [0, 1, 2]) {
    test(`an upgrade behind ${name}, ${between} requests between: neither answered nor fatal`, async () => {
      const plain = requestBytes({ key: KEY });
      const upgrade = requestBytes({ key: KEY, fields: UPGRADE });
      await using client = await openClient(house.port);
      client.write(Buffer.concat([first, ...Array<Buffer>(between).fill(plain), upgrade]));
      const [answer] = await client.responses(["GET"]);
      assert.ok(answer !== undefined);
      await client.ended;
      assert.equal(client.waiting().length, 0, "one answer, and then the end");
      assert.equal((await sendRequest(house.port, { key: KEY })).status, 200);
    });
  }
}

test("the law holds after all of it, and nothing was unexpected", async () => {
  await house.law();
  assert.deepEqual(
    house.said.filter(({ level }) => level === "error"),
    [],
  );
});
