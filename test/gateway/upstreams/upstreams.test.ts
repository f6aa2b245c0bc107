import assert from "node:assert/strict";
import { describe, it } from "vitest";
import type {
  UpstreamConnection,
  UpstreamPoolOptions,
} from "../../../src/gateway/upstreams/upstream.ts";
import { UpstreamPool } from "../../../src/gateway/upstreams/upstream-pool.ts";
import { startTestUpstream, type TestUpstream } from "../../support/gateway/backend.ts";
import { eventually } from "../../support/poll.ts";

/** On a clock that the test moves; sockets are real. */
function poolOf(origins: readonly string[], more: Partial<UpstreamPoolOptions> = {}) {
  const clock = { ms: 0 };
  const upstreams = new UpstreamPool({
    origins,
    connectionsMax: 4,
    connectTimeoutMs: 2_000,
    headerBytesMax: 16_384,
    ca: undefined,
    serverName: undefined,
    healthCheck: undefined,
    elapsed: () => clock.ms,
    ...more,
  });
  return { upstreams, clock, [Symbol.asyncDispose]: async () => upstreams.close() };
}

function take(upstreams: UpstreamPool): UpstreamConnection {
  let taken: UpstreamConnection | undefined;
  upstreams.take("acme", (connection) => {
    taken = connection;
  });
  assert.ok(taken);
  return taken;
}

/** Failures that the pool hears of one backend, on whatever connection. */
function fail(upstreams: UpstreamPool, origin: string, times: number): void {
  const upstream = upstreams.all.find((one) => one.origin === origin);
  assert.ok(upstream);
  for (let i = 0; i < times; i++) upstreams.failed({ upstream });
}

function originsOf(upstreams: UpstreamPool, count: number): string[] {
  const connections = Array.from({ length: count }, () => take(upstreams));
  for (const connection of connections) upstreams.release(connection);
  return connections.map(({ upstream }) => upstream.origin);
}

const A = "http://127.0.0.1:1";
const B = "http://127.0.0.1:2";

describe("several upstreams", () => {
  it("share requests by how many are pending", async () => {
    await using pool = poolOf([A, B]);
    const [one, two, three] = [take(pool.upstreams), take(pool.upstreams), take(pool.upstreams)];
    assert.deepEqual(
      [one, two, three].map((connection) => connection?.upstream.origin),
      [A, B, A],
    );
    pool.upstreams.release(one as UpstreamConnection);
    pool.upstreams.release(three as UpstreamConnection);
    assert.equal(take(pool.upstreams).upstream.origin, A);
  });

  it("are taken out by five failures in a row, and not by four, nor by five with a success among them", async () => {
    await using pool = poolOf([A, B]);
    fail(pool.upstreams, A, 4);
    assert.deepEqual(originsOf(pool.upstreams, 2), [A, B]);
    const [a] = pool.upstreams.all;
    assert.ok(a);
    pool.upstreams.succeeded({ upstream: a });
    fail(pool.upstreams, A, 4);
    assert.deepEqual(originsOf(pool.upstreams, 2), [A, B]);
    fail(pool.upstreams, A, 1);
    assert.deepEqual(originsOf(pool.upstreams, 2), [B, B]);
    assert.deepEqual(pool.upstreams.health(), [
      { origin: A, up: false },
      { origin: B, up: true },
    ]);
  });

  it("keep the last one in service, and tell that it fails", async () => {
    await using pool = poolOf([A, B]);
    fail(pool.upstreams, A, 5);
    fail(pool.upstreams, B, 50);
    assert.deepEqual(originsOf(pool.upstreams, 2), [B, B]);
    assert.deepEqual(
      pool.upstreams.health().map(({ up }) => up),
      [false, false],
    );
  });

  it("get one probe after 10 s and not before; a good one puts them on trial, where one failure is enough", async () => {
    await using backend = await startTestUpstream();
    await using pool = poolOf([backend.origin, B]);
    fail(pool.upstreams, backend.origin, 5);
    pool.clock.ms = 9_999;
    pool.upstreams.probe();
    assert.equal(backend.connections(), 0);
    pool.clock.ms = 10_000;
    pool.upstreams.probe();
    pool.upstreams.probe();
    await eventually(() => pool.upstreams.health()[0]?.up === true);
    assert.equal(backend.connections(), 1);
    assert.equal(backend.seen.length, 0, "a bare connection, and no request");
    fail(pool.upstreams, backend.origin, 1);
    assert.deepEqual(originsOf(pool.upstreams, 2), [B, B]);
  });

  it("stay out for another 10 s when the probe finds nobody", async () => {
    await using pool = poolOf([A, B]);
    fail(pool.upstreams, A, 5);
    pool.clock.ms = 10_000;
    pool.upstreams.probe();
    await eventually(() => pool.upstreams.all[0]?.endProbe === undefined);
    assert.equal(pool.upstreams.all[0]?.probeAtMs, 20_000);
    assert.deepEqual(originsOf(pool.upstreams, 2), [B, B]);
  });

  it("clear the last one, which stayed in service, by a probe too: without requests nothing else would", async () => {
    await using backend = await startTestUpstream();
    await using pool = poolOf([backend.origin]);
    fail(pool.upstreams, backend.origin, 7);
    assert.deepEqual(pool.upstreams.health(), [{ origin: backend.origin, up: false }]);
    pool.clock.ms = 10_000;
    pool.upstreams.probe();
    await eventually(() => pool.upstreams.health()[0]?.up === true);
  });
});

describe("healthCheck", () => {
  const check = { healthCheck: { path: "/health?deep", everyMs: 1_000 } };

  async function probeOnce(pool: ReturnType<typeof poolOf>): Promise<void> {
    pool.clock.ms += 1_000;
    pool.upstreams.probe();
    await eventually(() => pool.upstreams.all.every(({ endProbe }) => endProbe === undefined));
  }

  function answering(status: number): Promise<TestUpstream> {
    return startTestUpstream((_seen, response) => void response.writeHead(status).end());
  }

  it("asks each upstream for the path, with its own Host, and names itself", async () => {
    await using backend = await answering(204);
    await using pool = poolOf([backend.origin], check);
    await probeOnce(pool);
    const [seen] = backend.seen;
    assert.equal(seen?.method, "GET");
    assert.equal(seen?.target, "/health?deep");
    const fields = seen?.rawHeaders.join("\n") ?? "";
    assert.match(fields, /host\n127\.0\.0\.1:\d+/i);
    assert.match(fields, /User-Agent\ntollgate-health/);
    assert.match(fields, /connection\nclose/i);
  });

  it("takes a backend out after two failures and not after one, and back after one success", async () => {
    await using ill = await answering(503);
    await using well = await answering(200);
    await using pool = poolOf([ill.origin, well.origin], check);
    await probeOnce(pool);
    assert.deepEqual(originsOf(pool.upstreams, 2), [ill.origin, well.origin]);
    await probeOnce(pool);
    assert.deepEqual(originsOf(pool.upstreams, 2), [well.origin, well.origin]);
    assert.deepEqual(
      pool.upstreams.health().map(({ up }) => up),
      [false, true],
    );
    ill.answer((_seen, response) => void response.end());
    await probeOnce(pool);
    assert.deepEqual(originsOf(pool.upstreams, 2), [ill.origin, well.origin]);
    assert.deepEqual(
      pool.upstreams.health().map(({ up }) => up),
      [true, true],
    );
  });

  it("counts a redirect, a refused connection and silence as failures", async () => {
    await using redirecting = await answering(302);
    await using silent = await startTestUpstream(() => {});
    await using well = await answering(200);
    const origins = [redirecting.origin, silent.origin, A, well.origin];
    await using pool = poolOf(origins, { ...check, connectTimeoutMs: 100 });
    await probeOnce(pool);
    await probeOnce(pool);
    assert.deepEqual(
      pool.upstreams.health().map(({ up }) => up),
      [false, false, false, true],
    );
  });

  it("never takes out the last one in service, and lets it go when another is back", async () => {
    await using one = await answering(503);
    await using two = await answering(503);
    await using pool = poolOf([one.origin, two.origin], check);
    await probeOnce(pool);
    await probeOnce(pool);
    const [kept] = originsOf(pool.upstreams, 1);
    assert.deepEqual(originsOf(pool.upstreams, 2), [kept, kept]);
    assert.deepEqual(
      pool.upstreams.health().map(({ up }) => up),
      [false, false],
    );
    const other = kept === one.origin ? two : one;
    other.answer((_seen, response) => void response.end());
    await probeOnce(pool);
    await probeOnce(pool);
    assert.deepEqual(originsOf(pool.upstreams, 2), [other.origin, other.origin]);
  });

  it("does not bring back for 10 s what requests have taken out", async () => {
    await using backend = await answering(200);
    await using pool = poolOf([backend.origin, A], check);
    fail(pool.upstreams, backend.origin, 5);
    await probeOnce(pool);
    assert.equal(pool.upstreams.health()[0]?.up, false);
    pool.clock.ms = 10_000;
    await probeOnce(pool);
    assert.equal(pool.upstreams.health()[0]?.up, true);
  });
});

describe("upstreams with as few pending requests as each other", () => {
  it("are asked in turn: one client after the other does not wear out the first", async () => {
    const C = "http://127.0.0.1:3";
    await using pool = poolOf([A, B, C]);
    const asked = Array.from({ length: 6 }, () => originsOf(pool.upstreams, 1)[0]);
    assert.deepEqual(asked, [A, B, C, A, B, C]);
  });
});
