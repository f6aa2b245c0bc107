import assert from "node:assert/strict";
import { type AddressInfo, createServer } from "node:net";
import { describe, it } from "vitest";
import { upstreamFiles } from "../../../src/base/open-files.ts";
import { each } from "../../support/each.ts";
import {
  startByteUpstream,
  startTestUpstream,
  type TestUpstream,
} from "../../support/gateway/backend.ts";
import { eventually } from "../../support/poll.ts";
import { A, B, fail, originsOf, poolOf } from "./pool.ts";

describe("a backend that is down", () => {
  const reasonIn = ({ upstreams, clock }: ReturnType<typeof poolOf>) => ({
    is: (why?: string) => {
      const up = why === undefined;
      const [health] = upstreams.health.report();
      assert.deepEqual(health, up ? { origin: A, up } : { origin: A, up, why });
    },
    probe: async () => {
      clock.ms += 10_000;
      upstreams.probe();
      await eventually(() => assert.equal(upstreams.all[0]?.endProbe, undefined));
    },
  });

  it("says the latest reason: of a request, of its answers, of the connection that it is tried by", async () => {
    await using pool = poolOf([A, B]);
    const reason = reasonIn(pool);
    const [upstream] = pool.upstreams.all;
    assert.ok(upstream);
    for (const [i, account] of ["acme", "acme", "acme", "acme", "other"].entries()) {
      reason.is();
      pool.upstreams.health.answered(upstream, account, i === 4 ? 504 : 503);
    }
    reason.is("answered 504");
    pool.upstreams.health.failed(upstream, { code: "upstream_timeout" });
    reason.is("upstream_timeout");
    await reason.probe();
    reason.is("ECONNREFUSED");
    pool.upstreams.health.answered(upstream, "acme", 200);
    reason.is();
    fail(pool.upstreams, A, 4);
    reason.is();
    pool.upstreams.health.failed(upstream, { code: "upstream_unreachable", why: "ECONNRESET" });
    reason.is("ECONNRESET");
    pool.upstreams.health.failed(upstream, { code: "upstream_invalid", why: "garbage" });
    reason.is("upstream_invalid: garbage");
  });

  it("is not judged by a probe that the gateway has no file for, which is made again a second later", async () => {
    await using upstream = await startTestUpstream();
    await using pool = poolOf([upstream.origin, B]);
    const [failing] = pool.upstreams.all;
    assert.ok(failing);
    fail(pool.upstreams, upstream.origin, 5);
    const { part, common } = upstreamFiles;
    Object.assign(upstreamFiles, { part: 0, common: 0 });
    pool.clock.ms += 1_000;
    pool.upstreams.probe();
    await eventually(() => assert.equal(failing.endProbe, undefined));
    Object.assign(upstreamFiles, { part, common });
    assert.equal(failing.why, "ECONNREFUSED");
    pool.clock.ms += 1_000;
    pool.upstreams.probe();
    await eventually(() => assert.equal(failing.trial, "due"));
  });

  it("says that no connection came in time", async () => {
    await using pool = poolOf(["http://192.0.2.1:9"], { connectTimeoutMs: 50 });
    fail(pool.upstreams, "http://192.0.2.1:9", 5);
    pool.clock.ms += 10_000;
    pool.upstreams.probe();
    await eventually(() => assert.equal(pool.upstreams.all[0]?.endProbe, undefined));
    assert.match(
      String(pool.upstreams.health.report()[0]?.why),
      /^(no connection within 50 ms|E[A-Z]+)$/,
    );
  });
});

describe("healthCheck", () => {
  const check = { healthCheck: { path: "/health?deep", everyMs: 1_000 } };

  async function probeOnce(pool: ReturnType<typeof poolOf>): Promise<void> {
    pool.clock.ms += 1_000;
    pool.upstreams.probe();
    await eventually(() =>
      each(pool.upstreams.all).every(({ endProbe }) => endProbe === undefined),
    );
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
      pool.upstreams.health.report().map(({ up }) => up),
      [false, true],
    );
    ill.answer((_seen, response) => void response.end());
    await probeOnce(pool);
    assert.deepEqual(originsOf(pool.upstreams, 2), [ill.origin, well.origin]);
    assert.deepEqual(
      pool.upstreams.health.report().map(({ up }) => up),
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
      pool.upstreams.health.report().map(({ up, why }) => why ?? up),
      [
        "health check: answered 302",
        "health check: no answer within 100 ms",
        "health check: ECONNREFUSED",
        true,
      ],
    );
  });

  it("says in words that a backend closes the connection or that what it answers is no HTTP", async () => {
    await using closing = await startTestUpstream((_seen, response) => void response.destroy());
    const garbled = createServer((socket) => socket.end("SSH-2.0-x\r\n").on("error", () => {}));
    await new Promise<void>((resolve) => garbled.listen(0, "127.0.0.1", resolve));
    const origin = `http://127.0.0.1:${(garbled.address() as AddressInfo).port}`;
    await using pool = poolOf([closing.origin, origin], check);
    await probeOnce(pool);
    await probeOnce(pool);
    const [closed, other] = pool.upstreams.health.report();
    assert.equal(closed?.why, "health check: other side closed");
    assert.match(
      String(other?.why),
      /^health check: Response does not match the HTTP\/1.1 protocol/,
    );
    garbled.close();
  });

  it("says of two Content-Length fields, or of one beside a coding, that the head has them, and not that the body is too short", async () => {
    for (const beside of ["Content-Length: 2", "Transfer-Encoding: chunked"]) {
      const head = `HTTP/1.1 200 OK\r\nContent-Length: 2\r\n${beside}\r\n\r\nok`;
      await using odd = await startByteUpstream((socket) => socket.write(head));
      await using pool = poolOf([odd.origin, A], check);
      await probeOnce(pool);
      await probeOnce(pool);
      assert.equal(
        pool.upstreams.health.report()[0]?.why,
        "health check: the head has two Content-Length fields, or one beside Transfer-Encoding, or is malformed",
      );
    }
  });

  it("says of a head that breaks off behind a Content-Length that the connection was closed", async () => {
    const head = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-A";
    await using odd = await startByteUpstream((socket) => socket.end(head));
    await using pool = poolOf([odd.origin, A], check);
    await probeOnce(pool);
    await probeOnce(pool);
    assert.equal(pool.upstreams.health.report()[0]?.why, "health check: other side closed");
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
      pool.upstreams.health.report().map(({ up }) => up),
      [false, false],
    );
    const other = kept === one.origin ? two : one;
    other.answer((_seen, response) => void response.end());
    await probeOnce(pool);
    await probeOnce(pool);
    assert.deepEqual(originsOf(pool.upstreams, 2), [other.origin, other.origin]);
  });

  it("brings back with one success what requests have taken out", async () => {
    await using backend = await answering(200);
    await using pool = poolOf([backend.origin, A], check);
    fail(pool.upstreams, backend.origin, 5);
    assert.equal(pool.upstreams.health.report()[0]?.up, false);
    await probeOnce(pool);
    assert.equal(pool.upstreams.health.report()[0]?.up, true);
    fail(pool.upstreams, backend.origin, 4);
    assert.equal(pool.upstreams.health.report()[0]?.up, true, "all failures are forgiven");
  });

  it("says more than a request that went well", async () => {
    await using ill = await answering(503);
    await using well = await answering(200);
    await using pool = poolOf([ill.origin, well.origin], check);
    await probeOnce(pool);
    await probeOnce(pool);
    const [upstream] = pool.upstreams.all;
    assert.ok(upstream);
    pool.upstreams.health.answered(upstream, "acme", 200);
    assert.equal(upstream.out, true);
  });
});
