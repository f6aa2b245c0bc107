import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { BODY_BYTES } from "../load/messages.ts";
import type { Report, VariantRow } from "./report.ts";

/** A specification of Vega-Lite, which bench/report/render.mjs draws. */
type Plot = Readonly<Record<string, unknown>>;

const RENDER = join(import.meta.dirname, "render.mjs");
const SIZE = { width: 560, height: { step: 20 } };

/** SVG by name: "cpu". */
export function drawPlots(report: Report): Record<string, string> {
  const { status, stdout, stderr } = spawnSync(process.execPath, [RENDER], {
    input: JSON.stringify(plotsOf(report)),
    encoding: "utf8",
    maxBuffer: 100e6,
  });
  if (status !== 0) throw new Error(`Cannot draw the plots: ${stderr}`);
  return JSON.parse(stdout);
}

function plotsOf(report: Report): Record<string, Plot> {
  const plots: Record<string, Plot> = {};
  if (report.variants.some(({ loads }) => loads.closed)) plots.cpu = cpuPlot(report);
  if (report.variants.some(({ loads }) => loads.paced)) plots.latency = latencyPlot(report);
  if (report.variants.some(({ loads }) => loads.down)) plots.bytes = bytesPlot(report);
  if (report.growth.length > 1) plots.growth = growthPlot(report);
  return plots;
}

function cpuPlot(report: Report): Plot {
  const values = report.variants.flatMap((row) => {
    const { closed } = row.loads;
    if (closed === undefined) return [];
    const variant = label(row);
    return [
      { variant, part: "gateway", us: closed.gatewayUs, order: 0 },
      { variant, part: "store", us: closed.sumUs - closed.gatewayUs, order: 1 },
    ];
  });
  return bars(values, { field: "us", title: "CPU, microseconds a request", by: "part" });
}

function bytesPlot(report: Report): Plot {
  const values = report.variants.flatMap((row) => {
    const { down, up } = row.loads;
    if (down === undefined || up === undefined) return [];
    const variant = label(row);
    return [
      { variant, way: "down", megabytes: BODY_BYTES / down.sumUs },
      { variant, way: "up", megabytes: BODY_BYTES / up.sumUs },
    ];
  });
  const plot = bars(values, { field: "megabytes", title: "MB per CPU second", by: "way" });
  const encoding = plot.encoding as Plot;
  return { ...plot, encoding: { ...encoding, yOffset: { field: "way" } } };
}

function latencyPlot(report: Report): Plot {
  const values = report.variants.flatMap((row) => {
    const { paced } = row.loads;
    return paced === undefined ? [] : [{ variant: label(row), p50: paced.p50Ms, p99: paced.p99Ms }];
  });
  const x = (field: string) => ({
    field,
    type: "quantitative",
    scale: { type: "log" },
    title: "ms at the median (dot) and the 99th percentile (tick), 3,000 requests a second",
  });
  const y = { field: "variant", type: "nominal", sort: null, title: null };
  return {
    data: { values },
    ...SIZE,
    encoding: { y },
    layer: [
      { mark: "rule", encoding: { x: x("p50"), x2: { field: "p99" } } },
      { mark: { type: "point", filled: true, size: 60 }, encoding: { x: x("p50") } },
      { mark: { type: "tick", thickness: 3 }, encoding: { x: x("p99") } },
    ],
  };
}

function growthPlot(report: Report): Plot {
  const values = report.growth.flatMap(({ accounts, slice, gatewayBytes }) => [
    { accounts, what: "CPU, µs a request", value: slice.sumUs },
    { accounts, what: "gateway, resident MB", value: gatewayBytes / 1e6 },
  ]);
  return {
    data: { values },
    facet: { column: { field: "what", title: null } },
    resolve: { scale: { y: "independent" } },
    spec: {
      width: 260,
      height: 180,
      mark: { type: "line", point: true },
      encoding: {
        x: {
          field: "accounts",
          type: "quantitative",
          scale: { type: "log" },
          title: "active accounts",
        },
        y: { field: "value", type: "quantitative", title: null, scale: { zero: true } },
      },
    },
  };
}

type Bars = { readonly field: string; readonly title: string; readonly by: string };

function bars(values: readonly object[], { field, title, by }: Bars): Plot {
  return {
    data: { values },
    ...SIZE,
    mark: "bar",
    encoding: {
      x: { field, type: "quantitative", title },
      y: { field: "variant", type: "nominal", sort: null, title: null },
      color: { field: by, type: "nominal", title: null },
    },
  };
}

function label({ title, counts, keys }: VariantRow): string {
  return counts === "nothing"
    ? `${title}, bare`
    : `${title}, ${keys.toLocaleString("en-US")} ${keys === 1 ? "key" : "keys"}`;
}
