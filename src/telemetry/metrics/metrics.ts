/** One metric of the gateway; its name on the wire begins with `tollgate_`. */
export type MetricRow = {
  readonly type: "counter" | "gauge" | "histogram";
  readonly labels: readonly string[];
  /** The HELP line of the metric. */
  readonly help: string;
  /** Further text for docs/reference/metrics.md. */
  readonly meaning?: string;
};

/**
 * Every metric, one row each: docs/reference/metrics.md is made from them. Labels hold names from
 * the configuration and fixed words, never a token or a raw path.
 */
export const METRICS = {
  http_requests_total: {
    type: "counter",
    labels: ["env", "route", "method", "code", "source"],
    help: "Requests answered, by who answered them.",
    meaning: "`code` is the HTTP status; `source` is `gateway` for its refusals, else `backend`",
  },
  http_request_duration_seconds: {
    type: "histogram",
    labels: ["env", "source"],
    help: "Time from the first byte of a request's head to the end of its answer.",
  },
  http_requests_in_flight: { type: "gauge", labels: [], help: "Requests being served now." },
  decisions_total: {
    type: "counter",
    labels: ["env", "plan", "decision"],
    help: "Requests by what was decided about quota and ban.",
    meaning: "`decision` is `admitted`, `refused`, or `none` where no key was accepted",
  },
  charged_total: { type: "counter", labels: ["env"], help: "Units charged to accounts." },
  forwards_total: {
    type: "counter",
    labels: ["env"],
    help: "Requests sent to a backend, retries included.",
  },
  auth_failures_total: {
    type: "counter",
    labels: ["env", "reason"],
    help: "Requests without a valid API key.",
    meaning: "`reason` is `key_missing` or `key_invalid`",
  },
  refusals_total: {
    type: "counter",
    labels: ["env", "code"],
    help: "Requests that the gateway refused, by the code of the refusal.",
    meaning: "`code` is that of the [refusal](refusals.md), such as `rate_limited`",
  },
  deprecated_requests_total: {
    type: "counter",
    labels: ["env", "route"],
    help: "Requests for deprecated operations.",
  },
  observed_refusals_total: {
    type: "counter",
    labels: ["env", "plan", "window"],
    help: "Requests that an observed limit would have refused.",
  },
  bans_total: { type: "counter", labels: ["env"], help: "Bans imposed on accounts." },
  connections_open: {
    type: "gauge",
    labels: [],
    help: "Connections of clients that are open now.",
    meaning:
      "`limits.connections` is the most for each listener; TLS handshakes under way are among them",
  },
  connections_refused_total: {
    type: "counter",
    labels: ["why"],
    help: "New connections of clients that were ended at once.",
    meaning:
      "`why` is `connections` (`limits.connections` were in use), `address` (`limits.connectionsPerAddress`) or `memory`",
  },
  tunnels_open: {
    type: "gauge",
    labels: [],
    help: "WebSocket tunnels open now.",
    meaning: "They are requests in flight too",
  },
  upstream_up: {
    type: "gauge",
    labels: ["env", "upstream"],
    help: "Whether a backend is in service.",
    meaning: "1 or 0, for each backend",
  },
  store_up: {
    type: "gauge",
    labels: [],
    help: "Whether the store answers: 1, or 0 while decisions are made without it.",
  },
  store_unavailable_decisions_total: {
    type: "counter",
    labels: ["mode"],
    help: "Requests decided while the store was away, by the mode that decided them.",
    meaning: "`mode` is the `onStoreFailure` of then",
  },
  share_refusals_total: {
    type: "counter",
    labels: [],
    help: "Requests answered 503 because this gateway's share of a limit was used up, while the limit was not.",
  },
  store_commands_total: { type: "counter", labels: [], help: "Commands sent to the store." },
  charges_uncertain_total: {
    type: "counter",
    labels: [],
    help: "Units that the store may have charged twice, since an answer of it was lost.",
  },
  charges_lost_total: {
    type: "counter",
    labels: [],
    help: "Units that were admitted while the store was away and will never be charged.",
  },
  store_unsafe_policy: {
    type: "gauge",
    labels: [],
    help: "Whether the store may throw counters away when its memory is short: 1, or 0.",
  },
  store_split: {
    type: "gauge",
    labels: [],
    help: "Whether the Sentinels of the store name more than one master, or none: 1, or 0.",
    meaning: "1 during a failover too",
  },
  keys_lost: {
    type: "gauge",
    labels: [],
    help: "Records of keys and accounts that are gone from the store though no command deleted them.",
    meaning: "0 again when they are back; see [operations](../operations.md#records-that-are-gone)",
  },
  log_dropped_total: {
    type: "counter",
    labels: [],
    help: "Log lines thrown away on a stuck pipe or a full disk.",
  },
  events_dropped_total: {
    type: "counter",
    labels: [],
    help: "Events that were not sent: too many were held, or the webhook took none for a day.",
  },
  telemetry_dropped_total: {
    type: "counter",
    labels: [],
    help: "Spans that were not sent: too many were held, or the collector did not take them.",
  },
  config_reloads_total: {
    type: "counter",
    labels: ["result"],
    help: "Reloads of the configuration, by result.",
    meaning: "`result` is `success` or `failure`",
  },
  config_last_reload_success_timestamp_seconds: {
    type: "gauge",
    labels: [],
    help: "When a configuration was last put in force, in Unix seconds.",
  },
  config_info: {
    type: "gauge",
    labels: ["hash"],
    help: "The configuration in force, by its hash.",
    meaning: "Always 1",
  },
  build_info: {
    type: "gauge",
    labels: ["version"],
    help: "The running program, by its version.",
    meaning: "Always 1",
  },
  workers: {
    type: "gauge",
    labels: [],
    help: "Processes of this gateway that serve.",
    meaning: "Only where several processes serve",
  },
  worker_restarts_total: {
    type: "counter",
    labels: [],
    help: "Processes started in the place of one that ended.",
    meaning: "Only where several processes serve",
  },
} as const satisfies Record<string, MetricRow>;

export type MetricName = keyof typeof METRICS;
