import assert from "node:assert/strict";
import { test } from "vitest";
import { startTestUpstream } from "../support/gateway/backend.ts";
import { KEY, spawnGateway } from "../support/gateway/served.ts";
import { openClient } from "../support/wire/client.ts";

const HEAD = `Host: gw.test\r\nAuthorization: Bearer ${KEY}\r\n`;
const get = (target: string, fields = "") => `GET ${target} HTTP/1.1\r\n${HEAD}${fields}\r\n`;
const fill = (unit: string, length: number) => unit.repeat(Math.floor(length / unit.length));

/** As large as the gateway reads them at all, and as awkward as can be. */
const NASTY: Readonly<Record<string, string>> = {
  "a path of 8 KiB of segments": get(fill("/v1", 8_000)),
  "a path of 16 KiB": get(`/v1/${"a".repeat(16_000)}`),
  "a path of 8 KiB of escapes": get(`/v1/${fill("%c3%a9", 8_000)}`),
  "a path of 8 KiB that breaks at its end": get(`/v1/${fill("%c3%a9", 8_000)}%c3`),
  "a path of dots": get(`/v1/${fill(".a", 8_000)}`),
  "100 fields in 16 KiB": get("/v1/pets", fill(`X-A: ${"b".repeat(150)}\r\n`, 15_700)),
  "5,000 fields": get("/v1/pets", "a:\r\n".repeat(5_000)),
  "a Connection of 5,000 names": get("/v1/pets", `Connection: ${"a,".repeat(5_000)}\r\n`),
  "a Via of 5,000 members": get("/v1/pets", `Via: ${"a,".repeat(5_000)}\r\n`),
  "a tracestate of 5,000 members": get(
    "/v1/pets",
    `traceparent: 00-${"a".repeat(32)}-${"b".repeat(16)}-01\r\ntracestate: ${"a=b,".repeat(3_500)}\r\n`,
  ),
  "an X-Forwarded-For of 1,500 hops": get(
    "/v1/pets",
    `X-Forwarded-For: ${"10.0.0.1,".repeat(1_500)}\r\n`,
  ),
  "a token of 8 KiB": `GET /v1/pets HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${"=".repeat(8_000)}\r\n\r\n`,
  "a token of 8 KiB and blanks": `GET /v1/pets HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer${" ".repeat(8_000)}x\r\n\r\n`,
  "a Host of 8 KiB": `GET /v1/pets HTTP/1.1\r\nHost: ${"a.".repeat(4_000)}\r\n\r\n`,
  "1,000 chunks of a byte": `POST /v1/pets HTTP/1.1\r\n${HEAD}Transfer-Encoding: chunked\r\n\r\n${"1\r\na\r\n".repeat(1_000)}0\r\n\r\n`,
  "100 pipelined requests": get("/v1/pets").repeat(100),
};

test("2.4 Event-loop stall: no single request holds the others up for 50 ms", async (t) => {
  await using backend = await startTestUpstream();
  await using served = await spawnGateway({ upstreams: [backend.origin] });
  await using other = await openClient(served.port);
  const worst: [number, string][] = [];
  for (const [name, bytes] of Object.entries(NASTY)) {
    // The best of a few: what the machine does beside it is not the request's fault.
    let bestMs = Number.POSITIVE_INFINITY;
    for (let i = 0; i < 5 && bestMs > 20; i++) {
      await using client = await openClient(served.port);
      await other.ask();
      client.write(bytes);
      const startMs = performance.now();
      await other.ask();
      bestMs = Math.min(bestMs, performance.now() - startMs);
    }
    worst.push([bestMs, name]);
    assert.ok(bestMs < 50, `${name}: ${bestMs} ms`);
  }
  const [ms, name] = worst.sort(([a], [b]) => b - a)[0] ?? [0, ""];
  t.annotate(`at most ${ms.toFixed(1)} ms: ${name}`);
  assert.deepEqual(
    served.said.filter(({ level }) => level === "error"),
    [],
  );
});
