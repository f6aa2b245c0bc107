import assert from "node:assert/strict";
import { createServer } from "node:net";
import { describe, it, vi } from "vitest";
import { upstreamFiles } from "../../../src/base/open-files.ts";
import type { UpstreamConnection, UpstreamLoad } from "../../../src/gateway/upstreams/upstream.ts";
import { UpstreamPool } from "../../../src/gateway/upstreams/upstream-pool.ts";
import { each } from "../../support/each.ts";
import { startTestUpstream } from "../../support/gateway/backend.ts";
import { eventually } from "../../support/poll.ts";
import { OPTIONS, poolOf, take } from "./pool.ts";

describe("backends", () => {
  const options = { ...OPTIONS, connectTimeoutMs: 5_000 };

  it("are tried though they are out, where the others were not reached", async (t) => {
    const origins = ["http://127.0.0.1:1", "http://127.0.0.1:2"];
    const upstreams = new UpstreamPool({ ...options, origins, elapsed: () => 0 });
    t.onTestFinished(() => upstreams.close());
    const [unreached, out] = upstreams.all;
    assert.ok(unreached && out);
    for (let i = 0; i < 5; i++) upstreams.health.failed(out, { code: "upstream_invalid" });
    assert.ok(out.out);
    let taken: unknown;
    upstreams.take(
      "acme",
      (connection) => {
        taken = connection.upstream;
      },
      { isRepeatable: true, freshOnly: true, unreachable: new Set([unreached]), avoided: out },
    );
    assert.equal(taken, out);
  });

  it("stay in service where they answered in time while the gateway stood still", async (t) => {
    const clock = { ms: 0 };
    let answers = 0;
    await using late = await startTestUpstream((_seen, response) => {
      response.end();
      answers += 1;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1_200);
    });
    await using well = await startTestUpstream((_seen, response) => void response.end());
    const upstreams = new UpstreamPool({
      ...{ ...options, origins: [late.origin, well.origin], elapsed: () => clock.ms },
      ...{ connectTimeoutMs: 1_000, healthCheck: { path: "/healthz", everyMs: 1_000 } },
    });
    t.onTestFinished(() => upstreams.close());
    for (let i = 0; i < 2; i++) {
      clock.ms += 1_000;
      upstreams.probe();
      await eventually(() => each(upstreams.all).every(({ endProbe }) => endProbe === undefined));
    }
    assert.deepEqual([answers, upstreams.health.report().map(({ up }) => up)], [2, [true, true]]);
  });

  it("do not count requests that waited for a connection and whose clients left", (t) => {
    const origins = ["http://127.0.0.1:1", "http://127.0.0.1:2"];
    const upstreams = new UpstreamPool({
      ...{ ...options, origins, connectionsMax: 1 },
      elapsed: () => 0,
    });
    t.onTestFinished(() => upstreams.close());
    const [a, b] = upstreams.all;
    assert.ok(a && b);
    const onlyA = {
      isRepeatable: true,
      freshOnly: false,
      avoided: undefined,
      unreachable: new Set([b]),
    };
    const taken: UpstreamConnection[] = [];
    const take = (connection: UpstreamConnection) => void taken.push(connection);
    upstreams.take("acme", take, onlyA);
    const leave = Array.from({ length: 3 }, () => upstreams.take("acme", take, onlyA));
    for (const each of leave) each();
    // Each of them leaves once, however often it says so.
    for (const each of leave) each();
    upstreams.release(taken[0] as UpstreamConnection);
    for (let i = 0; i < 2; i++) upstreams.take("acme", take);
    assert.deepEqual(
      taken
        .slice(1)
        .map(({ upstream }) => upstream.origin)
        .sort(),
      origins,
    );
  });

  it("that are probed when they are closed are probed no more, and nobody is told", async () => {
    let elapsedMs = 0;
    // Takes connections and says nothing.
    const silent = createServer();
    await new Promise<void>((resolve) => silent.listen(0, "127.0.0.1", resolve));
    const { port } = silent.address() as { port: number };
    const upstreams = new UpstreamPool({
      ...options,
      origins: [`http://127.0.0.1:${port}`],
      healthCheck: { path: "/", everyMs: 1_000 },
      elapsed: () => elapsedMs,
    });
    elapsedMs = 1;
    const connected = new Promise((resolve) => silent.once("connection", resolve));
    upstreams.probe();
    const [upstream] = upstreams.all;
    assert.ok(upstream?.endProbe);
    await connected;
    upstreams.close();
    assert.equal(upstream.endProbe, undefined);
    assert.equal(upstream.failedProbes, 0);
    await new Promise((resolve) => silent.close(resolve));
  });

  it("that are closed before their check was sent are not sent it", async () => {
    await using backend = await startTestUpstream((_seen, response) => void response.end());
    let elapsedMs = 0;
    const open = () => {
      const healthCheck = { path: "/", everyMs: 1_000 };
      const elapsed = () => elapsedMs;
      return new UpstreamPool({ ...options, origins: [backend.origin], healthCheck, elapsed });
    };
    const [closed, next] = [open(), open()];
    elapsedMs = 1;
    closed.probe();
    closed.close();
    // The check of the closed one would be sent first.
    next.probe();
    await eventually(() => assert.equal(next.all[0]?.endProbe, undefined));
    assert.equal(backend.seen.length, 1);
    next.close();
  });

  it("for which no further file can be opened are asked on the connections that are open, until the next probe", async () => {
    await using pool = poolOf(["http://127.0.0.1:1"]);
    const { upstreams } = pool;
    const [upstream] = upstreams.all;
    assert.ok(upstream);
    const [open, refused] = [take(upstreams), take(upstreams)];
    upstreams.short(upstream);
    upstreams.release(refused);
    const taken: UpstreamConnection[] = [];
    // Accounts with few connections, which are kept from none that is free.
    const ask = () => upstreams.take(`a${taken.length}`, (connection) => taken.push(connection));
    ask();
    assert.equal(taken.length, 0, "the other one is in use");
    upstreams.release(open);
    assert.equal(taken.length, 1);
    ask();
    assert.equal(taken.length, 1);
    upstreams.probe();
    ask();
    assert.equal(taken.length, 3);
    assert.ok(!upstream.load.isShort);
  });

  it("for which no further file can be opened are asked at once on a connection that is idle", async () => {
    await using pool = poolOf(["http://127.0.0.1:1"]);
    const { upstreams } = pool;
    const [upstream] = upstreams.all;
    assert.ok(upstream);
    const [kept, refused] = [take(upstreams), take(upstreams)];
    const open = vi.spyOn(kept, "open", "get").mockReturnValue(true);
    upstreams.release(kept);
    await eventually(() => assert.deepEqual(upstream.load.idle, [kept]));
    upstreams.short(upstream);
    upstreams.release(refused);
    assert.equal(take(upstreams), kept);
    open.mockRestore();
  });

  it("may have as many sockets as the options in force need, whatever those before needed", async (t) => {
    await using old = poolOf(["http://127.0.0.1:1"], { connectionsMax: 1 });
    await using next = poolOf(["http://127.0.0.1:1"], { connectionsMax: 2 }, old.upstreams);
    const { part, common } = upstreamFiles;
    t.onTestFinished(() => void Object.assign(upstreamFiles, { part, common }));
    Object.assign(upstreamFiles, { part: 9, common: 0 });
    const [{ sockets }] = next.upstreams.all.map(({ load }) => load) as [UpstreamLoad];
    t.onTestFinished(() => sockets.closed());
    sockets.opened();
    assert.ok(sockets.isFull);
    next.upstreams.open();
    assert.ok(!sockets.isFull);
  });

  it("are asked after a reload on connections of their new options, and idle ones of the old options end", async () => {
    await using backend = await startTestUpstream();
    await using old = poolOf([backend.origin]);
    const idle = take(old.upstreams);
    const closed = vi.spyOn(idle, "close");
    await using next = poolOf([backend.origin], { idleMsMax: 3_000 }, old.upstreams);
    old.upstreams.release(idle);
    await eventually(() => assert.deepEqual(next.upstreams.all[0]?.load.idle, [idle]));
    const connection = take(next.upstreams);
    assert.equal(connection.upstream, next.upstreams.all[0]);
    assert.equal(closed.mock.calls.length, 1);
    next.upstreams.release(connection);
    await eventually(() => assert.deepEqual(next.upstreams.all[0]?.load.idle, [connection]));
    assert.equal(take(next.upstreams), connection);
  });
});
