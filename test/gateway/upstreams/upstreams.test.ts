import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { RetryPolicy } from "../../../src/gateway/forward/retry-policy.ts";
import type { UpstreamConnection } from "../../../src/gateway/upstreams/upstream.ts";
import { startTestUpstream } from "../../support/gateway/backend.ts";
import { eventually } from "../../support/poll.ts";
import { A, B, breakOff, fail, originsOf, poolOf, take } from "./pool.ts";

type Pool = Pick<ReturnType<typeof poolOf>, "upstreams">;

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
    pool.upstreams.health.answered(a, "acme", 200);
    fail(pool.upstreams, A, 4);
    assert.deepEqual(originsOf(pool.upstreams, 2), [A, B]);
    fail(pool.upstreams, A, 1);
    assert.deepEqual(originsOf(pool.upstreams, 2), [B, B]);
    assert.deepEqual(pool.upstreams.health.report(), [
      { origin: A, up: false, why: "ECONNREFUSED" },
      { origin: B, up: true },
    ]);
  });

  it("keep the last one in service, and tell that it fails", async () => {
    await using pool = poolOf([A, B]);
    fail(pool.upstreams, A, 5);
    fail(pool.upstreams, B, 50);
    assert.deepEqual(originsOf(pool.upstreams, 2), [B, B]);
    assert.deepEqual(
      pool.upstreams.health.report().map(({ up }) => up),
      [false, false],
    );
  });

  it("that were out and are all that a reload leaves are in service, and up once one connects", async () => {
    await using backend = await startTestUpstream();
    await using before = poolOf([A, backend.origin]);
    fail(before.upstreams, backend.origin, 5);
    assert.equal(before.upstreams.all[1]?.out, true);
    await using after = poolOf([backend.origin], {}, before.upstreams);
    assert.equal(after.upstreams.all[0]?.out, false);
    assert.equal(after.upstreams.health.report()[0]?.up, false, "nothing says yet that it is back");
    after.upstreams.probe();
    await eventually(() => assert.equal(after.upstreams.health.report()[0]?.up, true));
    await using both = poolOf([A, backend.origin], {}, before.upstreams);
    assert.equal(both.upstreams.all[1]?.out, true, "another is in service");
  });

  it("are probed after 1 s and not before; then one request decides whether they are back", async () => {
    await using backend = await startTestUpstream();
    await using pool = poolOf([backend.origin, B]);
    const [upstream] = pool.upstreams.all;
    assert.ok(upstream);
    fail(pool.upstreams, backend.origin, 5);
    pool.clock.ms = 999;
    pool.upstreams.probe();
    assert.equal(backend.connections(), 0);
    pool.clock.ms = 1_000;
    pool.upstreams.probe();
    pool.upstreams.probe();
    await eventually(() => assert.equal(upstream.trial, "due"));
    assert.equal(backend.connections(), 1);
    assert.equal(backend.seen.length, 0, "a bare connection, and no request");
    const [trial, ...others] = [1, 2, 3].map(() => take(pool.upstreams));
    assert.deepEqual(
      [trial, ...others].map((one) => one?.upstream.origin),
      [backend.origin, B, B],
    );
    pool.upstreams.health.answered(upstream, "acme", 200);
    for (const one of others) pool.upstreams.release(one);
    pool.upstreams.release(trial as UpstreamConnection);
    assert.equal(pool.upstreams.health.report()[0]?.up, true);
    assert.deepEqual(originsOf(pool.upstreams, 2).sort(), [backend.origin, B].sort());
  });

  it("stay out after a request that failed, and are probed again after 2 s, 4 s and 10 s", async () => {
    await using backend = await startTestUpstream();
    await using pool = poolOf([backend.origin, B]);
    const [upstream] = pool.upstreams.all;
    assert.ok(upstream);
    fail(pool.upstreams, backend.origin, 5);
    for (const pauseMs of [1_000, 2_000, 4_000, 10_000, 10_000]) {
      assert.equal(upstream.probeAtMs, pool.clock.ms + pauseMs);
      pool.clock.ms += pauseMs;
      pool.upstreams.probe();
      await eventually(() => assert.equal(upstream.trial, "due"));
      const trial = take(pool.upstreams);
      assert.equal(trial.upstream, upstream);
      fail(pool.upstreams, backend.origin, 1);
      pool.upstreams.release(trial);
      assert.deepEqual(originsOf(pool.upstreams, 2), [B, B]);
    }
  });

  it("give no POST as the trial to one that may hang up while a GET may come, and any request after 1 s", async () => {
    await using backend = await startTestUpstream();
    await using pool = poolOf([backend.origin, B]);
    const post = new RetryPolicy("POST", 0, () => 0);
    const get = new RetryPolicy("GET", 0, () => 0);
    fail(pool.upstreams, backend.origin, 5);
    const due = async (ms: number) => {
      pool.clock.ms = ms;
      pool.upstreams.probe();
      await eventually(() => assert.equal(pool.upstreams.all[0]?.trial, "due"));
    };
    await due(1_000);
    assert.equal(take(pool.upstreams, post).upstream.origin, B);
    assert.equal(take(pool.upstreams, get).upstream.origin, backend.origin);
    fail(pool.upstreams, backend.origin, 1);
    await due(3_000);
    pool.clock.ms = 3_999;
    assert.equal(take(pool.upstreams, post).upstream.origin, B);
    const elapsed = () => 3_999;
    await using after = poolOf([backend.origin, B], { elapsed }, pool.upstreams);
    assert.equal(take(after.upstreams, post).upstream.origin, B, "a reload changes nothing of it");
    pool.clock.ms = 4_000;
    assert.equal(take(pool.upstreams, post).upstream.origin, backend.origin);
  });

  it("get a POST that finds none in service where a connection worked, before one that is away", async () => {
    await using backend = await startTestUpstream();
    await using pool = poolOf([A, backend.origin, B]);
    for (const origin of [A, backend.origin]) fail(pool.upstreams, origin, 5);
    pool.clock.ms = 1_000;
    pool.upstreams.probe();
    await eventually(() => assert.equal(pool.upstreams.all[1]?.trial, "due"));
    const post = new RetryPolicy("POST", 0, () => 0);
    post.unreachable = new Set(pool.upstreams.all.slice(2));
    assert.equal(take(pool.upstreams, post).upstream.origin, backend.origin);
  });

  it("give the trial to the next request, where the client of the first one left", async () => {
    await using backend = await startTestUpstream();
    await using pool = poolOf([backend.origin, B]);
    fail(pool.upstreams, backend.origin, 5);
    pool.clock.ms = 1_000;
    pool.upstreams.probe();
    await eventually(() => assert.equal(pool.upstreams.all[0]?.trial, "due"));
    pool.upstreams.release(take(pool.upstreams));
    assert.equal(take(pool.upstreams).upstream.origin, backend.origin);
    assert.equal(take(pool.upstreams).upstream.origin, B);
  });

  it("are back with the head of the trial's answer, while its body goes on, and out again if that breaks", async () => {
    await using backend = await startTestUpstream();
    await using pool = poolOf([backend.origin, B]);
    const [upstream] = pool.upstreams.all;
    assert.ok(upstream);
    breakOff(pool.upstreams, backend.origin, 5);
    pool.clock.ms = 1_000;
    pool.upstreams.probe();
    await eventually(() => assert.equal(upstream.trial, "due"));
    take(pool.upstreams);
    assert.equal(take(pool.upstreams).upstream.origin, B);
    pool.upstreams.health.answered(upstream, "acme", 200);
    assert.equal(pool.upstreams.health.report()[0]?.up, true);
    const wanted = [1, 2].map(() => take(pool.upstreams).upstream.origin);
    assert.deepEqual(wanted.sort(), [backend.origin, B].sort(), "one of each was pending");
    breakOff(pool.upstreams, backend.origin, 1);
    assert.equal(upstream.out, true, "five bodies and one more have broken off");
  });

  it("are taken out by five bodies in a row that break off, whatever heads come before them", async () => {
    await using pool = poolOf([A, B]);
    const [a] = pool.upstreams.all;
    assert.ok(a);
    breakOff(pool.upstreams, A, 4);
    pool.upstreams.health.answered(a, "acme", 200);
    pool.upstreams.health.delivered(a);
    breakOff(pool.upstreams, A, 4);
    assert.equal(a.out, false, "one among them went well");
    breakOff(pool.upstreams, A, 1);
    assert.equal(a.out, true);
    pool.upstreams.health.answered(a, "acme", 200);
    assert.equal(a.out, true, "a head that was under way says nothing about bodies");
    pool.upstreams.health.delivered(a);
    assert.equal(a.out, false);
  });

  it("stay out longer each time a body breaks off behind the head that brought them back", async () => {
    await using backend = await startTestUpstream();
    await using pool = poolOf([backend.origin, B]);
    const [upstream] = pool.upstreams.all;
    assert.ok(upstream);
    const back = async () => {
      pool.clock.ms = upstream.probeAtMs as number;
      pool.upstreams.probe();
      await eventually(() => assert.equal(upstream.trial, "due"));
      return take(pool.upstreams);
    };
    breakOff(pool.upstreams, backend.origin, 5);
    for (const pauseMs of [1_000, 2_000, 4_000, 10_000, 10_000]) {
      assert.equal(upstream.probeAtMs, pool.clock.ms + pauseMs);
      const trial = await back();
      breakOff(pool.upstreams, backend.origin, 1);
      pool.upstreams.release(trial);
      assert.equal(upstream.out, true);
    }
    await back();
    pool.upstreams.health.answered(upstream, "acme", 200);
    pool.upstreams.health.delivered(upstream);
    breakOff(pool.upstreams, backend.origin, 5);
    assert.equal(upstream.probeAtMs, pool.clock.ms + 1_000, "a body among them went well");
  });

  it("are taken out by five failures in a row of both kinds", async () => {
    await using pool = poolOf([A, B]);
    breakOff(pool.upstreams, A, 3);
    fail(pool.upstreams, A, 1);
    assert.equal(pool.upstreams.all[0]?.out, false);
    fail(pool.upstreams, A, 1);
    assert.equal(pool.upstreams.all[0]?.out, true);
  });

  it("have their names asked again as time passes, and addresses have none", async () => {
    await using pool = poolOf(["http://localhost:1", A]);
    const [named, numbered] = pool.upstreams.all;
    assert.ok(named?.addresses);
    let refreshed = 0;
    named.addresses.refresh = () => {
      refreshed += 1;
    };
    pool.upstreams.probe();
    assert.equal(refreshed, 1);
    assert.equal(numbered?.addresses, undefined);
  });

  it("stay out longer each time the probe finds nobody", async () => {
    await using pool = poolOf([A, B]);
    const [upstream] = pool.upstreams.all;
    assert.ok(upstream);
    fail(pool.upstreams, A, 5);
    for (const nextMs of [2_000, 4_000, 10_000, 10_000]) {
      pool.clock.ms = upstream.probeAtMs as number;
      pool.upstreams.probe();
      await eventually(() => assert.equal(upstream.endProbe, undefined));
      assert.equal(upstream.probeAtMs, pool.clock.ms + nextMs);
    }
    assert.deepEqual(originsOf(pool.upstreams, 2), [B, B]);
  });

  it("are back with the first request that had no other choice and was answered", async () => {
    await using pool = poolOf([A, B]);
    const [a, b] = pool.upstreams.all;
    assert.ok(a && b);
    fail(pool.upstreams, A, 5);
    let taken: UpstreamConnection | undefined;
    const wanted = {
      isRepeatable: true,
      freshOnly: false,
      avoided: undefined,
      unreachable: new Set([b]),
    };
    pool.upstreams.take(
      "acme",
      (connection) => {
        taken = connection;
      },
      wanted,
    );
    assert.equal(taken?.upstream, a);
    pool.upstreams.health.answered(a, "acme", 404);
    assert.equal(pool.upstreams.health.report()[0]?.up, true);
  });

  it("are taken out by five 502, 503 or 504 answers in a row to two accounts", async () => {
    await using pool = poolOf([A, B]);
    const [a] = pool.upstreams.all;
    assert.ok(a);
    const answer = (statuses: readonly number[], account = "acme") => {
      for (const status of statuses) pool.upstreams.health.answered(a, account, status);
    };
    answer([503, 503, 503, 503, 503, 503, 503]);
    assert.equal(a.out, false, "one account");
    answer([200]);
    answer([502, 503, 504], "bob");
    answer([503, 500, 503]);
    assert.equal(a.out, false, "a 500 among them is an answer like any other");
    answer([502, 504]);
    answer([503], "bob");
    assert.equal(a.out, false, "four");
    answer([200]);
    answer([503, 503, 503, 503, 503]);
    assert.equal(a.out, false, "the other account was told before the 200");
    answer([503], "bob");
    assert.equal(a.out, true);
    assert.deepEqual(originsOf(pool.upstreams, 2), [B, B]);
  });

  it("stay in service whatever answers come to client addresses without a key, which are one together", async () => {
    await using pool = poolOf([A, B]);
    const [a] = pool.upstreams.all;
    assert.ok(a);
    for (let i = 0; i < 10; i++) pool.upstreams.health.answered(a, `addr:192.0.2.${i}`, 503);
    assert.equal(a.out, false);
    pool.upstreams.health.answered(a, "acme", 503);
    assert.equal(a.out, true, "an account beside them is a second one");
  });

  it("are not taken out by such answers to one account, of which a reload comes between two", async () => {
    await using before = poolOf([A, B]);
    const answer = ({ upstreams }: Pool, account: string, times: number) => {
      const [a] = upstreams.all;
      assert.ok(a);
      for (let i = 0; i < times; i++) upstreams.health.answered(a, account, 503);
    };
    answer(before, "acme", 4);
    await using after = poolOf([A, B], {}, before.upstreams);
    answer(after, "acme", 4);
    assert.deepEqual(originsOf(after.upstreams, 2), [A, B]);
    answer(after, "bob", 1);
    assert.deepEqual(originsOf(after.upstreams, 2), [B, B]);
  });

  it("are probed after the pause that their failures have come to, over a reload too", async () => {
    await using before = poolOf([A, B]);
    fail(before.upstreams, A, 5);
    const probe = ({ upstreams }: Pool) => {
      const [a] = upstreams.all;
      assert.ok(a);
      upstreams.health.probed(a, "ECONNREFUSED");
      return a.probeAtMs;
    };
    assert.deepEqual([probe(before), probe(before)], [2_000, 4_000]);
    await using after = poolOf([A, B], {}, before.upstreams);
    assert.equal(probe(after), 10_000);
  });

  it("stay out while 503 is their answer to the one request that decides", async () => {
    await using backend = await startTestUpstream();
    await using pool = poolOf([backend.origin, B]);
    const [upstream] = pool.upstreams.all;
    assert.ok(upstream);
    for (const account of ["a", "b", "a", "b", "a"])
      pool.upstreams.health.answered(upstream, account, 503);
    pool.clock.ms = 1_000;
    pool.upstreams.probe();
    await eventually(() => assert.equal(upstream.trial, "due"));
    const trial = take(pool.upstreams);
    pool.upstreams.health.answered(upstream, "c", 503);
    pool.upstreams.release(trial);
    assert.equal(upstream.out, true);
    assert.equal(upstream.probeAtMs, 3_000);
  });

  it("clear the last one, which stayed in service, by a probe too: without requests nothing else would", async () => {
    await using backend = await startTestUpstream();
    await using pool = poolOf([backend.origin]);
    fail(pool.upstreams, backend.origin, 7);
    assert.equal(pool.upstreams.health.report()[0]?.up, false);
    pool.clock.ms = 1_000;
    pool.upstreams.probe();
    await eventually(() => pool.upstreams.health.report()[0]?.up === true);
  });

  it("tell the last one as failing again once the next body of it breaks off", async () => {
    await using backend = await startTestUpstream();
    await using pool = poolOf([backend.origin]);
    const isUp = () => pool.upstreams.health.report()[0]?.up;
    breakOff(pool.upstreams, backend.origin, 5);
    pool.clock.ms = 1_000;
    pool.upstreams.probe();
    await eventually(() => assert.equal(isUp(), true));
    breakOff(pool.upstreams, backend.origin, 1);
    assert.equal(isUp(), false, "a bare connection says nothing about bodies");
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
