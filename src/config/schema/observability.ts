import { z } from "zod";
import { META_NAME_PATTERN } from "../../core/keys/edit-rules.ts";
import { DAY_MS } from "../../core/quota/days.ts";
import { WINDOW_NAMES, WINDOW_ROWS, type WindowName } from "../../core/quota/windows.ts";
import * as kind from "./value-types.ts";
import { optional, required } from "./value-types.ts";

/** The log, events and telemetry: everything that the gateway reports to others. */

export const log = z.strictObject(
  {
    level: optional(
      kind.oneOf(["debug", "info", "warn", "error", "silent"]),
      "info",
      "The least that is logged. Requests are logged at info, and events unless it is silent.",
    ),
    meta: optional(
      z
        .array(
          kind.quotable(
            "the name of account metadata: 1 to 32 of a-z, 0-9 and -",
            META_NAME_PATTERN,
          ),
          "a list of names",
        )
        .max(16, "a list of at most 16 names"),
      [],
      "Metadata of the account that stands in the line of a request.",
    ),
  },
  "a map",
);

export const metrics = z.strictObject(
  {
    routes: optional(
      kind.integer({ from: 0, to: 10_000 }),
      50,
      "Operations with a histogram of their own in /metrics, 17 series each; further ones are counted together.",
    ),
  },
  "a map",
);

export const EVENT_KINDS = [
  ...[
    "ban",
    "ban_lifted",
    "quota",
    "overage",
    "usage",
    "key_issued",
    "key_rotated",
    "key_revoked",
    "key_elsewhere",
    "keys_imported",
  ],
  ...["account_changed", "upstream_down", "upstream_up", "store_away", "store_back", "keys_lost"],
  ...["keys_unreadable", "keys_older", "state_file_unwritten"],
  ...["config_reloaded", "config_refused", "sunset"],
];

/** Windows whose use is reported by default: a person can act before they are over. */
export const QUOTA_WINDOWS: readonly WindowName[] = WINDOW_ROWS.filter(
  ({ lengthMs }) => lengthMs >= DAY_MS,
).map(({ name }) => name);

export const events = z.strictObject(
  {
    url: required(kind.url, "Where events are sent with POST, signed as Standard Webhooks say."),
    secret: required(
      kind.text(
        "whsec_ and 24 to 64 bytes in base64",
        /^whsec_(?=[A-Za-z0-9+/]{32,86}={0,2}$)(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/,
      ),
      "The secret of the signature. Take it from the environment or a file.",
    ),
    kinds: optional(
      z
        .array(kind.oneOf(["all", ...EVENT_KINDS]), "a list of kinds of events")
        .min(1, "a list of at least one kind of event")
        .max(EVENT_KINDS.length, `a list of at most ${EVENT_KINDS.length} kinds of events`),
      ["all"],
      "The kinds that are sent; the log has all of them. `usage` needs `history`, without which `all` lacks it.",
    ),
    quota: optional(
      z
        .array(kind.oneOf([...WINDOW_NAMES]), "a list of windows")
        .max(WINDOW_NAMES.length, `a list of at most ${WINDOW_NAMES.length} windows`),
      [...QUOTA_WINDOWS],
      "The windows whose first use of 80 and 100 % is told, in the log too; short ones would tell it all the time.",
    ),
  },
  "off, or a map",
);

export const telemetry = z.strictObject(
  {
    otlp: required(
      kind.collector,
      "The OpenTelemetry collector, OTLP over HTTP: /v1/traces and /v1/metrics are added.",
    ),
    sample: optional(
      kind.factor({ from: 0, to: 1 }),
      0.1,
      "The part of the traces begun here that is recorded.",
    ),
  },
  "off, or a map",
);
