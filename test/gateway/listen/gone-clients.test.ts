import assert from "node:assert/strict";
import { once } from "node:events";
import { afterAll, describe, it } from "vitest";
import type { AccessLogEntry } from "../../../src/telemetry/log/access-log-entry.ts";
import { each } from "../../support/each.ts";
import { startTestGateway } from "../../support/gateway/house.ts";
import { eventually } from "../../support/poll.ts";
import { openClient, requestBytes } from "../../support/wire/client.ts";

const house = await startTestGateway();
afterAll(() => house[Symbol.asyncDispose]());
const { key } = await house.issue({ plan: "business" });
const one = requestBytes({ key }).toString("latin1");

describe("a client that is gone is noticed within 50 ms", () => {
  const BEHIND = {
    nothing: "",
    "one byte": "G",
    "a broken head": "GET /v1/pets HTTP/9.9\r\nX Y: z\r\n\r\n",
    "half a head": one.slice(0, 40),
    "forty pipelined requests": one.repeat(40),
  };
  for (const [what, bytes] of Object.entries(BEHIND)) {
    for (const how of ["reset", "end"] as const) {
      it(`with ${what} behind its request, by its ${how}`, async () => {
        const tookMs: number[] = [];
        for (let i = 0; i < 3; i++) {
          let closedAtMs = 0;
          house.backend.answer((_seen, response) => {
            response.once("close", () => {
              closedAtMs = performance.now();
            });
          });
          const seen = house.backend.seen.length;
          const client = await openClient(house.port);
          client.write(one + bytes);
          await eventually(() => assert.equal(house.backend.seen.length, seen + 1));
          await new Promise((resolve) => setTimeout(resolve, 20));
          const goneAtMs = performance.now();
          if (how === "reset") client.socket.resetAndDestroy();
          else client.socket.end();
          await eventually(() => assert.notEqual(closedAtMs, 0), { everyMs: 1 });
          tookMs.push(closedAtMs - goneAtMs);
          client.socket.destroy();
          assert.equal(house.backend.seen.length, seen + 1, "nothing more of it is forwarded");
        }
        // Judged by the best of three: the machine may be busy elsewhere.
        assert.ok(Math.min(...tookMs) < 50, tookMs.join());
      });
    }
  }
});

it("the law holds after all of them", async () => {
  await eventually(() => assert.ok(each(house.lines).every(({ forwards }) => forwards <= 1)));
  await house.law({ connectionsFailed: true });
});

it("a client that ends its side in the turn of its answer has a line with 200 only if a byte came", async () => {
  for (let i = 0; i < 60; i++) {
    const told = house.lines.length;
    const client = await openClient(house.port);
    let bytes = 0;
    client.socket.on("data", (chunk: Buffer) => {
      bytes += chunk.length;
    });
    house.backend.answer((_seen, response) => {
      client.socket.end();
      response.end("[]");
    });
    client.write(one);
    await once(client.socket, "close");
    await eventually(() => assert.equal(house.lines.length, told + 1));
    const { status, why } = house.lines[told] as AccessLogEntry;
    const claim = bytes > 0 ? [200, undefined] : [499, "the client went away"];
    assert.deepEqual([status, why], claim, `try ${i}: ${bytes} bytes`);
  }
});
