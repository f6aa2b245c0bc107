import { readFileSync } from "node:fs";
import { REFERENCE, RIVAL } from "../variants/variants.ts";
import type { Report } from "./report.ts";
import { closedRows, of, type Table, tablesOf } from "./tables.ts";
import { isQuiet, isWords, remarks } from "./text.ts";

/** A text for each table, and the plot beside it. */
const WORDS: Readonly<Record<string, { readonly plot?: string; readonly text: string }>> = {
  "Without pause, 64 connections": {
    plot: "cpu",
    text: "Each connection sends its next request when it has its answer. CPU is that of all processes of a gateway, and of Redis, in microseconds a request; it does not depend on how many cores there are, as requests a second do. The bare proxies decide nothing and log nothing: they are what there is to decide on top of.",
  },
  "At 3,000 requests a second": {
    plot: "latency",
    text: "Requests come evenly, whatever the answers do: there is little to batch, and every gateway wakes up for each of them. Latency is what users see of a gateway that is not full.",
  },
  "Bodies of 64 KiB": {
    plot: "bytes",
    text: "Megabytes that a second of CPU of gateway and store carries, as bodies of 64 KiB.",
  },
  "Refusals of Tollgate on Redis": {
    text: "A refusal that is known from memory asks the store nothing. A 401 past the allowance of its address ends its connection.",
  },
  "Growth of Tollgate on Redis": {
    plot: "growth",
    text: "Every account is active: it has a hash in Redis, and the gateway remembers its last answer. Resident memory has the key file as it was read in it, and what V8 has not given back.",
  },
  Targets: {
    text: "The limit that each figure is to keep, and what was measured as a multiple of it: the distance.",
  },
};

/** Written by hand, unlike all else on the page. */
const TRIES = readFileSync(new URL("./tries.md", import.meta.url), "utf8");

/** docs/performance.md. */
export function markdownPage(report: Report): string {
  const tables = tablesOf(report).map((table) => {
    const { plot, text } = WORDS[table.title] ?? { text: "" };
    const picture = plot === undefined ? [] : [`![${table.title}](performance/${plot}.svg)`];
    return [`## ${table.title}`, text, markdownTable(table.rows), ...picture].join("\n\n");
  });
  return `${[
    "# Performance",
    "<!-- Written by npm run bench -- --write: changes here are lost. -->",
    intro(report),
    ...limit(report),
    ...tables,
    "## How far to trust it",
    trust(report),
    TRIES.trim(),
  ].join("\n\n")}\n`;
}

/** The README's table: Tollgate and those it is compared with, one line each. */
export function readmeTable(report: Report): string {
  const columns = [0, 1, 2, 4, 5, 7];
  return markdownTable(closedRows(report).map((row) => columns.map((i) => row[i] ?? "")));
}

function intro(report: Report): string {
  const { machine, madeAt, options } = report;
  const { processor, cores, system, node } = machine;
  const others = `Other programs took ${Math.round(machine.othersShare * 100)} % of it meanwhile`;
  const loaded = isQuiet(report)
    ? ` ${others}.`
    : ` **The machine was not quiet**: copies of one variant lay too far apart. ${others}. Read what follows as a sample of what the benchmark tells, not as what Tollgate costs.`;
  return `Measured by \`npm run bench\` on ${madeAt.slice(0, 10)}: ${processor}, ${cores} cores shared by gateway, Redis, backend and load generator, ${system}, Node ${node}.${loaded} Each instance answered ${options.warmUpRequests.toLocaleString("en-US")} requests before anything was counted; then all were measured in turns, in random order, ${options.rounds} slices of ${options.sliceMs} ms each, and medians are told. Compare within a table, not between machines.`;
}

/** How much of a request the others would take as well. */
function limit(report: Report): string[] {
  const us = (name: string) => of(report, name)?.loads.closed?.sumUs;
  const [own, floor, proxy] = [us(REFERENCE), us("node-http"), us("node-undici")];
  const [nginx, rival] = [us("nginx"), us(RIVAL)];
  const told: string[] = [];
  if (own !== undefined && floor !== undefined && proxy !== undefined) {
    told.push(
      `The limit: \`node:http\` takes ${floor.toFixed(1)} µs to answer by itself, and ${proxy.toFixed(1)} µs to forward with undici and decide nothing. Tollgate, with keys, two windows, Redis and an access log, takes ${own.toFixed(1)} µs on 1,000 keys, ${(own / proxy).toFixed(2)} times that bare proxy.`,
    );
  }
  if (own !== undefined && nginx !== undefined && rival !== undefined) {
    told.push(
      `nginx forwards for ${nginx.toFixed(1)} µs; with Lua and one Redis script a request it takes ${rival.toFixed(1)} µs, of which Tollgate takes ${(own / rival).toFixed(2)} times as much.`,
    );
  }
  return told.length === 0 ? [] : ["## Where the limit is", ...told];
}

function trust(report: Report): string {
  const own = [
    "Several instances of one variant run side by side; how far one of them lies from their median is the noise.",
    ...remarks(report),
    "Every counted variant writes an access log. Fastify's limiter counts one window; HAProxy's counts are its own and shared with no other process.",
  ];
  return own.map((line) => `- ${line}`).join("\n");
}

function markdownTable(rows: Table["rows"]): string {
  const [head = [], ...body] = rows;
  const line = (cells: readonly string[]) => `| ${cells.join(" | ")} |`;
  const rule = head.map((_, i) => (isWords(rows, i) ? "---" : "---:"));
  return [line(head), `|${rule.join("|")}|`, ...body.map(line)].join("\n");
}
