import assert from "node:assert/strict";
import { once } from "node:events";
import { request } from "node:http";
import { connect } from "node:net";
import { setImmediate, setTimeout as sleep } from "node:timers/promises";
import { beforeEach, describe, it, onTestFinished, vi } from "vitest";
import { atMostEvery } from "../../../src/admin/http/at-most-every.ts";
import { openAdmin } from "../../../src/admin/listener.ts";
import { NO_RECORDS } from "../../../src/core/keys/records.ts";
import { RecentEvents } from "../../../src/telemetry/history/recent-events.ts";
import { createMetricsRecorder } from "../../../src/telemetry/metrics/metrics-recorder.ts";
import { each } from "../../support/each.ts";
import { eventually } from "../../support/poll.ts";
import { type AdminHouse, ALL_WELL, openAdminHouse, TOKEN, UNWATCHED } from "../admin-house.ts";

describe("/metrics", () => {
  it("is rendered at most once a second, however many ask, and anew after it", async () => {
    await using house = await openAdminHouse();
    const { render } = house.metrics;
    let rendered = 0;
    Object.assign(house.metrics, {
      render: () => {
        rendered += 1;
        return render();
      },
    });
    const clock = vi.spyOn(performance, "now");
    onTestFinished(() => clock.mockRestore());
    clock.mockReturnValue(5_000);
    const all = await Promise.all(Array.from({ length: 50 }, () => house.ask("GET", "/metrics")));
    const text = all[0]?.text;
    assert.ok(each(all).every((answer) => answer.status === 200 && answer.text === text));
    clock.mockReturnValue(5_999);
    await house.ask("GET", "/metrics");
    assert.equal(rendered, 1);
    clock.mockReturnValue(6_000);
    await house.ask("GET", "/metrics");
    assert.equal(rendered, 2);
  });
});

describe("What is read at most every so often", () => {
  it("is read again by the next who asks after it has failed", async () => {
    let read = 0;
    const ask = atMostEvery(60_000, async () => {
      read += 1;
      await sleep(1);
      if (read === 1) throw new Error("not now");
      return read;
    });
    const both = await Promise.allSettled([ask(), ask()]);
    assert.deepEqual(
      both.map(({ status }) => status),
      ["rejected", "rejected"],
    );
    assert.deepEqual([await ask(), await ask(), read], [2, 2, 2]);
  });

  it("is not read again because an earlier reading fails that took longer", async () => {
    const clock = vi.spyOn(performance, "now").mockReturnValue(5_000);
    onTestFinished(() => clock.mockRestore());
    const [early, late] = [Promise.withResolvers<string>(), Promise.withResolvers<string>()];
    const readings = [early.promise, late.promise];
    const ask = atMostEvery(1_000, () => readings.shift() ?? assert.fail("a third one"));
    const failed = assert.rejects(ask(), /away/);
    clock.mockReturnValue(6_000);
    const next = ask();
    early.reject(new Error("away"));
    await failed;
    assert.equal(ask(), next);
    late.resolve("read");
    assert.equal(await next, "read");
  });
});

describe("the admin listener of a gateway", () => {
  it("gathers the counts of all processes before a scrape, and reads no figures after its end", async () => {
    vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
    onTestFinished(() => void vi.useRealTimers());
    const metrics = createMetricsRecorder();
    const gather = async () => {
      await sleep(5);
      metrics.banned("late");
    };
    const admin = { listen: { host: "127.0.0.1", port: 0 }, hosts: [], token: "" };
    const quotas = { bans: async () => [], gateways: { list: async () => [] } };
    const stores = { quotas, keys: { records: () => NO_RECORDS } };
    const rest = { config: () => ({ admin: undefined }), now: () => 0, recent: new RecentEvents() };
    const checks = () => ALL_WELL;
    const house = {
      ...rest,
      metrics,
      gather,
      checks,
      ...stores,
      metricSources: UNWATCHED,
      name: "a",
    };
    const opened = await openAdmin(admin, { ...house, diagnostics: {}, log: {} } as never);
    const text = await (await fetch(`${opened.url}/metrics`)).text();
    assert.equal((await fetch(`${opened.url}/api/gateways`)).status, 200, "asked as it was opened");
    assert.match(text, /^tollgate_bans_total\{env="late"\} 1$/m);
    await eventually(() => {
      assert.ok(!process.getActiveResourcesInfo().includes("Immediate"), "it reads nothing");
    });
    assert.equal(vi.getTimerCount(), 1);
    await opened.close();
    assert.equal(vi.getTimerCount(), 0);
  });
});

describe("the admin listener", () => {
  beforeEach(() => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    return () => vi.useRealTimers();
  });

  it("gives an answer that never comes a minute, and a second once it closes, but a stream its time", async () => {
    const house = await openAdminHouse();
    const headers = { Authorization: `Bearer ${TOKEN}` };
    const asked = request(`${house.url}/api/events`, { headers }).end();
    const [stream] = await once(asked, "response");
    stream.resume();
    /** Whether a request is cut within a time, and whether it was a millisecond before. */
    const cuts = async ({ isCut }: { isCut: () => boolean }, ms: number) => {
      await vi.advanceTimersByTimeAsync(ms - 1);
      for (let turn = 0; turn < 50; turn++) await setImmediate();
      const before = isCut();
      await vi.advanceTimersByTimeAsync(1);
      while (!isCut()) await setImmediate();
      return before;
    };
    assert.equal(await cuts(await askForEver(house), 60_000), false);
    assert.equal(stream.destroyed, false);
    const last = await askForEver(house);
    const closed = house[Symbol.asyncDispose]();
    assert.equal(await cuts(last, 1_000), false);
    await closed;
  });

  it("leaves no timer of an answer that is out, nor of its end", async () => {
    const house = await openAdminHouse();
    const timers = vi.getTimerCount();
    assert.equal((await house.ask("GET", "/livez")).status, 200);
    await eventually(() => assert.equal(vi.getTimerCount(), timers));
    const client = connect(house.port, "127.0.0.1").resume();
    client.write("no HTTP\r\n\r\n");
    await once(client, "close");
    await eventually(() => assert.equal(vi.getTimerCount(), timers, "what was no HTTP"));
    await house[Symbol.asyncDispose]();
    assert.equal(vi.getTimerCount(), 0);
  });
});

/** Asks for a reload that never ends, and waits until it is under way. */
async function askForEver(house: AdminHouse) {
  const { promise: asked, resolve } = Promise.withResolvers<void>();
  house.reloaded = () => {
    resolve();
    return new Promise(() => {});
  };
  let isCut = false;
  house.ask("POST", "/api/reload", { body: {} }).catch(({ code }) => {
    isCut = code === "ECONNRESET";
  });
  await asked;
  return { isCut: () => isCut };
}
