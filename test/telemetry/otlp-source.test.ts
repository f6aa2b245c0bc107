import assert from "node:assert/strict";
import { once } from "node:events";
import { ClientRequest } from "node:http";
import { type AddressInfo, createServer } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import { afterEach, describe, it, onTestFinished, vi } from "vitest";
import { createLog } from "../../src/telemetry/log/log.ts";
import { openOtlpExporter } from "../../src/telemetry/tracing/otlp.ts";
import { Telemetry } from "../../src/telemetry/tracing/telemetry.ts";
import { type Collector, openCollector } from "../support/otlp-collector.ts";
import { eventually } from "../support/poll.ts";

const FACTS = { scheme: "http", host: "a", version: "1.1" } as const;
const LINE = { method: "GET", path: "/", status: 200, durationMs: 1 } as never;
const SOURCE = { version: "1", instance: "one" };

const settingsOf = ({ origin }: Pick<Collector, "origin">, serviceName = "") => {
  return { otlp: origin, sample: 1, serviceName };
};

describe("the name of the service", () => {
  afterEach(() => vi.unstubAllEnvs());

  it.for([
    ["", "", "tollgate"],
    ["service.name=env,team=a", "", "env"],
    ["service.name=env,team=a", "own", "own"],
  ] as const)(
    "with OTEL_RESOURCE_ATTRIBUTES=%s and %s in the configuration is %s",
    async ([attributes, configured, name]) => {
      vi.stubEnv("OTEL_RESOURCE_ATTRIBUTES", attributes);
      await using collector = await openCollector();
      const exporter = openOtlpExporter(settingsOf(collector, configured), SOURCE, () => {});
      exporter.tracing.begin([]).end(LINE, FACTS);
      await exporter.close(60_000);
      const [{ resource } = assert.fail()] = collector.spans;
      assert.equal(resource["service.name"], name);
      assert.equal(resource.team, attributes === "" ? undefined : "a");
      assert.equal(resource["tollgate.worker"], undefined);
    },
  );
});

it("metrics are gathered before they are read, with the unit of seconds where the name has it", async () => {
  await using collector = await openCollector();
  let value = 0;
  const gather = async () => {
    await new Promise((resolve) => setImmediate(resolve));
    value = 7;
  };
  const readers = {
    keys: () => [[{ kind: "a" }, value]],
    config_last_reload_success_timestamp_seconds: () => [[{}, value]],
  };
  const source = { ...SOURCE, readers: readers as never, gather };
  const exporter = openOtlpExporter(settingsOf(collector), source, () => {});
  await exporter.close(60_000);
  const told = collector.points.map(({ metric, unit, value: one, attributes }) => {
    return [metric, unit, one, attributes];
  });
  assert.deepEqual(told.toSorted(), [
    ["tollgate.config_last_reload_success_timestamp", "s", 7, {}],
    ["tollgate.keys", "", 7, { kind: "a" }],
  ]);
});

it("a collector that never answers holds up an end as long as it may, and its spans are dropped", async () => {
  await using collector = await openCollector();
  collector.mood = "hang";
  const exporter = openOtlpExporter(settingsOf(collector), SOURCE, () => {});
  exporter.tracing.begin([]).end(LINE, FACTS);
  await eventually(() => assert.equal(collector.underWay(), 1));
  const startMs = performance.now();
  await exporter.close(50);
  const tookMs = performance.now() - startMs;
  assert.ok(tookMs > 45 && tookMs < 5_000, `${tookMs} ms`);
  assert.equal(exporter.dropped(), 1);
  // Sooner than the ten seconds that a batch may take.
  await eventually(() => assert.equal(collector.underWay(), 0), { withinMs: 5_000 });
});

it("a collector has ten seconds for a batch", async () => {
  onTestFinished(() => void vi.restoreAllMocks());
  const spied = vi.spyOn(ClientRequest.prototype, "setTimeout");
  await using collector = await openCollector();
  collector.mood = "hang";
  const exporter = openOtlpExporter(settingsOf(collector), SOURCE, () => {});
  exporter.tracing.begin([]).end(LINE, FACTS);
  await eventually(() => assert.equal(collector.underWay(), 1));
  // A batch that is tried again, as one of another exporter may be, has what is left of its time.
  assert.equal(Math.max(...spied.mock.calls.map(([ms]) => ms)), 10_000);
  await exporter.close(0);
});

it("an end waits for the batch that is on its way, though no other span is held", async () => {
  await using collector = await openCollector();
  collector.slowMs = 1_000;
  const exporter = openOtlpExporter(settingsOf(collector), SOURCE, () => {});
  exporter.tracing.begin([]).end(LINE, FACTS);
  await eventually(() => assert.equal(collector.underWay(), 1));
  await delay(100);
  // The metrics, which are sent at the end, take less time than that batch.
  collector.slowMs = 0;
  await exporter.close(60_000);
  assert.deepEqual([collector.spans.length, exporter.dropped()], [1, 0]);
});

it("an end that has nothing to send leaves no timer behind", async () => {
  await using collector = await openCollector();
  const timers = () => process.getActiveResourcesInfo().filter((name) => name === "Timeout").length;
  const before = timers();
  for (let i = 0; i < 20; i++) {
    await openOtlpExporter(settingsOf(collector), SOURCE, () => {}).close(600_000);
  }
  // Others of this process may come and go meanwhile, and not so many.
  assert.ok(timers() < before + 10, `${timers()}`);
});

it("a collector that takes nothing is told once, and once that it takes again", async () => {
  await using collector = await openCollector();
  const lines: unknown[] = [];
  const write = (line: string) => {
    const { level, msg, otlp, signal, why } = JSON.parse(line);
    lines.push([level, msg, otlp, signal, typeof why]);
  };
  const telemetry = new Telemetry(createLog({ write }, "info"));
  const settings = settingsOf(collector);
  await telemetry.configure(settings, SOURCE);
  const { tracing } = telemetry;
  await telemetry.configure({ ...settings }, SOURCE);
  assert.equal(telemetry.tracing, tracing, "the same settings open nothing anew");
  const shown = `${collector.origin}/***`;
  const unsent = ["warn", "telemetry_unsent", shown, "traces", "string"];
  const sent = ["info", "telemetry_sent", shown, "traces", "undefined"];
  collector.mood = "refuse";
  for (const dropped of [1, 2]) {
    tracing?.begin([]).end(LINE, FACTS);
    await eventually(() => assert.equal(telemetry.dropped, dropped));
  }
  assert.deepEqual(lines, [unsent]);
  collector.mood = "well";
  tracing?.begin([]).end(LINE, FACTS);
  await eventually(() => assert.deepEqual(lines, [unsent, sent]));
  assert.equal(collector.connections(), 1, "three batches over one connection");
  await telemetry.close(1_000);
  assert.equal(telemetry.tracing, undefined);
});

it("a span that is held when a reload turns telemetry off is sent, to a collector that takes its time", async () => {
  await using collector = await openCollector();
  collector.slowMs = 50;
  const telemetry = new Telemetry(createLog({ write: () => {} }, "info"));
  await telemetry.configure(settingsOf(collector), SOURCE);
  telemetry.tracing?.begin([]).end(LINE, FACTS);
  await telemetry.configure(undefined, SOURCE);
  await eventually(() => assert.equal(collector.spans.length, 1));
  assert.equal(telemetry.dropped, 0, "it was not given up before");
});

it("a collector at https is spoken to over TLS from the first byte on", async () => {
  const first = Promise.withResolvers<Buffer>();
  const server = createServer((socket) => {
    socket
      .on("error", () => {})
      .once("data", (chunk: Buffer) => {
        first.resolve(chunk);
        socket.destroy();
      });
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const settings = settingsOf({ origin: `https://127.0.0.1:${port}` });
  const exporter = openOtlpExporter(settings, SOURCE, () => {});
  exporter.tracing.begin([]).end(LINE, FACTS);
  const closed = exporter.close(300);
  const [handshake] = await first.promise;
  assert.equal(handshake, 22);
  await closed;
  server.close();
});
