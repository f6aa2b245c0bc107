import { DURATION_BUCKETS, SHORT_DURATION_BUCKETS } from "./metric-vec.ts";

/** One metric of the gateway; its name on the wire begins with `tollgate_`. */
export type MetricRow = {
  readonly type: "counter" | "gauge" | "histogram";
  readonly labels: readonly string[];
  /** The HELP line of the metric. */
  readonly help: string;
  /** The boundaries of a histogram, in seconds. */
  readonly buckets?: readonly number[];
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
    meaning:
      "`code` is the HTTP status; `source` is `gateway` for its refusals, else `backend`. `route` is `none` where no key was accepted, public operations excepted",
  },
  http_request_duration_seconds: {
    type: "histogram",
    labels: ["env", "source"],
    buckets: DURATION_BUCKETS,
    help: "Time from the first byte of a request's head to the end of its answer.",
  },
  route_duration_seconds: {
    type: "histogram",
    labels: ["env", "route"],
    buckets: DURATION_BUCKETS,
    help: "The same time of requests that were sent to a backend, by operation.",
    meaning:
      "`metrics.routes` is how many operations have a series each. Tunnels are not in it, nor in the two below",
  },
  overhead_duration_seconds: {
    type: "histogram",
    labels: ["env"],
    buckets: SHORT_DURATION_BUCKETS,
    help: "The same time of every request, less what the store and the backend took: the gateway's own.",
    meaning: "What a slow client takes to send its head or to take the rest of an answer is in it",
  },
  upstream_duration_seconds: {
    type: "histogram",
    labels: ["env", "upstream"],
    buckets: DURATION_BUCKETS,
    help: "Time from the wait for a connection to a backend to the end of its answer.",
    meaning:
      "Retries are in it; `upstream` is the one that was asked last. A request that no backend got is not in it",
  },
  http_requests_in_flight: { type: "gauge", labels: [], help: "Requests being served now." },
  decisions_total: {
    type: "counter",
    labels: ["env", "plan", "decision"],
    help: "Requests by what was decided about quota and ban.",
    meaning:
      "`decision` is `admitted`, `refused`, or `none` where neither was decided: no key was accepted, the request asked for its standing, or the gateway drains or cannot ask the store",
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
    labels: ["env", "route", "method"],
    help: "Requests for deprecated operations.",
    meaning: "`method` is that of the operation: HEAD counts as `GET`",
  },
  observed_refusals_total: {
    type: "counter",
    labels: ["env", "plan", "window"],
    help: "Requests that an observed limit would have refused.",
  },
  bans_total: { type: "counter", labels: ["env"], help: "Bans that accounts earned." },
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
    meaning: "1 or 0; 0 where one of several backends that share an upstream has it out",
  },
  store_up: {
    type: "gauge",
    labels: [],
    help: "Whether the store answers: 1, or 0 while decisions are made without it.",
  },
  store_unavailable_decisions_total: {
    type: "counter",
    labels: ["mode"],
    help: "Requests decided without the store, which was away or late, by the mode that decided them.",
    meaning:
      "`mode` is the `onStoreFailure` of then. Each request counts once, also if its client leaves before it is forwarded",
  },
  share_refusals_total: {
    type: "counter",
    labels: [],
    help: "Requests answered 503 because this gateway's share of a limit was used up, while the limit was not.",
  },
  store_call_duration_seconds: {
    type: "histogram",
    labels: [],
    buckets: SHORT_DURATION_BUCKETS,
    help: "Time of a call to the store that decides requests, until its answer or its failure.",
    meaning: "One call decides many requests. `store: memory` makes none",
  },
  meter_units_total: {
    type: "counter",
    labels: ["meter"],
    help: "Units that answers were charged, by meter.",
    meaning: "What was told, up to `max`; where nothing was told, what `untold` says",
  },
  meter_over_max_total: {
    type: "counter",
    labels: [],
    help: "Answers that told more of a meter than `max`, and were charged `max`.",
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
  charges_owed: {
    type: "gauge",
    labels: ["gateway"],
    help: "Units that were admitted without the store and are not charged yet.",
    meaning:
      "They are lost if the gateway ends before the store is back. `gateway` is the name in its events: another one after a restart",
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
  keys: {
    type: "gauge",
    labels: [],
    help: "Records of keys that the gateway knows.",
    meaning:
      "Revoked and expired ones too: no command deletes a record, so it never falls by itself",
  },
  accounts: {
    type: "gauge",
    labels: [],
    help: "Records of accounts that the gateway knows.",
    meaning: "It never falls by itself either",
  },
  keys_damaged: {
    type: "gauge",
    labels: [],
    help: "Records of keys and accounts that are damaged and not in use.",
    meaning:
      "`keys_damaged` in the log names them. What is damaged in Redis by hand, under the same version, counts [when all records are next read](../operations.md#tollgatekeysdamaged)",
  },
  keys_unreadable_total: {
    type: "counter",
    labels: [],
    help: "Times that the key records could not be read: those read before stay in use.",
    meaning: "It rises for as long as that lasts. A store that is away is not among them",
  },
  keys_older_total: {
    type: "counter",
    labels: [],
    help: "Times that the store had older key records than before.",
  },
  state_file_unwritten_total: {
    type: "counter",
    labels: [],
    help: "Times that the state file could not be written.",
    meaning: "It rises for as long as that lasts",
  },
  keys_lost: {
    type: "gauge",
    labels: [],
    help: "Records of keys and accounts that are gone from the store though no command deleted them.",
    meaning: "0 again when they are back; see [operations](../operations.md#records-that-are-gone)",
  },
  ready: {
    type: "gauge",
    labels: ["check"],
    help: "Whether a check of /readyz passes: 1, or 0.",
    meaning: "`check` is its [name](admin.md#health)",
  },
  certificate_expiry_timestamp_seconds: {
    type: "gauge",
    labels: ["env", "certificate"],
    help: "When a certificate ends, in Unix seconds; of several in one file the first that does.",
    meaning:
      "`certificate` is `listener`, `upstream_ca` or `upstream_client`; the days left are `(tollgate_certificate_expiry_timestamp_seconds - time()) / 86400`",
  },
  log_dropped_total: {
    type: "counter",
    labels: [],
    help: "Log lines thrown away on a stuck pipe or a full disk.",
  },
  events_dropped_total: {
    type: "counter",
    labels: [],
    help: "Events that were not sent: too many were held, the webhook took none for a day, or a reload turned events off.",
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
    meaning:
      "`result` is `success`, `failure` where the old one stays in force, or `incomplete` where the new one is in force, but not yet in a process that a line `config_incomplete` names",
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

/** The histograms among them. */
export type HistogramName = {
  [N in MetricName]: (typeof METRICS)[N]["type"] extends "histogram" ? N : never;
}[MetricName];
