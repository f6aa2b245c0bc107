import assert from "node:assert/strict";
import { it } from "vitest";
import { RetryPolicy } from "../../../src/gateway/forward/retry-policy.ts";
import type { Upstream } from "../../../src/gateway/upstreams/upstream.ts";
import type { UpstreamPool } from "../../../src/gateway/upstreams/upstream-pool.ts";

const LOSS = { kind: "unreached", reused: false, sent: false } as const;

it("a request is answered when three of five upstreams were not reached, and not after two", () => {
  const all = Array.from({ length: 5 }, (_, i) => ({ origin: `http://192.0.2.${i}` }) as Upstream);
  const pool = {
    hasOther: (unreached: ReadonlySet<Upstream>) => all.some((each) => !unreached.has(each)),
  } as UpstreamPool;
  const policy = new RetryPolicy("POST", 0, () => 0);
  const reasons = all.slice(0, 3).map((each) => policy.nextAttempt(pool, each, LOSS as never));
  assert.deepEqual(reasons, ["unreached", "unreached", undefined]);
});

it("the pauses between rounds are 100 ms, and the last ends when the time of connectRetry does", () => {
  const clock = { ms: 5_000 };
  const only = { origin: "http://192.0.2.1" } as Upstream;
  const policy = new RetryPolicy("GET", 250, () => clock.ms);
  const pauses: number[] = [];
  for (let round = 0; round < 5; round++) {
    const again = policy.nextAttempt({ hasOther: () => false } as never, only, LOSS as never);
    if (typeof again !== "object") break;
    pauses.push(again.pauseMs);
    clock.ms += again.pauseMs;
  }
  assert.deepEqual(pauses, [100, 100, 50]);
});

it("a GET whose handshakes are refused after it was sent is sent to one more upstream, and a POST to none", () => {
  const [first, second] = ["http://192.0.2.1", "http://192.0.2.2"].map(
    (origin) => ({ origin }) as Upstream,
  );
  const refused = {
    ...LOSS,
    sent: true,
    why: "ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED",
  } as const;
  const pool = { hasOther: () => true } as unknown as UpstreamPool;
  const get = new RetryPolicy("GET", 0, () => 0);
  assert.equal(get.isRepeatable, true);
  assert.equal(get.nextAttempt(pool, first as Upstream, refused), "unreached");
  assert.equal(get.isRepeatable, false, "it is no trial any more");
  assert.equal(get.nextAttempt(pool, second as Upstream, refused), undefined);
  const post = new RetryPolicy("POST", 0, () => 0);
  assert.equal(post.nextAttempt(pool, first as Upstream, refused), undefined);
});
