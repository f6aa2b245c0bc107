import assert from "node:assert/strict";
import { once } from "node:events";
import { readFile, writeFile } from "node:fs/promises";
import { connect, type Socket } from "node:net";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { test } from "vitest";
import { stringify } from "yaml";
import { each } from "../support/each.ts";
import { startByteUpstream } from "../support/gateway/backend.ts";
import { startTestGateway } from "../support/gateway/house.ts";
import { startTollgate } from "../support/gateway/processes.ts";
import { watchStalls } from "../support/in-time.ts";
import { errorOf, openClient, rateLimitFieldsOf, requestBytes } from "../support/wire/client.ts";
import { type RawResponse, valuesOf } from "../support/wire/response.ts";
import { type UpstreamVector, upstreamVectors } from "../support/wire/vectors.ts";

const GOOD = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood";
const limits = { responseTimeout: "300ms", idleTimeout: "300ms" };
/** The part of the body that the client may see, and the fields; by name. */
const BODY: Readonly<Record<string, string>> = { "204-with-body": "" };

/** A backend that answers each connection's first request with the vector, the others well. */
async function openHostile(vector: UpstreamVector) {
  const reset = { atMs: 0 };
  const backend = await startByteUpstream((socket, connection) => {
    if (connection > 1) {
      socket.write(GOOD);
      return;
    }
    socket.write(vector.bytes, () => {
      if (vector.after === "eof") socket.end();
      if (vector.after !== "rst-80ms") return;
      setTimeout(() => {
        reset.atMs = performance.now();
        socket.resetAndDestroy();
      }, 80);
    });
  });
  const house = await startTestGateway({
    upstream: { origin: backend.origin, seen: backend.received, close: backend.close },
    environment: { limits },
  });
  return { house, backend, reset };
}

for (const vector of each(upstreamVectors().filter(({ after }) => after !== "endless"))) {
  test(`2.2 Bad framing: ${vector.name}: ${vector.why}`, async () => {
    const { house, backend, reset } = await openHostile(vector);
    await using _closed = house;
    const { key } = await house.issue();
    await using client = await openClient(house.port);

    if (vector.expect === "truncate") {
      client.write(requestBytes({ key }));
      const { stalledMs } = await watchStalls(() => client.ended);
      const endedMs = performance.now();
      const text = client.waiting().toString();
      assert.match(text, /^HTTP\/1\.1 200 .*Content-Length: 1000\r\n.*\r\n\r\nhello$/s);
      const tookMs = reset.atMs > 0 ? endedMs - reset.atMs : 0;
      assert.ok(tookMs <= 100 + stalledMs, `${tookMs} ms, ${stalledMs} stalled`);
    } else {
      const answer = await client.ask({ key });
      assert.ok(vector.client_status.includes(answer.status), `${answer.status}`);
      rateLimitFieldsOf(answer);
      assertOutcome(vector, answer);
      if (vector.expect === "reject") assertCode(vector, answer);
    }

    await using next = await openClient(house.port);
    const good = await next.ask({ key });
    assert.deepEqual([good.status, good.body.toString()], [200, "good"]);
    assert.equal(backend.received.length, 2, "the connection was not used again");
    await house.law();
  });
}

function assertCode({ name }: UpstreamVector, answer: RawResponse): void {
  const wanted = name === "no-response-hang" ? "upstream_timeout" : "upstream_invalid";
  assert.equal(errorOf(answer).code, wanted);
}

function assertOutcome({ name, expect }: UpstreamVector, answer: RawResponse): void {
  const text = answer.fields.map(([field]) => field.toLowerCase());
  for (const field of ["x-secret", "proxy-authenticate", "upgrade", "trailer", "set-cookie2"]) {
    assert.ok(!text.includes(field), field);
  }
  assert.ok(!answer.body.toString().includes("evil"));
  if (expect !== "normalise" || answer.status >= 400) return;
  assert.equal(answer.body.toString(), BODY[name] ?? "ok");
  assert.ok(["OK", "No Content"].includes(answer.reason), "the reason phrase is ours");
  if (name === "set-cookie-cache") {
    assert.deepEqual(valuesOf(answer, "Set-Cookie"), ["a=b"]);
    assert.deepEqual(valuesOf(answer, "Cache-Control"), ["public, max-age=600"]);
  }
  if (name === "103-then-200") {
    assert.deepEqual(
      answer.interim.map(({ status }) => status),
      [103],
    );
  }
}

test("2.2 1 GB body: infinite-body: 300 MiB more of an endless body raise the least RSS seen by at most 20 MB", async () => {
  const [vector] = upstreamVectors().filter(({ after }) => after === "endless");
  const backend = await startByteUpstream((socket) => pour(socket, vector as UpstreamVector));
  const house = await startTestGateway({ upstream: { ...backend, seen: backend.received } });
  await using _closed = house;
  const { key } = await house.issue();
  await using child = await startChild(house.directory, backend.origin);
  const serving = await child.line(({ msg }) => msg === "serving");
  const url = (serving.urls as { production: string }).production;
  const port = Number(new URL(url).port);

  const client = connect(port, "127.0.0.1").on("error", () => {});
  client.write(requestBytes({ key }));
  const early = await leastWhileReading(client, child.pid);
  const late = await leastWhileReading(client, child.pid);
  assert.ok(late - early <= 20, `grew from ${early} MB to ${late} MB`);
  client.pause();
  await sleep(300);
  const paused = await rssMb(child.pid);
  await sleep(300);
  const stillMb = (await rssMb(child.pid)) - paused;
  assert.ok(stillMb <= 20, `grew by ${stillMb} MB for a client that does not read`);
  client.destroy();
  await child.line(({ msg, decision }) => msg === "request" && decision === "admitted");
  assert.equal((await child.stop()).code, 0);
});

function pour(socket: Socket, { bytes }: UpstreamVector): void {
  const chunk = Buffer.concat([
    Buffer.from("10000\r\n"),
    Buffer.alloc(65_536),
    Buffer.from("\r\n"),
  ]);
  socket.write(bytes);
  const more = () => {
    while (!socket.destroyed && socket.write(chunk));
  };
  socket.on("drain", more);
  more();
}

async function startChild(directory: string, origin: string) {
  const file = join(directory, "child.yaml");
  const environment = { listen: "127.0.0.1:0", basePath: "/v1", keyTag: "live" };
  const config = {
    stateFile: "./child-state.json",
    keys: "./keys.json",
    environments: { production: { ...environment, upstreams: [origin] } },
    plans: { free: { minute: 60 } },
    admin: "off",
  };
  await writeFile(file, stringify(config));
  return startTollgate(["start", "--config", file]);
}

/**
 * Reads 300 MiB, and gives the least resident memory seen on the way, in MB: what is above it is
 * garbage that was not collected yet, and its height is the collector's choice, not a leak.
 */
async function leastWhileReading(socket: Socket, pid: number): Promise<number> {
  let least = Number.POSITIVE_INFINITY;
  for (let i = 0; i < 30; i++) {
    await read(socket, 10 * 1024 ** 2);
    least = Math.min(least, await rssMb(pid));
  }
  return least;
}

/** Reads so many bytes more, and stops there. */
async function read(socket: Socket, bytes: number): Promise<void> {
  let left = bytes;
  const done = new AbortController();
  const ended = once(socket, "close", { signal: done.signal }).then(() => {
    throw new Error("closed too soon");
  });
  const whole = new Promise<void>((resolve) => {
    const take = (chunk: Buffer) => {
      left -= chunk.length;
      if (left > 0) return;
      socket.off("data", take);
      resolve();
    };
    socket.on("data", take);
  });
  ended.catch(() => {});
  await Promise.race([whole, ended]);
  done.abort();
}

async function rssMb(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, "utf8");
  return Number(/VmRSS:\s+(\d+) kB/.exec(status)?.[1]) / 1_024;
}
