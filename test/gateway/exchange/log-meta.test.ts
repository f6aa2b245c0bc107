import assert from "node:assert/strict";
import { test } from "vitest";
import { startTestGateway } from "../../support/gateway/house.ts";
import { eventually } from "../../support/poll.ts";
import { sendRequest } from "../../support/wire/client.ts";

test("log.meta: the line of a request tells the metadata that it names, and no other", async () => {
  const config = { log: { level: "info", meta: ["tenant", "region", "constructor"] } };
  await using house = await startTestGateway({ config });
  const told = await house.issue({ meta: { tenant: '4"2', secret: "x" } });
  const other = await house.issue({ meta: { secret: "x" } });
  for (const { key } of [told, other]) await sendRequest(house.port, { key });
  await sendRequest(house.port, { path: "/v1/nothing" });
  await eventually(() => assert.equal(house.lines.length, 3));
  const metas = house.lines.map(({ account, meta }) => [account, meta]);
  assert.deepEqual(metas, [
    [told.account, { tenant: '4"2' }],
    [other.account, undefined],
    [undefined, undefined],
  ]);

  await house.rewrite({ ...config, log: { level: "info" } });
  assert.equal((await house.admin("/api/reload", { method: "POST", body: "{}" })).status, 200);
  await sendRequest(house.port, { key: told.key });
  await eventually(() => assert.equal(house.lines.length, 4));
  assert.equal(house.lines[3]?.meta, undefined);
});
