import { z } from "zod";
import { WINDOW_NAMES } from "../../core/quota/windows.ts";
import { environmentShape } from "./environment.ts";
import { foreignKeys, keyHeaders } from "./keys.ts";
import { limits } from "./limits.ts";
import { events, log, metrics, telemetry } from "./observability.ts";
import { windowKeys } from "./plan-windows.ts";
import { plan } from "./plans.ts";
import * as kind from "./value-types.ts";
import { optional, required } from "./value-types.ts";

const BAN_TIME = { from: "1ms", to: "366d" };

const bans = z.strictObject(
  {
    strikes: optional(kind.integer({ from: 1, to: 1_000 }), 20, "This many strikes earn a ban …"),
    within: optional(kind.duration(BAN_TIME), "1m", "… when they come in this time."),
    grace: optional(
      kind.duration({ from: "0s", to: "366d" }),
      "1s",
      "A refused request is a strike only this long after the first refusal of its window, and after the last strike.",
    ),
    duration: optional(kind.duration(BAN_TIME), "1m", "The first ban."),
    factor: optional(
      kind.factor({ from: 1, to: 1_000 }),
      4,
      "Each further ban is this many times longer …",
    ),
    max: optional(kind.duration(BAN_TIME), "24h", "… up to this."),
    forgetAfter: optional(
      kind.duration(BAN_TIME),
      "24h",
      "Offences are forgotten together, this long after the end of the last ban.",
    ),
    observe: optional(
      kind.boolean,
      false,
      "true: an earned ban is logged and counted, clears the strikes, and is not kept.",
    ),
  },
  "off, or a map",
);

const admin = z.strictObject(
  {
    listen: optional(
      kind.listenAddress,
      "127.0.0.1:9090",
      "Where health, metrics and the admin API answer. Off loopback it needs a token.",
    ),
    token: optional(
      kind.token,
      "",
      "The bearer token of /api/…; empty: none. Off loopback at least 32 characters. Take it from the environment.",
    ),
    hosts: optional(
      z.array(kind.hostName, "a list of host names").max(100, "at most 100 host names"),
      [],
      "Further names that it answers to, besides its own address, localhost, 127.0.0.1 and [::1]; on 0.0.0.0 or [::] any IP address is its own.",
    ),
  },
  "off, or a map",
);

/**
 * The whole file: the one source of its keys, defaults, meanings and JSON Schema.
 * docs/configuration.md is generated from it.
 */
export const shape = z.strictObject(
  {
    store: optional(
      kind.store,
      "memory",
      "Where counters and bans live. Several gateways share a Redis, alone, with Sentinel or as a Cluster.",
    ),
    storePrefix: optional(
      kind.quotable(
        "1 to 64 letters, digits, dots, dashes, underscores and colons",
        /^[A-Za-z0-9._:-]{1,64}$/,
      ),
      "tg",
      "What all keys in the store start with.",
    ),
    onStoreFailure: optional(
      kind.oneOf(["local", "deny", "allow"]),
      "local",
      "While the store is away: admit a share of each limit, answer 503, or forward all and charge it later.",
    ),
    expectedGateways: optional(
      kind.integer({ from: 1, to: 10_000 }),
      1,
      "Gateways on this store, for the shares of `onStoreFailure: local`.",
    ),
    storeTimeout: optional(
      kind.duration({ from: "10ms", to: "1s" }),
      "50ms",
      "How long a call to the store may take before it counts as lost. Far regions raise it, stay exact, and pay latency.",
    ),
    keys: optional(
      kind.keys,
      "./data/keys.json",
      "Where key records live: a file, or `redis` for the store.",
    ),
    stateFile: optional(
      kind.file,
      "./data/state.json",
      "With the memory store, counters and bans, so that they survive a restart; with `keys: redis`, the last copy of the records.",
    ),
    workers: optional(
      z
        .union(
          [kind.integer({ from: 1, to: 256 }), z.literal("auto")],
          "auto, or a whole number from 1 to 256",
        )
        .meta({ title: "auto, or a whole number from 1 to 256" }),
      1,
      "Processes that serve; auto: one for each processor. More than one needs a Redis.",
    ),
    environments: required(
      z
        .record(kind.name, environmentShape, "a map of environments by name")
        .meta({ minProperties: 1 }),
      "Each environment has its own address, keys and backends.",
    ),
    plans: required(
      z.record(kind.name, plan, "a map of plans by name").meta({ minProperties: 1 }),
      `Units per window, by plan: any of ${WINDOW_NAMES.join(", ")}. \`custom\` is agreed per account.`,
    ),
    bans: optional(
      z.union([kind.off, bans], "off, or a map"),
      {},
      "Temporary bans of accounts that keep asking after a 429.",
    ),
    unauthenticated: optional(
      windowKeys("Failures")
        .refine((value) => Object.keys(value).length === 1, "a map with exactly one window")
        .meta({ minProperties: 1, maxProperties: 1 }),
      { minute: 60 },
      "Failed authentications per client address (IPv6: per /64) before they are slowed. Exactly one window.",
    ),
    keyPrefix: optional(kind.keyPart, "pets", "The first part of every key, as in pets_live_…"),
    rateLimitFields: optional(
      z
        .union([kind.off, z.literal("ietf")], "one of off, ietf")
        .meta({ title: "one of off, ietf" }),
      "off",
      "ietf: tell every window in RateLimit and RateLimit-Policy of the IETF draft, beside X-RateLimit-*.",
    ),
    errors: optional(
      kind.oneOf(["plain", "problem"]),
      "plain",
      "The bodies of refusals; problem: application/problem+json (RFC 9457), with code and message as before.",
    ),
    errorsUrl: optional(
      kind.offOr(kind.pageUrl),
      "off",
      "Where the kinds of problems are described: the type of each is this and its code; off: about:blank.",
    ),
    trustedProxies: optional(
      kind.networks,
      [],
      "Networks whose X-Forwarded-For is believed. Backends get every other field of proxies from there too, such as X-Real-IP: a proxy must delete those of its clients.",
    ),
    limits: optional(limits, {}, "Limits at the edge, of every environment."),
    admin: optional(
      z.union([kind.off, admin], "off, or a map"),
      {},
      "The listener for people who run the gateway.",
    ),
    log: optional(log, {}, "The log, JSON lines on stdout."),
    metrics: optional(metrics, {}, "What /metrics of the admin listener tells."),
    history: optional(
      kind.offOr(kind.duration({ from: "1d", to: "3660d", examples: ["62d", "400d"] })),
      "off",
      "For how long the usage of each account is kept by UTC day.",
    ),
    keyHeaders: optional(
      keyHeaders,
      ["authorization"],
      "Where a key may stand: `authorization`, as a bearer token, or fields such as apikey or x-api-key, bare.",
    ),
    foreignKeys: optional(
      foreignKeys,
      "off",
      "Shapes of imported keys that are not of our own form.",
    ),
    events: optional(
      z.union([kind.off, events], "off, or a map"),
      "off",
      "Sends events to a webhook; the log has them either way.",
    ),
    telemetry: optional(
      z.union([kind.off, telemetry], "off, or a map"),
      "off",
      "Sends traces and metrics to an OpenTelemetry collector.",
    ),
  },
  "a map of settings",
);
