import { z } from "zod";
import { cors, healthCheck, tls, upstreamTls } from "./edges.ts";
import { backendLimits, overrides } from "./limits.ts";
import { operationMeters } from "./meters.ts";
import * as kind from "./value-types.ts";
import { optional, required } from "./value-types.ts";

const upstreams = z
  .array(kind.origin, "a list of origins")
  .min(1, "a list of at least one origin")
  .max(1_000, "a list of at most 1000 origins");

const paths = kind.oneOf(["exact", "loose"]);

const backend = z.strictObject(
  {
    path: required(
      kind.basePath,
      "What the paths of this service start with; `basePath`, or below it.",
    ),
    api: kind.file.optional().meta({
      description:
        "Its OpenAPI 3 description. A client's path is `stripPrefix`, or else `basePath`, and the template. Without it all of `path` is forwarded.",
    }),
    upstreams: required(upstreams, "Where it is, as origins without path."),
    stripPrefix: kind.path.optional().meta({
      description:
        "What is taken away in front of a path: `path`, or whole leading segments of it.",
    }),
    addPrefix: kind.path.optional().meta({
      description: "What is put in front of what is left of a path.",
    }),
    paths: paths.optional().meta({
      description: "How its router reads paths; without it as the `paths` of the environment.",
    }),
    upstreamTls: optional(upstreamTls, {}, "How https upstreams are verified."),
    healthCheck: healthCheck.optional().meta({
      description: "Asks every upstream for a path, as `healthCheck` of an environment.",
    }),
    limits: optional(backendLimits, {}, "What differs here from the `limits` of the environment."),
  },
  "a map that describes a backend",
);

const routeCost = z
  .strictObject(
    {
      match: required(kind.route, "A method and a whole path, as in `POST /v1/reports`."),
      cost: kind.cost.optional().meta({
        description: "Units of one such request; 1 where only `meters` are said.",
      }),
      meters: operationMeters.optional().meta({
        description: "What the answer to it costs, by the names of meters of the plans.",
      }),
    },
    "a map with match and cost",
  )
  .refine(({ cost, meters }) => cost !== undefined || meters !== undefined, {
    path: ["cost"],
    message: String(kind.cost.meta()?.title),
  })
  // The refinement above, in a form that editors understand.
  .meta({ oneOf: [{ required: ["cost"] }, { required: ["meters"], not: { required: ["cost"] } }] });

const maintenance = z.strictObject(
  {
    retryAfter: optional(
      kind.duration({ from: "1s", to: "30d" }),
      "30m",
      "What clients are told to wait.",
    ),
  },
  "off, or a map",
);

export const environmentShape = z.strictObject(
  {
    listen: required(
      kind.listenAddress,
      "Where clients connect. Environments may share an address if they differ by `hosts`. Port 0 takes any free port.",
    ),
    hosts: optional(
      z.array(kind.hostName, "a list of host names").max(1_000, "at most 1000 host names"),
      [],
      "Names this environment answers to; empty: any. Another Host is 421.",
    ),
    basePath: optional(
      kind.basePath,
      "/v1",
      "What all paths of the API start with; outside of it is 404.",
    ),
    keyTag: required(
      kind.keyPart,
      "The middle part of this environment's keys, as in pets_live_…; unique.",
    ),
    api: kind.file.optional().meta({
      description:
        "The OpenAPI 3 description: routes, deprecation, stability. Without it all of `basePath` is forwarded.",
    }),
    upstreams: upstreams.optional().meta({
      description:
        "The backends, as origins: http:// or https://, without path. Least pending requests goes first. Needed unless one of `backends` has `basePath` itself.",
    }),
    backends: optional(
      z.array(backend, "a list of backends").max(1_000, "a list of at most 1000 backends"),
      [],
      "Services under paths of their own; the longest path that fits by whole segments wins, and the rest goes to `upstreams`.",
    ),
    public: optional(
      kind.offOr(kind.planName),
      "off",
      "The plan by which public operations are limited, for each client address; its windows are an hour at most. off: they need a key.",
    ),
    publicRoutes: optional(
      z.array(kind.route, "a list of routes").max(1_000, "a list of at most 1000 routes"),
      [],
      "For paths that belong to no `api`: what may be called without a key, as in `GET /v1/status` or `GET /v1/status/{id}`.",
    ),
    costs: optional(
      z.array(routeCost, "a list of costs").max(1_000, "a list of at most 1000 costs"),
      [],
      "For paths that belong to no `api`: the units of a request. The first that matches counts; others cost 1, also a path that the backend reads as one of these.",
    ),
    standing: optional(
      kind.offOr(kind.path),
      "off",
      "A path under `basePath` at which a key may ask, uncharged, where its account stands.",
    ),
    maintenance: optional(
      z.union([kind.off, maintenance], "off, or a map"),
      "off",
      "Answers 503 `maintenance` to every request, uncharged and ahead of the key.",
    ),
    allow: optional(
      kind.networks,
      [],
      "Networks of the clients that may call, never of the proxies ahead of the gateway; empty: all. Others are 403 `address_refused`.",
    ),
    deny: optional(
      kind.networks,
      [],
      "Networks of the clients that may not call, whatever `allow` says.",
    ),
    paths: optional(
      paths,
      "exact",
      "How the backend's router reads paths. loose: literal parts regardless of ASCII case, of one slash at the end and of what follows `;` in a segment.",
    ),
    upstreamHost: optional(
      kind.oneOf(["upstream", "client"]),
      "upstream",
      "Which Host the backend sees: its own, or the one the client sent.",
    ),
    upstreamTls: optional(upstreamTls, {}, "How https upstreams are verified."),
    healthCheck: healthCheck.optional().meta({
      description:
        "Asks every upstream for a path: two failures in a row take it out, one success brings it back, and the last one in service stays. Without it nothing is asked.",
    }),
    tls: tls.optional().meta({
      description:
        "Makes the listener HTTPS, 1.1 only; all environments of one listener have it or none. The files are read again when they change.",
    }),
    cors: cors.optional().meta({
      description:
        "Lets pages of other origins call: preflights are answered here, uncharged. Without it the backend's own fields pass.",
    }),
    limits: optional(overrides, {}, "What differs here from the `limits` of all environments."),
  },
  "a map that describes an environment",
);
