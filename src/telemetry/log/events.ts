import { type LogEventRow, row } from "./log-events.ts";

/**
 * Every event. Each is a log line with `"msg":"event"` and its `kind`, and, if `events` is
 * configured, a message to a webhook. docs/reference/events.md is made from these rows.
 */
export const EVENTS = {
  ban: row(
    "warn",
    [
      "account",
      "env",
      "plan",
      "window",
      "until",
      "offences",
      "observed",
      "decidedAt",
      "strikes",
      "imposed",
      "reason",
    ],
    "An account earned a ban, by the refusals of `window`; `until` and the instants of its `strikes`, whichever gateways saw them, in Unix seconds, `decidedAt` in milliseconds. With `imposed` people banned it, for `reason`: no strikes",
  ),
  ban_lifted: row(
    "info",
    ["account", "env", "decidedAt"],
    "A ban was lifted, at `decidedAt` in milliseconds",
  ),
  quota: row(
    "info",
    ["account", "env", "plan", "key", "window", "percent", "used", "limit", "reset"],
    "A count reached 80 or 100 % of its limit, in the windows of `events.quota`; told by the gateway whose request did so. A request that crosses both tells 100. A limit that is lowered below the count tells nothing. `key` is there for a limit of one key, such as `key.day`",
  ),
  overage: row(
    "info",
    ["account", "env", "plan", "window", "included", "used", "limit", "reset"],
    "A count went above the units that are in the price of the plan, `included`; told by the gateway whose request did so. If a change of the plan, or of the account's plan, has put the count above them, it is told with the first request that is admitted after the change, by a gateway that knew the account from before, a second later. If no gateway did, there is no event, and the usage tells the overage",
  ),
  usage: row(
    "info",
    [
      "account",
      "env",
      "plan",
      "day",
      "admitted",
      "units",
      "refused",
      "overage",
      "overageUnknown",
      "meters",
    ],
    "The [usage event](#usage-events) of a day of an account was acknowledged; `overage` is there where the plan includes units of a month, or `overageUnknown` with the reason why it cannot be told, `meters` where it used any",
  ),
  key_issued: row("info", ["key", "account", "env", "plan"], "A key was issued; `key` is its id"),
  key_rotated: row(
    "info",
    ["key", "successor", "account", "env"],
    "A new key was put in the place of one; both are ids",
  ),
  key_revoked: row("info", ["key", "account", "env"], "A key was revoked"),
  key_elsewhere: row(
    "warn",
    ["key", "account", "env", "usedIn"],
    "A working key of `env` was used in another environment; once a day for each key",
  ),
  keys_imported: row(
    "info",
    ["import", "keys", "accounts", "ended"],
    "An import. `keys` and `accounts` are the numbers of new ones, and `ended` is that of known keys that end sooner now; none of them has an event of its own",
  ),
  account_changed: row(
    "info",
    ["account", "env", "plan", "newWindows"],
    "The plan, the limits, the metadata or the suspension of an account changed; `newWindows` are those that it had no limits of its own for before",
  ),
  upstream_down: row(
    "error",
    ["env", "backend", "upstream", "why", "outages"],
    "A backend's upstream is out of service; `why` is the latest reason, as in the request lines, that of a malformed response after its code, or that of its health check. What happens within half a second is told together, with the instants of the last time; `outages` is how often it went out since the event before, if that is more than once",
  ),
  upstream_up: row(
    "info",
    ["env", "backend", "upstream", "outages"],
    "It is in service again; `outages` is how often it went out again since its `upstream_down`, if it did. One that a reload removes while it is down has no such event",
  ),
  store_away: row(
    "error",
    ["code", "why", "mode", "buckets"],
    "The store is [away](store.md#away): `mode` decides",
  ),
  store_back: row(
    "info",
    ["accountsCharged", "buckets"],
    "The store decides again, and what was admitted without it is charged",
  ),
  keys_lost: row(
    "error",
    ["keys", "accounts", "ids", "file", "why"],
    "Records that this gateway knew are [gone from the store](../operations.md#records-that-are-gone), and no command deleted them; `why` has the line that brings them back, `file` is what it reads",
  ),
  keys_unreadable: row(
    "error",
    ["path", "why"],
    "The key records cannot be read: those read before stay in use",
  ),
  keys_older: row(
    "error",
    ["keys", "why"],
    "The store has [older key records](keys.md#copies) than before; `why` names the accounts and keys that differ",
  ),
  state_file_unwritten: row(
    "error",
    ["stateFile", "why"],
    "The state file cannot be written: serving goes on, a restart would forget",
  ),
  config_reloaded: row(
    "info",
    ["hash", "counting", "hashBefore", "countingBefore"],
    "A new configuration is in force; in a process that a line `config_incomplete` names, it is not yet. `counting` is as in `serving`, and both have the hashes of the configuration before too. Each reload tells it, also with the same `hash`: a save and a `tollgate reload` of it are two",
  ),
  config_refused: row(
    "error",
    ["why"],
    "A reload changed nothing; one for each reason. Each reload tells it, also of the same reasons: a save and a `tollgate reload` of it are two",
  ),
  sunset: row(
    "warn",
    ["env", "method", "route", "days", "sunset"],
    "An operation is removed within `days` days, 30 or 7; `sunset` in Unix seconds",
  ),
} as const satisfies Record<string, LogEventRow>;

export type EventKind = keyof typeof EVENTS;

/** Whether the name of a line is that of an event. */
export function isEvent(name: string): name is EventKind {
  return Object.hasOwn(EVENTS, name);
}
