import type { Meter, Observable } from "@opentelemetry/api";
import type { MetricReaders, ScalarMetricName } from "./metrics/metric-readers.ts";
import { METRICS } from "./metrics/metrics.ts";

/**
 * Tells the gateway's own metrics as /metrics does, under names that a collector turns into the same
 * ones again: `tollgate.decisions` for `tollgate_decisions_total`. They are read when they are sent,
 * and cost nothing on the way of a request.
 */
export function exportGatewayMetrics(
  meter: Meter,
  readings: MetricReaders,
  gather = async () => {},
): void {
  const told = new Map<Observable, NonNullable<MetricReaders[ScalarMetricName]>>();
  for (const name of Object.keys(readings) as ScalarMetricName[]) {
    const read = readings[name];
    if (read !== undefined) told.set(instrumentFor(meter, name), read);
  }
  meter.addBatchObservableCallback(
    async (result) => {
      await gather();
      for (const [instrument, read] of told) {
        for (const [labels, value] of read()) result.observe(instrument, value, labels);
      }
    },
    [...told.keys()],
  );
}

function instrumentFor(meter: Meter, name: ScalarMetricName): Observable {
  const { type, help: description } = METRICS[name];
  const own = `tollgate.${name.replace(/_total$|_seconds$/, "")}`;
  const options = { description, ...(name.endsWith("_seconds") && { unit: "s" }) };
  return type === "counter"
    ? meter.createObservableCounter(own, options)
    : meter.createObservableGauge(own, options);
}
