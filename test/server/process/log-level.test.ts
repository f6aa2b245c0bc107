import assert from "node:assert/strict";
import { it } from "vitest";
import { startTestGateway } from "../../support/gateway/house.ts";
import { KEY } from "../../support/gateway/served.ts";
import { eventually } from "../../support/poll.ts";

it("a reload changes the level of the log, for the requests that come after it", async () => {
  await using house = await startTestGateway({ keys: { [KEY]: {} } });
  const asked: string[] = [];
  for (const level of ["info", "warn", "info"]) {
    await house.rewrite({ log: { level } });
    assert.equal((await house.admin("/api/reload", { method: "POST", body: "{}" })).status, 200);
    asked.push((await house.ask(KEY)).headers.get("x-request-id") ?? assert.fail("no id"));
  }
  await eventually(() => assert.equal(house.lines.at(-1)?.id, asked[2]));
  assert.deepEqual(
    house.lines.map(({ id }) => id),
    [asked[0], asked[2]],
  );
});
