import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { startTestUpstream } from "../gateway/backend.ts";
import { eventually } from "../poll.ts";
import { sendRaw } from "./raw.ts";
import { openTcpProxy } from "./tcp-proxy.ts";

const GET = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const ONE = { methods: ["GET"], timeoutMs: 60_000 };

describe("the proxy that does damage", () => {
  it("passes bytes, late, slowly or cut, as it is told", async () => {
    await using backend = await startTestUpstream();
    await using proxy = await openTcpProxy(backend);
    const timed = async () => {
      const startMs = performance.now();
      const { bytes, ended } = await sendRaw(proxy.port, GET, ONE);
      return { ms: performance.now() - startMs, length: bytes.length, ended };
    };
    const whole = await timed();
    assert.equal(whole.ended, "answered");

    proxy.behave({ latencyMs: 60 });
    const late = await timed();
    assert.ok(late.ms >= 120, `${late.ms} ms`);
    assert.equal(late.ended, "answered");

    proxy.behave({ bytesPerSecond: 1_000 });
    const slow = await timed();
    assert.ok(slow.ms >= whole.length, `${slow.ms} ms for ${whole.length} bytes`);

    proxy.behave({ cutAfterBytes: 20 });
    const cut = await timed();
    assert.ok(cut.length <= 20 && cut.ended === "reset", JSON.stringify(cut));
  });

  it("holds bytes in a black hole and lets them go when it heals; a swallowed reply is gone", async () => {
    await using backend = await startTestUpstream();
    await using proxy = await openTcpProxy(backend);
    proxy.behave({ blackHole: true });
    const held = sendRaw(proxy.port, GET, ONE);
    await eventually(() => proxy.bytes().asked === GET.length);
    assert.equal(backend.seen.length, 0);
    proxy.behave({});
    assert.equal((await held).ended, "answered");

    proxy.behave({ swallowReplies: true });
    const lost = sendRaw(proxy.port, GET, ONE);
    await eventually(() => backend.seen.length === 2 && proxy.bytes().answered > 0);
    proxy.reset();
    assert.deepEqual(await lost, { bytes: Buffer.alloc(0), ended: "reset" });
  });

  it("refuses connections until it listens again, on the same port", async () => {
    await using backend = await startTestUpstream();
    await using proxy = await openTcpProxy(backend);
    await proxy.refuse();
    await assert.rejects(sendRaw(proxy.port, GET, ONE), { code: "ECONNREFUSED" });
    await proxy.listen();
    assert.equal((await sendRaw(proxy.port, GET, ONE)).ended, "answered");
    assert.equal(proxy.accepted(), 1);
  });
});
