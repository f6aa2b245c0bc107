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

Every metric that the gateway exposes for Prometheus, at \`/metrics\` of the [admin listener](admin.md#metrics):

\`\`\`sh
curl -s "$ADMIN_URL/metrics" | grep '^tollgate_store_up'
\`\`\`

\`\`\`text
tollgate_store_up 1
\`\`\`

- [examples/prometheus](../../examples/prometheus) scrapes it and has alerts; [examples/grafana](../../examples/grafana) is a
  dashboard.
- Labels hold names from the configuration and words of the gateway. An unknown value is \`none\`.
- A metric has at most ${SERIES_MAX.toLocaleString("en")} series. Everything above is counted with \`overflow\` in every label, so that sums
  stay true; \`tollgate_http_requests_total\` keeps \`env\`, \`code\` and \`source\` then, in 100 of its series. The
  limit of \`tollgate_route_duration_seconds\` is \`metrics.routes\`.

${table(["metric", "type", "labels", "meaning"], rows)}

Beside these are \`process_…\` and \`nodejs_…\`, as prom-client has them.
`;
}
