import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { startTestGateway } from "../../support/gateway/house.ts";
import { eventually } from "../../support/poll.ts";
import { openClient } from "../../support/wire/client.ts";

describe("a request that fails in a way that nobody foresaw", () => {
  it("is 500 internal_error, told with its cause in the log, and the gateway serves on", async () => {
    let failures = 0;
    const now = () => {
      if (failures === 0) return Date.now();
      failures -= 1;
      throw new Error("the clock is broken");
    };
    await using house = await startTestGateway({ now });
    const { key } = await house.issue();
    failures = 1;
    const answer = await house.ask(key);
    assert.equal(answer.status, 500);
    const body = (await answer.json()) as { code: string };
    assert.equal(body.code, "internal_error");
    assert.ok(!JSON.stringify(body).includes("clock"), "the cause is not the client's");
    const said = house.said.find(({ msg }) => msg === "request_failed");
    assert.match(String(said?.error), /the clock is broken/);
    assert.equal((await house.ask(key)).status, 200);
    await house.law();
  });

  it("again while it is answered loses its connection, and the gateway serves on", async () => {
    let broken = false;
    const now = () => {
      if (broken) throw new Error("the clock is broken");
      return Date.now();
    };
    await using house = await startTestGateway({ now });
    const { key } = await house.issue();
    await using client = await openClient(house.port);
    broken = true;
    client.write(`GET /v1/pets HTTP/1.1\r\nHost: gw.test\r\nAuthorization: Bearer ${key}\r\n\r\n`);
    await client.ended;
    broken = false;
    assert.equal(client.waiting().length, 0);
    await eventually(() => assert.equal(house.lines[0]?.status, 499));
    assert.equal((await house.ask(key)).status, 200);
  });
});
