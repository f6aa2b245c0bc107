import { METRICS, type MetricRow } from "../../src/telemetry/metrics/metrics.ts";
import { SERIES_MAX } from "../../src/telemetry/metrics/request-metrics.ts";
import { madeFrom, table } from "./table.ts";

/** The text of docs/reference/metrics.md: every metric of the gateway. */
export function metricsPage(): string {
  const rows = Object.entries<MetricRow>(METRICS).map(([name, row]) => [
    `\`tollgate_${name}\``,
    row.type,
    row.labels.map((label) => `\`${label}\``).join(", "),
    row.meaning === undefined ? row.help : `${row.help} ${row.meaning}.`,
  ]);
  return `# Metrics

${madeFrom("src/telemetry/metrics/metrics.ts")}

At \`/metrics\` of the [admin listener](admin.md#metrics), as Prometheus text. Labels hold names from the
configuration and words of the gateway's own; a value that is unknown is \`none\`. A metric has at most
${SERIES_MAX.toLocaleString("en")} series: what comes after that is counted with \`overflow\` in every label, so that sums stay true.

${table(["metric", "type", "labels", "meaning"], rows)}

Beside these are \`process_…\` and \`nodejs_…\`, as prom-client has them.
`;
}
