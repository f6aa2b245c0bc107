import type { Report } from "./report.ts";
import { type Table, tablesOf } from "./tables.ts";

/** The generator is the bottleneck when it has no core left. */
const BUSY_SHARE = 0.9;
/** V8 needs them until its code is as fast as it gets. */
const WARM_REQUESTS = 75_000;
/** Copies of one variant that lie further apart tell of the machine, not of the variants. */
const NOISE_MAX = 0.15;

/** Whether all was warm and the noise small: else the README keeps the table that it has. */
export function isTrusted(report: Pick<Report, "noise" | "options">): boolean {
  return isQuiet(report) && report.options.warmUpRequests >= WARM_REQUESTS;
}

/** Whether the copies of a variant agreed on the CPU of a request; whatever else ran. */
export function isQuiet({ noise }: Pick<Report, "noise">): boolean {
  return noise.closed !== undefined && noise.closed.sumUs <= NOISE_MAX;
}

/** For people at a terminal. */
export function textReport(report: Report): string {
  return `${[...tablesOf(report).map(tableText), ...remarks(report)].join("\n\n")}\n`;
}

/** The limits of the figures, a sentence each. */
export function remarks(report: Report): string[] {
  const { noise, leftOut, variants, options } = report;
  const said: string[] = [];
  if (options.warmUpRequests < WARM_REQUESTS) {
    said.push(
      "The warm-up was short: V8 was still optimising, so that whatever runs on Node, Tollgate and most of its peers, took up to several times the CPU that it takes when warm, while nginx and HAProxy did not.",
    );
  }
  if (report.line !== undefined) {
    const noise = percent(report.line.noise);
    said.push(`Noise of the log line and the metrics by themselves: ${noise} of CPU.`);
  }
  for (const [load, { sumUs, p99Ms }] of Object.entries(noise)) {
    const [cpu, latency] = [percent(sumUs), percent(p99Ms)];
    said.push(
      `Noise of ${load}: ${cpu} of CPU, ${latency} of p99; a difference below it is "none".`,
    );
  }
  for (const { title, why } of leftOut) said.push(`Left out: ${title}, ${why}.`);
  for (const { title, failures } of variants) {
    if (failures.length > 0)
      said.push(`${title}: ${failures.length} slices spoilt: ${failures[0]}.`);
  }
  const busy = variants.filter(({ loads }) => {
    return Object.values(loads).some((slice) => slice.generatorShare > BUSY_SHARE);
  });
  if (busy.length > 0) {
    const names = busy.map(({ title }) => title).join(", ");
    said.push(`The load generator had no core to spare, and is in the latency of: ${names}.`);
  }
  return said;
}

function percent(share: number): string {
  return `${Math.round(share * 100)} %`;
}

function tableText({ title, rows }: Table): string {
  const widths = (rows[0] ?? []).map((_, i) => Math.max(...rows.map((row) => row[i]?.length ?? 0)));
  const lines = rows.map((row) => {
    const cells = row.map((cell, i) => {
      const width = widths[i] ?? 0;
      return isWords(rows, i) ? cell.padEnd(width) : cell.padStart(width);
    });
    return cells.join("  ").trimEnd();
  });
  return [title, ...lines].join("\n");
}

/** Whether a column has words below its head, which stand to the left. */
export function isWords(rows: Table["rows"], column: number): boolean {
  return rows
    .slice(1)
    .some((row) => /^[a-z].*[a-z]{2}/i.test(row[column] ?? "") && row[column] !== "none");
}
