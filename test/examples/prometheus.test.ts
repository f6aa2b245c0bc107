import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { it } from "vitest";
import { parse, stringify } from "yaml";
import { startTestUpstream } from "../support/gateway/backend.ts";
import { startProgram } from "../support/gateway/processes.ts";
import { KEY, type SpawnedGateway, spawnGateway } from "../support/gateway/served.ts";
import { needing } from "../support/needing.ts";
import { eventually } from "../support/poll.ts";
import { freePort, startRedis } from "../support/redis/redis.ts";
import { sendRequest } from "../support/wire/client.ts";
import { readExample } from "./example-file.ts";

type Alert = {
  readonly state: string;
  readonly value: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
};
type Rule = { readonly name: string; readonly health: string; readonly lastError?: string };
type Rules = { groups: { rules: { for?: string }[] }[] };

const WITHIN = { withinMs: 60_000, everyMs: 100 };
/** A machine of tests is slow now and then: that these fire says nothing of the gateways. */
const OF_TIME = ["TollgateStoreSlow", "TollgateGatewaySlow", "TollgateSlow", "TollgateRouteSlow"];

/** A real Prometheus that scrapes these each second and waits a second where the examples wait long. */
async function startPrometheus(targets: readonly string[]) {
  const folder = await mkdtemp(join(tmpdir(), "tollgate-prometheus-"));
  const rules = parse(readExample("prometheus/alerts.yaml")) as Rules;
  for (const rule of rules.groups.flatMap((group) => group.rules)) {
    if (rule.for !== undefined) rule.for = "2s";
  }
  const config = parse(readExample("prometheus/prometheus.yaml"));
  Object.assign(config.global, { scrape_interval: "1s", evaluation_interval: "1s" });
  config.scrape_configs[0].static_configs = [{ targets }];
  await writeFile(join(folder, "alerts.yaml"), stringify(rules));
  await writeFile(join(folder, "prometheus.yaml"), stringify(config));
  const port = await freePort();
  const running = startProgram("prometheus", [
    `--config.file=${join(folder, "prometheus.yaml")}`,
    `--storage.tsdb.path=${join(folder, "data")}`,
    `--web.listen-address=127.0.0.1:${port}`,
  ]);
  const ask = async <T>(path: string): Promise<T> => {
    const response = await fetch(`http://127.0.0.1:${port}/api/v1/${path}`);
    assert.equal(response.status, 200, path);
    return ((await response.json()) as { data: T }).data;
  };
  return {
    firing: async (): Promise<readonly Alert[]> => {
      const { alerts } = await ask<{ alerts: Alert[] }>("alerts");
      return alerts.filter(({ state }) => state === "firing");
    },
    rules: async (): Promise<readonly Rule[]> => {
      const { groups } = await ask<{ groups: { rules: Rule[] }[] }>("rules");
      return groups.flatMap((group) => group.rules);
    },
    query: async (text: string): Promise<number[]> => {
      const path = `query?query=${encodeURIComponent(text)}`;
      const { result } = await ask<{ result: { value: [number, string] }[] }>(path);
      return result.map(({ value: [, value] }) => Number(value));
    },
    [Symbol.asyncDispose]: async () => {
      await running.stop();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

/** The alerts that fire, each with its instance, sorted. */
async function namesOf(prometheus: { firing(): Promise<readonly Alert[]> }): Promise<string[]> {
  const alerts = await prometheus.firing();
  const told = alerts.filter(({ labels }) => !OF_TIME.includes(labels.alertname ?? ""));
  return told.map(({ labels }) => `${labels.alertname} ${labels.instance}`).sort();
}

async function sendTo(gateways: readonly SpawnedGateway[], count: number): Promise<void> {
  for (let i = 0; i < count; i++) {
    for (const { port } of gateways) {
      assert.equal((await sendRequest(port, { key: KEY })).status, 200);
    }
  }
}

const hostOf = ({ adminUrl }: SpawnedGateway) => new URL(adminUrl).host;

it(
  "a real Prometheus tells an outage of Redis at two gateways, and what the one that is killed in it owed",
  needing("prometheus"),
  async () => {
    const redis = await startRedis();
    await using backend = await startTestUpstream();
    // A gateway that is stopped still holds its connections: only a heartbeat or a call finds it away.
    const config = { store: redis.url, storeTimeout: "300ms", expectedGateways: 2 };
    try {
      await using stays = await spawnGateway({ upstreams: [backend.origin], config });
      await using goes = await spawnGateway({ upstreams: [backend.origin], config });
      await using prometheus = await startPrometheus([hostOf(stays), hostOf(goes)]);
      const firing = () => namesOf(prometheus);
      const send = (count: number) => sendTo([stays, goes], count);

      await send(5);
      await eventually(async () => {
        const rules = await prometheus.rules();
        assert.ok(rules.length > 25);
        for (const { name, health, lastError } of rules)
          assert.equal(health, "ok", name + lastError);
        const [count] = await prometheus.query("sum(tollgate_store_call_duration_seconds_count)");
        assert.ok((count ?? 0) >= 10, "the store's calls are scraped");
      }, WITHIN);
      assert.deepEqual(await prometheus.query("tollgate_keys"), [1, 1]);
      assert.deepEqual(await firing(), []);

      redis.stop();
      const away = [stays, goes].map((one) => `TollgateStoreAway ${hostOf(one)}`);
      await eventually(async () => assert.deepEqual(await firing(), away.toSorted()), WITHIN);
      await send(7);
      await eventually(async () => {
        assert.deepEqual(await prometheus.query("tollgate_charges_owed"), [7, 7]);
      }, WITHIN);
      assert.deepEqual(await prometheus.query('tollgate_ready{check="store"}'), [0, 0]);
      await goes.running.kill();
      const lost = [`TollgateDown ${hostOf(goes)}`, `TollgateChargesLost ${hostOf(goes)}`];
      await eventually(async () => {
        assert.deepEqual(await firing(), [away[0], ...lost].sort());
      }, WITHIN);

      redis.cont();
      await eventually(async () => {
        assert.deepEqual(await firing(), lost.sort());
        assert.deepEqual(await prometheus.query("tollgate_charges_owed"), [0]);
      }, WITHIN);
      const alerts = await prometheus.firing();
      const told = alerts.find(({ labels }) => labels.alertname === "TollgateChargesLost");
      assert.equal(Number(told?.value), 7);
      assert.match(told?.annotations.summary ?? "", /^7 units were admitted by .* not be charged$/);
      // The law (docs/reference/http.md#law), with what Prometheus told as lost.
      const charged = [stays, goes].flatMap(({ lines }) => lines.map((entry) => entry.charged));
      assert.equal(
        charged.reduce((sum, units) => sum + units, 0),
        (await stays.counted()) + 7,
      );
      assert.equal(backend.seen.length, 24);
    } finally {
      redis.cont();
      await redis.close();
    }
  },
);
