import assert from "node:assert/strict";
import { afterAll, describe, it, test } from "vitest";
import { startTestGateway } from "../support/gateway/house.ts";
import { expectDuration } from "../support/in-time.ts";
import { eventually } from "../support/poll.ts";
import { errorOf, openClient, requestBytes } from "../support/wire/client.ts";
import { onlyValue } from "../support/wire/response.ts";

/** The default limits, a few times faster. */
const LIMITS = { headersTimeout: "1500ms", requestTimeout: "3s", idleTimeout: "800ms" };
/** Node looks at heads and whole requests once a second. */
const LOOK_MS = 1_000;
/** The sweep looks at everything else ten times a second. */
const SWEEP_MS = 200;

const house = await startTestGateway({ environment: { api: null, limits: LIMITS } });
afterAll(() => house[Symbol.asyncDispose]());
const { key } = await house.issue({ plan: "business" });
house.backend.answer(async (seen, response, _request, whole) => {
  if (seen.target.endsWith("large")) return void response.end(Buffer.alloc(30_000_000));
  await whole;
  response.end("ok");
});
const uploads = () => house.backend.seen.filter(({ method }) => method === "POST");

describe.concurrent("A client that is slow", () => {
  it("2.3 Slowloris headers: 408 and the end at headersTimeout + 1 s, however the bytes drip", async (t) => {
    await expectDuration(t, { wantedMs: 1_500, lateMs: LOOK_MS + 100 }, async () => {
      await using client = await openClient(house.port);
      client.write("GET /v1/pets HTTP/1.1\r\n");
      const drip = setInterval(() => client.write("X: 1\r\n"), 100);
      const [answer] = await client.responses(["GET"]).finally(() => clearInterval(drip));
      assert.equal(answer?.status, 408);
      assert.equal(answer && errorOf(answer).code, "request_timeout");
      assert.equal(await client.ended, "closed");
    });
  });

  it("2.3 Slowloris headers: a socket with no byte is closed at headersTimeout + 1 s", async (t) => {
    await expectDuration(t, { wantedMs: 1_500, lateMs: LOOK_MS + 100 }, async () => {
      await using client = await openClient(house.port);
      await client.ended;
    });
  });

  it("2.3 Slow body: 408 at requestTimeout though each piece comes in time, and the backend is let go", async (t) => {
    await expectDuration(t, { wantedMs: 3_000, lateMs: LOOK_MS + 100 }, async () => {
      await using client = await openClient(house.port);
      const path = "/v1/dripping";
      client.write(
        requestBytes({ key, method: "POST", path, fields: [["Content-Length", "1000"]] }),
      );
      const drip = setInterval(() => client.write("x"), 100);
      const [answer] = await client.responses(["POST"]).finally(() => clearInterval(drip));
      assert.equal(answer && errorOf(answer).code, "request_timeout");
      assert.equal(onlyValue(answer as never, "Connection"), "close");
    });
    const line = () => house.lines.find(({ path }) => path === "/v1/dripping");
    await eventually(() =>
      assert.equal(line()?.why, "the request was not whole within requestTimeout"),
    );
    const seen = uploads().find(({ target }) => target === "/v1/dripping");
    assert.equal(seen?.complete, false);
  });

  it("2.3 Slow body: 408 at idleTimeout when no piece comes", async (t) => {
    await expectDuration(t, { wantedMs: 800, lateMs: SWEEP_MS }, async () => {
      await using client = await openClient(house.port);
      client.write(requestBytes({ key, method: "POST", fields: [["Content-Length", "10"]] }));
      client.write("x");
      const [answer] = await client.responses(["POST"]);
      assert.equal(answer && errorOf(answer).code, "request_timeout");
    });
  });

  it("2.3 Slow reader: cut after idleTimeout without taking a byte", async (t) => {
    const cut = () => house.lines.filter(({ path }) => path === "/v1/large").length;
    // Bytes that the system takes for a client before it is full count as taken: the clock starts
    // late.
    await expectDuration(t, { wantedMs: 800, lateMs: 1_000 }, async () => {
      const before = cut();
      await using client = await openClient(house.port);
      client.socket.pause();
      client.write(requestBytes({ key, path: "/v1/large" }));
      await eventually(() => cut() > before, { withinMs: 60_000 });
    });
  });
});

test("the law holds after all of it", () => house.law({ connectionsFailed: true }));
