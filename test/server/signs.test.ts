import assert from "node:assert/strict";
import { X509Certificate } from "node:crypto";
import { mkdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { connect } from "node:net";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { describe, it, onTestFinished, vi } from "vitest";
import { freshMetrics } from "../admin/scrape.ts";
import { startTestUpstream } from "../support/gateway/backend.ts";
import { startTestGateway, type TestGateway } from "../support/gateway/house.ts";
import { KEY } from "../support/gateway/served.ts";
import { watchStalls } from "../support/in-time.ts";
import { eventually } from "../support/poll.ts";
import { startRedis } from "../support/redis/redis.ts";
import { openAuthority } from "../support/wire/certificates.ts";
import { openTcpProxy } from "../support/wire/tcp-proxy.ts";

const metricsOf = (house: TestGateway) => freshMetrics(house.adminUrl);
const eventsOf = (house: TestGateway, kind: string) =>
  house.said.filter((line) => line.msg === "event" && line.kind === kind);

/** Sum and number of a histogram with these labels, as they are written. */
function histogram(samples: ReadonlyMap<string, number>, name: string, labels = "") {
  const of = (suffix: string) => samples.get(`tollgate_${name}_${suffix}${labels}`);
  return { sum: of("sum") ?? Number.NaN, count: of("count") };
}

describe("the records of keys", () => {
  it("are told in numbers, revoked ones too", async () => {
    await using house = await startTestGateway();
    const { id } = await house.issue({ account: "acme" });
    await house.issue({ account: "acme" });
    await house.issue();
    await house.admin(`/api/keys/${id}/revoke`, { method: "POST", body: "{}" });
    const samples = await metricsOf(house);
    assert.equal(samples.get("tollgate_keys"), 3);
    assert.equal(samples.get("tollgate_accounts"), 2);
    for (const check of ["config", "store", "keys", "upstreams", "draining"]) {
      assert.equal(samples.get(`tollgate_ready{check="${check}"}`), 1, check);
    }
  });

  it("that cannot be read are a failed check, an event, and a counter that rises until they can", async () => {
    await using house = await startTestGateway();
    await house.issue();
    const file = join(house.directory, "keys.json");
    assert.equal((await metricsOf(house)).get("tollgate_keys_unreadable_total"), 0);
    await rename(file, `${file}.away`);
    await eventually(async () => {
      const samples = await metricsOf(house);
      assert.ok((samples.get("tollgate_keys_unreadable_total") ?? 0) >= 3);
      assert.equal(samples.get('tollgate_ready{check="keys"}'), 0);
      assert.equal(samples.get('tollgate_ready{check="store"}'), 1);
      assert.equal(samples.get("tollgate_keys"), 1, "those read before stay in use");
    });
    assert.equal(eventsOf(house, "keys_unreadable").length, 1);
    const owed = [...(await metricsOf(house))].filter(([name]) => {
      return /^tollgate_charges_owed\{gateway="[^"]+-[0-9a-f]{6}(?:-\d+)?"\}$/.test(name);
    });
    assert.deepEqual(
      owed.map(([, value]) => value),
      [0],
      "by the name of the gateway",
    );
    await rename(`${file}.away`, file);
    await eventually(async () => {
      assert.equal((await metricsOf(house)).get('tollgate_ready{check="keys"}'), 1);
    });
    const before = (await metricsOf(house)).get("tollgate_keys_unreadable_total");
    await pause(1_000);
    assert.equal((await metricsOf(house)).get("tollgate_keys_unreadable_total"), before);
  });

  it("that are damaged are counted, and the others stay", async () => {
    await using house = await startTestGateway();
    const { id } = await house.issue();
    await house.issue();
    const file = join(house.directory, "keys.json");
    const whole = await readFile(file, "utf8");
    const ill = whole.replace(`"id":"${id}"`, `"id":"not an id"`);
    assert.notEqual(ill, whole);
    const put = async (text: string) => {
      await writeFile(`${file}.new`, text);
      await rename(`${file}.new`, file);
    };
    await put(ill);
    await eventually(async () => {
      const samples = await metricsOf(house);
      assert.equal(samples.get("tollgate_keys_damaged"), 1);
      assert.equal(samples.get('tollgate_ready{check="keys"}'), 0);
    });
    await put(whole);
    await eventually(async () => {
      assert.equal((await metricsOf(house)).get("tollgate_keys_damaged"), 0);
    });
  });

  it("that Redis has in an older state are an event and counted, once", async () => {
    const redis = await startRedis();
    try {
      const config = { store: redis.url, keys: "redis", stateFile: "./copy.json" };
      await using house = await startTestGateway({ config });
      const { account } = await house.issue({ account: "acme" });
      const client = await redis.client();
      const older = await client.dumpBuffer("tg:{0}:keys");
      const body = JSON.stringify({ plan: "pro" });
      assert.equal(
        (await house.admin(`/api/accounts/${account}`, { method: "PATCH", body })).status,
        200,
      );
      assert.equal((await metricsOf(house)).get("tollgate_keys_older_total"), 0);
      await client.restore("tg:{0}:keys", 0, older, "REPLACE");
      await eventually(async () => {
        assert.equal((await metricsOf(house)).get("tollgate_keys_older_total"), 1);
      });
      assert.equal(eventsOf(house, "keys_older").length, 1);
      await pause(1_000);
      assert.equal((await metricsOf(house)).get("tollgate_keys_older_total"), 1);
    } finally {
      await redis.close();
    }
  });
});

it("a state file that cannot be written is an event, and a counter that rises until it can", async () => {
  await using house = await startTestGateway({ config: { stateFile: "./state/state.json" } });
  const folder = join(house.directory, "state");
  const { key } = await house.issue();
  await rm(folder, { recursive: true, force: true });
  await writeFile(folder, "");
  await house.ask(key);
  await eventually(async () => {
    assert.ok(((await metricsOf(house)).get("tollgate_state_file_unwritten_total") ?? 0) >= 2);
  });
  assert.equal(eventsOf(house, "state_file_unwritten").length, 1);
  await rm(folder);
  await mkdir(folder);
  await eventually(() => {
    assert.ok(house.said.some(({ msg }) => msg === "state_file_written"));
  });
});

it("bans are counted by environment, from 0 on", async () => {
  const bans = { strikes: 1, grace: "0s", within: "1h", duration: "1h" };
  await using house = await startTestGateway({ config: { plans: { free: { month: 1 } }, bans } });
  const { key } = await house.issue();
  const banned = async () => (await metricsOf(house)).get('tollgate_bans_total{env="production"}');
  assert.equal(await banned(), 0);
  for (const status of [200, 429]) assert.equal((await house.ask(key)).status, status);
  await eventually(async () => {
    await house.ask(key);
    assert.equal(eventsOf(house, "ban").length, 1);
  });
  assert.equal(await banned(), 1);
});

it("certificates are told by the instant at which the first of each file ends", async () => {
  using authority = openAuthority();
  const [served, client] = [authority.issue(["DNS:api.test"]), authority.issue(["DNS:client"])];
  const expired = authority.issue(["DNS:old"], { expired: true });
  const files = {
    "cert.pem": served.cert,
    "key.pem": served.key,
    "client.pem": client.cert,
    "client-key.pem": client.key,
    // A chain ends with the first of it that does.
    "ca.pem": `${authority.ca}${expired.cert}`,
  };
  await using house = await startTestGateway({
    files,
    environment: {
      tls: { cert: "./cert.pem", key: "./key.pem" },
      upstreams: ["https://127.0.0.1:9"],
      upstreamTls: { ca: "./ca.pem", cert: "./client.pem", key: "./client-key.pem" },
    },
  });
  const samples = await metricsOf(house);
  const nameOf = (certificate: string) =>
    `tollgate_certificate_expiry_timestamp_seconds{env="production",certificate="${certificate}"}`;
  const end = (certificate: string) => samples.get(nameOf(certificate));
  const of = (pem: string) => new X509Certificate(pem).validToDate.getTime() / 1_000;
  assert.equal(end("listener"), of(served.cert));
  assert.equal(end("upstream_client"), of(client.cert));
  assert.equal(end("upstream_ca"), of(expired.cert));

  // A bundle of authorities takes 20 ms, in which no request is served.
  await house.rewrite({ limits: { connectTimeout: "3s", drain: "1s" } });
  assert.equal((await house.gateway.reload()).ok, true);
  const parsed = vi.spyOn(X509Certificate.prototype, "validToDate", "get");
  onTestFinished(() => parsed.mockRestore());
  const after = await metricsOf(house);
  assert.equal(after.get(nameOf("upstream_ca")), end("upstream_ca"));
  assert.equal(parsed.mock.calls.length, 0, "what a reload keeps is not parsed again");
});

describe("the times of a request", () => {
  it("tell the store's, the backend's and the gateway's own apart, and leave none of them out", async () => {
    const redis = await startRedis();
    await using far = await openTcpProxy({ port: redis.port });
    await using backend = await startTestUpstream(async (_seen, response) => {
      await pause(120);
      response.writeHead(200).end("[]");
    });
    try {
      const config = { store: `redis://127.0.0.1:${far.port}`, storeTimeout: "1s" };
      await using house = await startTestGateway({ config, backend });
      const { key } = await house.issue();
      far.behave({ answerLatencyMs: 60 });
      for (let i = 0; i < 5; i++) assert.equal((await house.ask(key)).status, 200);
      await eventually(() => assert.equal(house.lines.length, 5));
      const samples = await metricsOf(house);
      const env = '{env="production"}';
      const own = histogram(samples, "overhead_duration_seconds", env);
      const origin = `{env="production",upstream="${backend.origin}"}`;
      const upstream = histogram(samples, "upstream_duration_seconds", origin);
      const whole = histogram(
        samples,
        "http_request_duration_seconds",
        '{env="production",source="backend"}',
      );
      const store = histogram(samples, "store_call_duration_seconds");
      assert.equal(own.count, 5);
      assert.equal(upstream.count, 5);
      assert.ok((store.count ?? 0) >= 5);
      assert.ok(upstream.sum >= 0.6 && upstream.sum < whole.sum - 0.3, `backend ${upstream.sum}`);
      assert.ok(store.sum >= 0.3, `store ${store.sum}`);
      // The gateway's own are few of 900 ms, although all requests waited for both others.
      const most = Math.max(0.1, whole.sum - 0.6 - 0.3);
      assert.ok(own.sum < most + 0.001, `${own.sum} of ${whole.sum}`);
      assert.ok(own.sum > 0);
    } finally {
      await redis.close();
    }
  });

  it("of a refusal have no backend in them, and an unreachable backend is not the gateway's own time", async () => {
    const environment = {
      upstreams: ["http://127.0.0.1:9"],
      limits: { connectRetry: "300ms" },
    };
    await using house = await startTestGateway({ environment });
    const { key } = await house.issue();
    const refused = await watchStalls(() => house.ask("nobody"));
    assert.equal(refused.value.status, 401);
    let samples = await metricsOf(house);
    const env = '{env="production"}';
    assert.equal(histogram(samples, "overhead_duration_seconds", env).count, 1);
    assert.doesNotMatch([...samples.keys()].join("\n"), /upstream_duration_seconds_count/);
    const unreached = await watchStalls(() => house.ask(key));
    assert.equal(unreached.value.status, 502);
    samples = await metricsOf(house);
    const own = histogram(samples, "overhead_duration_seconds", env);
    assert.equal(own.count, 2);
    const stalledMs = refused.stalledMs + unreached.stalledMs;
    assert.ok(own.sum < 0.3 + stalledMs / 1_000, `${own.sum} s, ${stalledMs} ms stalled`);
    const told = [...samples.keys()].join("\n");
    assert.doesNotMatch(told, /(upstream|route)_duration_seconds_count/, "no backend got it");
  });

  it("begin at the first byte of each head, if it comes in pieces, and not while nothing has come", async () => {
    await using house = await startTestGateway({ keys: { [KEY]: {} } });
    const client = connect(house.port, "127.0.0.1").on("error", () => {});
    const head = `GET /v1/pets HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${KEY}\r\n\r\n`;
    const told = async (...pieces: readonly string[]) => {
      const before = house.lines.length;
      for (const piece of pieces) {
        await pause(150);
        client.write(piece);
      }
      await eventually(() => assert.equal(house.lines.length, before + 1));
      return house.lines.at(-1)?.durationMs ?? 0;
    };
    const whole = await watchStalls(() => told("\r\n", head));
    assert.ok(whole.value < 150 + whole.stalledMs, `${whole.value} ms`);
    for (const pieces of [3, 2]) {
      const size = Math.ceil(head.length / pieces);
      const cut = Array.from({ length: pieces }, (_, i) => head.slice(i * size, (i + 1) * size));
      const slow = await told(...cut);
      // A timer may fire a millisecond early.
      assert.ok(slow >= (pieces - 1) * 149, `${slow} ms of ${pieces} pieces`);
    }
    const again = await watchStalls(() => told(head));
    assert.ok(again.value < 150 + again.stalledMs, `${again.value} ms`);
    client.destroy();
  });

  it("are told by route for as many operations as metrics.routes says, then together", async () => {
    const config = { metrics: { routes: 1 } };
    await using house = await startTestGateway({ config });
    const { key } = await house.issue();
    for (const path of ["/v1/pets", "/v1/pets/1", "/v1/pets/2", "/v1/pets"]) {
      await (await house.ask(key, path)).text();
    }
    await (await house.ask(key, "/v1/nothing")).text();
    await eventually(() => assert.equal(house.lines.length, 5));
    const count = async (labels: string) => {
      return histogram(await metricsOf(house), "route_duration_seconds", labels).count;
    };
    assert.equal(await count('{env="production",route="/v1/pets"}'), 2);
    assert.equal(await count('{env="production",route="/v1/pets/{petId}"}'), undefined);
    assert.equal(await count('{env="overflow",route="overflow"}'), 2);
    await house.rewrite({ metrics: { routes: 2 } });
    await house.admin("/api/reload", { method: "POST", body: "{}" });
    await (await house.ask(key, "/v1/pets/1")).text();
    await eventually(() => assert.equal(house.lines.length, 6));
    assert.equal(await count('{env="production",route="/v1/pets/{petId}"}'), 1);
    assert.equal(await count('{env="overflow",route="overflow"}'), 2);
    await house.law();
  });
});
