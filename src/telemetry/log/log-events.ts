export type LogEventRow = {
  readonly level: "debug" | "info" | "warn" | "error";
  /**
   * Members of the line in addition to `level`, `time` and `msg`. `why` is always text for people.
   */
  readonly members: readonly string[];
  readonly meaning: string;
};

/** The row of a line, of literal types. */
export function row<const L extends LogEventRow["level"], const M extends LogEventRow["members"]>(
  level: L,
  members: M,
  meaning: string,
) {
  return { level, members, meaning };
}

/**
 * Every line of the log except those of requests and events, by its `msg`. docs/reference/events.md
 * is made from these rows. The names are stable, so that an alarm can match one.
 */
export const LOG_EVENTS = {
  serving: row(
    "info",
    ["gateway", "urls", "admin", "config", "counting"],
    "All listeners are open. `gateway` is the name of the gateway, as in its [events](#kinds), and another one after each start; `config` is the hash of the configuration, and `counting` that of the windows and days that are counted by it, and where, whatever their limits, by which [`audit`](commands.md#audit) knows changes that explain nothing",
  ),
  draining: row("info", ["signal"], "A signal ends the process: requests under way are served"),
  stopped: row(
    "info",
    ["gateway", "afterMs"],
    "All of it is over, so long after the signal: the last line",
  ),
  reloading: row("info", ["because"], "The configuration is read again"),
  config_incomplete: row(
    "error",
    ["why"],
    "A new configuration is in force, but not in every process yet",
  ),
  config_warning: row(
    "warn",
    ["file", "line", "column", "why"],
    "The configuration is sound, and this in it is hardly meant, or it leaves accounts without limits or without their environment, or [ends keys](keys.md#another-tag-or-prefix). Of a plan or an environment that records have, it has no line and column, as the file says nothing of it",
  ),
  certificate_reloaded: row("info", ["env"], "A renewed certificate is in use"),
  certificate_refused: row(
    "error",
    ["env", "why"],
    "A changed certificate is no good: the old one stays",
  ),
  tls_handshake_failed: row("debug", ["why"], "A client and the gateway found no way to speak TLS"),
  connections_limited: row(
    "info",
    ["connections", "wanted", "why"],
    "A listener takes fewer connections than configured, for want of open files",
  ),
  open_files_short: row(
    "warn",
    ["why"],
    "Requests wait for a connection to a backend, because the process may open no further file for one; once a minute at most",
  ),
  connections_refused: row(
    "warn",
    ["listen", "refused", "closedIdle", "address"],
    "There were as many connections as there may be. `refused` has the new ones that were refused, by reason, and `closedIdle` is the number of idle ones that were closed for new ones, since the last such line; once a minute at most. `address` is the last one that had too many",
  ),
  process_paused: row(
    "warn",
    ["forMs"],
    "The process did not run for this long, 5 s or more: it or its machine was stopped, asleep or overloaded. What was late meanwhile was late for this reason",
  ),
  memory_short: row(
    "error",
    ["percentOfLimit"],
    "Over 80 % of the memory: each connection ends with its answer",
  ),
  memory_full: row("error", ["percentOfLimit"], "Over 90 % of the memory: no new connections"),
  memory_enough: row("info", ["percentOfLimit"], "Below 80 % of the memory again"),
  request_failed: row(
    "error",
    ["id", "error"],
    "A request met a fault of the gateway and was answered `internal_error`",
  ),
  unexpected_failure: row(
    "error",
    ["name", "why", "stack"],
    "A fault of the gateway outside any request: the process drains and ends",
  ),
  stop_failed: row("error", ["why"], "Something could not be closed on the way out"),
  settlement_lost: row(
    "warn",
    ["environment", "account", "id", "meter", "units", "day"],
    "What these requests used beyond their holds, below 0 for less, is in their lines and will be in no count",
  ),
  charges_uncertain: row(
    "warn",
    ["store", "units", "accounts"],
    "Calls may have run although their answers were lost: these accounts were charged [twice at most](store.md#uncertain-charges), or units were not taken back",
  ),
  charges_lost: row(
    "error",
    ["gateway", "worker", "units", "accounts"],
    "The gateway ends while the store is away or slow, or while its state file cannot be written: these units of these accounts [are not charged](store.md#lost-charges), or by a call that has no answer yet; 1,000 accounts in a line at most. With `worker`, the units that this process owed when it was killed. Without `worker` and `accounts`, the units of those that were too many to remember, when the store is back or the gateway ends",
  ),
  day_closed: row(
    "warn",
    ["store", "environment", "account", "units"],
    "Units were charged for requests that were not admitted, and the answer came after their day had [closed](history.md): they stay in its usage",
  ),
  store_evicts: row(
    "warn",
    ["store", "maxmemoryPolicy", "why"],
    "Redis may throw counters away when its memory is short",
  ),
  clock_differs: row(
    "warn",
    ["store", "node", "aheadMs", "why"],
    "For some seconds this machine's clock and that of the store have been more than 5 s apart, this machine's ahead by `aheadMs` (below 0: behind): [what that changes](../operations.md#clocks). On a Cluster once for each `node` that has answered in the last 10 s",
  ),
  clock_agrees: row(
    "info",
    ["store", "node", "aheadMs", "why"],
    "The two clocks differ by 5 s at most again; on a Cluster, that of the `node`, or, with `why` and without `aheadMs`, it is no master any more, as after a failover",
  ),
  store_split: row(
    "warn",
    ["store", "why"],
    "For a second the Sentinels have named more than one master, or none: the one that most of them name is [followed](../operations.md#engines)",
  ),
  store_united: row("info", ["store"], "The Sentinels agree on one master again"),
  store_evicts_no_more: row("info", ["store", "maxmemoryPolicy"], "Its policy is `noeviction` now"),
  store_right_missing: row(
    "error",
    ["store", "why"],
    "The user of Redis lacks a [right](../operations.md#rights) by which gateways learn of changes that others and commands make, or refused requests come into the history; requests are decided",
  ),
  store_eviction_unknown: row("debug", ["store", "why"], "The policy of Redis could not be read"),
  counter_repaired: row(
    "warn",
    ["environment", "account", "store", "moved"],
    "A [damaged](store.md#damage) window or ban was moved to the present, or a number of its day begun anew. `moved` has each `window` with what it has `used`, or `ban`, and the instants of its start, or of the ban's end, before and after: `from`, `to`",
  ),
  changes_dropped: row(
    "error",
    ["store", "changes"],
    "So many bans, lifts and resets of commands were made while 10,000 others waited for a gateway to log them: they hold, and no log has them",
  ),
  counter_regression: row(
    "error",
    ["store", "environment", "account", "window", "used", "was", "why"],
    "The store has forgotten charges of a window that is not over; once a minute at most",
  ),
  accounts_full: row(
    "warn",
    ["accountsMax"],
    "The memory store holds as many accounts, or client addresses, as it may: idle ones are forgotten",
  ),
  state_file_written: row("info", ["gateway", "stateFile"], "The state file can be written again"),
  keys_readable: row("info", ["path"], "The key records are in use again"),
  keys_damaged: row(
    "error",
    ["path", "why"],
    "Some key records cannot be used; the others are in use",
  ),
  keys_whole: row("info", ["path"], "No key record is damaged any more"),
  keys_found: row(
    "info",
    [],
    "All records that were [lost](../operations.md#records-that-are-gone) are back",
  ),
  keys_ended: row(
    "error",
    ["keys", "why"],
    "The store had forgotten that keys were revoked or expire: their ends hold",
  ),
  keys_set_aside: row(
    "info",
    ["file"],
    "The key records that the store had before are kept in a file",
  ),
  keys_copy_damaged: row(
    "error",
    ["file", "why"],
    "The copy of the key records on disk cannot be used: the gateway goes on without it, and it gets `.damaged` and the time behind its name",
  ),
  keys_copy_elsewhere: row(
    "warn",
    ["file", "why"],
    "The copy of the key records on disk is of [another store](keys.md#copies): nothing of it is in force, and it is kept in a file",
  ),
  state_elsewhere: row(
    "warn",
    ["file", "why"],
    "`stateFile` had [the content of the other kind of store](../operations.md#change-the-store): counts and bans, or the copy of the key records. It is kept in `file`",
  ),
  keys_copy_unwritten: row(
    "error",
    ["file", "why"],
    "The copy of the key records on disk cannot be written",
  ),
  keys_copy_written: row("info", ["file"], "The copy of the key records is written again"),
  key_changed: row("info", ["key"], "The admin API changed a key"),
  caps_added: row(
    "info",
    ["key", "account", "env", "newWindows"],
    "A key that was there got [caps](keys.md#caps) of windows in which it had none, `newWindows`: they count from then on. One gateway tells it",
  ),
  records_changed: row(
    "info",
    ["changed"],
    "The admin API changed records for a command on another machine; `changed` is their number",
  ),
  account_suspended: row(
    "info",
    ["account", "env", "until"],
    "The admin API suspended an account; `until` in Unix seconds, or null",
  ),
  account_resumed: row(
    "info",
    ["account", "env"],
    "The admin API ended the suspension of an account",
  ),
  account_reset: row(
    "info",
    ["account", "env", "windows", "resetAt"],
    "Windows of an account were set to 0; each with the units that it had, and a cap with its `keys`. A command's reset of a shared store is told by one gateway, later if none ran: `resetAt`, in milliseconds of the store's clock, says when it was",
  ),
  keys_unchanged: row("error", ["why"], "The admin API could not change the key records"),
  store_no_answer: row("error", ["why"], "The admin API had no answer from the store"),
  admin_request_failed: row(
    "error",
    ["why"],
    "A request to the admin listener met a fault of the gateway",
  ),
  admin_listener_failed: row(
    "error",
    ["why"],
    "The system refused a connection to the admin listener",
  ),
  events_unsent: row(
    "warn",
    ["why"],
    "The receiver did not accept [events](#webhooks): they are sent again for 24 hours",
  ),
  events_sent: row("info", [], "It accepts events again"),
  usage_unsent: row(
    "warn",
    ["env", "account", "day", "why"],
    "The receiver did not acknowledge [usage events](#usage-events): they are sent again until it does. With `account` and `day` it was the event of that day alone",
  ),
  usage_sent: row("info", [], "It acknowledges usage events again"),
  telemetry_unsent: row(
    "warn",
    ["otlp", "signal", "why"],
    "The OpenTelemetry collector does not take spans, and those beyond the bound are dropped, or metrics; `signal` is `traces` or `metrics`",
  ),
  telemetry_sent: row("info", ["otlp", "signal"], "It takes them again"),
  log_lines_dropped: row(
    "warn",
    ["dropped"],
    "Lines were dropped before this one, as the log [could not be written](edge.md#log-pipe)",
  ),
  worker_serves: row(
    "info",
    ["worker", "pid", "startedMs"],
    "A process serves; `startedMs` is how long its start took",
  ),
  worker_lost: row(
    "error",
    ["worker", "pid", "why", "afterMs"],
    "A process has ended; another takes its place after `afterMs`, and none without it: the process was killed while it drained; without `worker` and `pid` the system could not start one",
  ),
} as const satisfies Record<string, LogEventRow>;
