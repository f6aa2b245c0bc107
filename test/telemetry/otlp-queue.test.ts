import assert from "node:assert/strict";
import { ROOT_CONTEXT } from "@opentelemetry/api";
import {
  AlwaysOnSampler,
  type ReadableSpan,
  type SpanExporter,
  TracerProvider,
} from "@opentelemetry/sdk-trace";
import { it, onTestFinished, vi } from "vitest";
import { SpanQueue } from "../../src/telemetry/tracing/otlp-queue.ts";
import { eventually } from "../support/poll.ts";

type Done = Parameters<SpanExporter["export"]>[1];

/** A queue before an exporter that answers when the test says so. */
function house() {
  const batches: { readonly spans: readonly ReadableSpan[]; readonly done: Done }[] = [];
  const sent: (string | undefined)[] = [];
  const exporter: SpanExporter = {
    export: (spans, done) => void batches.push({ spans, done }),
    shutdown: async () => {},
  };
  const queue = new SpanQueue(exporter, (why) => sent.push(why));
  const provider = new TracerProvider({ sampler: new AlwaysOnSampler(), spanProcessors: [queue] });
  const tracer = provider.getTracer("test");
  const end = (count: number) => {
    for (let i = 0; i < count; i++) tracer.startSpan("one", {}, ROOT_CONTEXT).end();
  };
  return { batches, sent, queue, end };
}

it("a queue holds 4,096 spans, those on their way included, and counts what it drops beyond", () => {
  const { batches, queue, end } = house();
  end(4_096);
  assert.deepEqual([batches.length, queue.dropped], [1, 0]);
  end(1);
  assert.equal(queue.dropped, 1);
  batches[0]?.done({ code: 0 });
  end(batches[0]?.spans.length ?? 0);
  assert.equal(queue.dropped, 1);
  end(10);
  assert.equal(queue.dropped, 11);
});

it("a batch that the collector does not take is dropped whole, and told with its reason", async () => {
  const { batches, sent, queue, end } = house();
  end(512);
  batches[0]?.done({ code: 1, error: new Error("connect ECONNREFUSED") });
  assert.deepEqual(sent, ["connect ECONNREFUSED"]);
  assert.equal(queue.dropped, 512);
  end(512);
  await eventually(() => assert.equal(batches.length, 2));
  batches[1]?.done({ code: 1 });
  assert.deepEqual([sent[1], queue.dropped], ["it gave no reason", 1_024]);
  end(512);
  await eventually(() => assert.equal(batches.length, 3));
  batches[2]?.done({ code: 0 });
  assert.deepEqual([sent[2], queue.dropped], [undefined, 1_024]);
});

it("spans that are given up at the end are counted once, whatever becomes of them later", () => {
  const { batches, queue, end } = house();
  end(600);
  queue.abandon();
  assert.equal(queue.dropped, 600);
  batches[0]?.done({ code: 1, error: new Error("late") });
  assert.equal(queue.dropped, 600);
});

it("a queue whose collector took none of 4,096 spans still takes the next ones", async () => {
  const { batches, queue, end } = house();
  end(4_096);
  for (let i = 0; i < 8; i++) {
    await eventually(() => assert.equal(batches.length, i + 1));
    batches[i]?.done({ code: 1, error: new Error("503") });
  }
  assert.equal(queue.dropped, 4_096);
  end(4_096);
  assert.equal(queue.dropped, 4_096);
  end(1);
  assert.equal(queue.dropped, 4_097);
});

it("a span is sent within a second of its end, though no other one comes", () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  onTestFinished(() => void vi.useRealTimers());
  const { batches, end } = house();
  end(1);
  vi.advanceTimersByTime(999);
  assert.equal(batches.length, 0);
  vi.advanceTimersByTime(1);
  assert.deepEqual(
    batches.map(({ spans }) => spans.length),
    [1],
  );
});
