import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { it } from "vitest";
import { startTestUpstream } from "../support/gateway/backend.ts";
import { KEY, spawnGateway } from "../support/gateway/served.ts";
import { openCollector } from "../support/otlp-collector.ts";
import { eventually } from "../support/poll.ts";
import { openClient, requestBytes } from "../support/wire/client.ts";

const HEAD_MS = 300;
const WAIT = { withinMs: 20_000 };

it("the SERVER span of a request lasts as long as its line and its duration say, the head included", async () => {
  await using collector = await openCollector();
  await using backend = await startTestUpstream();
  const config = { telemetry: { otlp: collector.origin, sample: 1 } };
  await using served = await spawnGateway({ upstreams: [backend.origin], config });
  await using client = await openClient(served.port);
  const bytes = requestBytes({ key: KEY });
  client.write(bytes.subarray(0, 20));
  await sleep(HEAD_MS);
  client.write(bytes.subarray(20));
  await client.responses(["GET"]);
  client.write(bytes);
  await client.responses(["GET"]);
  const durationsMs = await eventually(() => {
    const spans = collector.spans.filter(({ kind }) => kind === "SERVER");
    assert.deepEqual([spans.length, served.lines.length], [2, 2]);
    return spans.map(({ traceId, durationMs }) => {
      const line = served.lines.find((one) => one.traceId === traceId) ?? assert.fail();
      return [durationMs, line.durationMs] as const;
    });
  }, WAIT);
  const [slow, quick] = durationsMs.toSorted(([one], [other]) => other - one);
  assert.ok(slow !== undefined && quick !== undefined);
  assert.ok(Math.abs(slow[0] - slow[1]) < 1, `span ${slow[0]} ms, line ${slow[1]} ms`);
  assert.ok(slow[0] > HEAD_MS - 10 && quick[0] < slow[0], `${durationsMs}`);
});
