import assert from "node:assert/strict";
import { it } from "vitest";
import { openHouse } from "../../support/gateway/house.ts";
import { eventually } from "../../support/poll.ts";
import { openClient } from "../../support/wire/client.ts";

const REQUESTS = 2_000;
const BODY = Buffer.alloc(16_000, "x");

it("a client that takes nothing of answers that are all written is cut after idleTimeout", async () => {
  const environment = { limits: { idleTimeout: "700ms" } };
  await using house = await openHouse({
    environment,
    config: { plans: { free: { month: 1_000_000 } } },
  });
  house.backend.answer((_seen, response) => void response.end(BODY));
  const { key } = await house.issue();
  await using client = await openClient(house.port);
  client.socket.pause();
  const one = `GET /v1/pets HTTP/1.1\r\nHost: gw.test\r\nAuthorization: Bearer ${key}\r\n\r\n`;
  client.write(one.repeat(REQUESTS));
  await eventually(
    () => {
      const cut = house.lines.find(({ why }) => why === "the client took no byte of the response");
      assert.equal(cut?.source, "backend");
    },
    { withinMs: 20_000 },
  );
  assert.ok(house.lines.length < REQUESTS, "what came behind it is nobody's request any more");
  await house.law({ connectionsFailed: true });
});
