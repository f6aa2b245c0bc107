import { BODY_BYTES } from "../load/messages.ts";
import type { Slice } from "../measure/slice.ts";
import { ratio } from "../measure/statistics.ts";
import { REFERENCE } from "../variants/variants.ts";
import type { Report, VariantRow } from "./report.ts";

/** A head and rows of text: the first column is words, the others are figures. */
export type Table = { readonly title: string; readonly rows: readonly (readonly string[])[] };

/** Every table of a report that has something in it. */
export function tablesOf(report: Report): Table[] {
  const all = [
    { title: "Without pause, 64 connections", rows: closedRows(report) },
    { title: "At 3,000 requests a second", rows: pacedRows(report) },
    { title: "Bodies of 64 KiB", rows: bodyRows(report) },
    { title: "Refusals of Tollgate on Redis", rows: refusalRows(report) },
    { title: "Growth of Tollgate on Redis", rows: growthRows(report) },
    { title: "Targets", rows: targetRows(report) },
  ];
  return all.filter(({ rows }) => rows.length > 1);
}

export function closedRows(report: Report): string[][] {
  const reference = of(report, REFERENCE)?.loads.closed;
  const head = ["variant", "decides", "keys", "gateway µs", "gateway + store µs"];
  const more = ["× Tollgate", "p50 ms", "p99 ms", "requests/s", "commands/request"];
  const rows = report.variants.flatMap(({ title, counts, keys, loads: { closed } }) => {
    if (closed === undefined) return [];
    return [
      [
        ...[title, counts, count(keys), closed.gatewayUs.toFixed(1), closed.sumUs.toFixed(1)],
        ...[times(closed.sumUs, reference?.sumUs, report.noise.closed?.sumUs)],
        ...[closed.p50Ms.toFixed(2), closed.p99Ms.toFixed(2), count(closed.requestsPerSecond)],
        commands(closed),
      ],
    ];
  });
  return [[...head, ...more], ...rows];
}

function pacedRows(report: Report): string[][] {
  const reference = of(report, REFERENCE)?.loads.paced;
  const head = ["variant", "keys", "gateway µs", "gateway + store µs", "× Tollgate"];
  const rows = report.variants.flatMap(({ title, keys, loads: { paced } }) => {
    if (paced === undefined) return [];
    return [
      [
        ...[title, count(keys), paced.gatewayUs.toFixed(1), paced.sumUs.toFixed(1)],
        ...[times(paced.sumUs, reference?.sumUs, report.noise.paced?.sumUs)],
        ...[paced.p50Ms.toFixed(2), paced.p99Ms.toFixed(2), commands(paced)],
      ],
    ];
  });
  return [[...head, "p50 ms", "p99 ms", "commands/request"], ...rows];
}

function bodyRows(report: Report): string[][] {
  const { down, up } = of(report, REFERENCE)?.loads ?? {};
  const rows = report.variants.flatMap(({ title, keys, loads }) => {
    if (loads.down === undefined || loads.up === undefined) return [];
    return [
      [
        ...[title, count(keys), megabytes(loads.down), megabytes(loads.up)],
        times(1 / loads.down.sumUs, down && 1 / down.sumUs, report.noise.down?.sumUs),
        times(1 / loads.up.sumUs, up && 1 / up.sumUs, report.noise.up?.sumUs),
      ],
    ];
  });
  const head = [
    "variant",
    "keys",
    "MB down/CPU s",
    "MB up/CPU s",
    "down × Tollgate",
    "up × Tollgate",
  ];
  return [head, ...rows];
}

function refusalRows(report: Report): string[][] {
  const head = ["traffic", "gateway µs", "gateway + store µs", "× admitted", "p50 ms", "p99 ms"];
  const admitted = report.refusals.find(({ name }) => name === "admitted")?.slice;
  const rows = report.refusals.map(({ title, slice }) => [
    ...[title, slice.gatewayUs.toFixed(1), slice.sumUs.toFixed(1)],
    admitted === undefined ? "" : (slice.sumUs / admitted.sumUs).toFixed(2),
    ...[slice.p50Ms.toFixed(2), slice.p99Ms.toFixed(2), count(slice.requestsPerSecond)],
    slice.commandsPerSecond.toFixed(1),
  ]);
  return [[...head, "requests/s", "commands/s"], ...rows];
}

function growthRows(report: Report): string[][] {
  const head = ["active accounts", "gateway µs", "gateway + store µs", "p99 ms"];
  const rows = report.growth.map(({ accounts, slice, gatewayBytes, storeBytesPerAccount }) => [
    ...[count(accounts), slice.gatewayUs.toFixed(1), slice.sumUs.toFixed(1)],
    ...[slice.p99Ms.toFixed(2), commands(slice), count(gatewayBytes / 1e6)],
    storeBytesPerAccount.toFixed(0),
  ]);
  return [[...head, "commands/request", "gateway RSS MB", "Redis bytes/account"], ...rows];
}

function targetRows(report: Report): string[][] {
  const rows = report.targets.map(({ what, target, found, distance, met }) => {
    const measured = found.toFixed(found < 10 ? 2 : 0);
    return [what, target, measured, `${distance.toFixed(2)} ×`, met ? "met" : "missed"];
  });
  return [["what", "target", "measured", "of the limit", "so"], ...rows];
}

/** The row of a variant; undefined where it was not measured. */
export function of(report: Report, name: string): VariantRow | undefined {
  return report.variants.find((row) => row.name === name);
}

function times(value: number, reference: number | undefined, noise = 0): string {
  if (reference === undefined) return "";
  const found = ratio(value, reference, noise);
  return found === "none" ? "none" : found.toFixed(2);
}

/** Bytes a microsecond are megabytes a second. */
function megabytes({ sumUs }: Slice): string {
  return count(BODY_BYTES / sumUs);
}

function commands({ commandsPerRequest }: Slice): string {
  return commandsPerRequest === 0 ? "" : commandsPerRequest.toFixed(2);
}

function count(value: number): string {
  return Math.round(value).toLocaleString("en-US");
}
