import type { HostPort } from "../core/address.ts";
import type { CorsPolicy } from "../core/http/cors.ts";
import type { EdgeLimits } from "../core/http/edge-limits.ts";
import type { RouteTable } from "../core/http/route.ts";
import type { BanPolicy } from "../core/quota/bans.ts";
import type { Limit, PlanOptions, WindowName } from "../core/quota/windows.ts";
import type { ErrorFormat } from "../core/refusal.ts";
import type { Mistake } from "./file/mistake.ts";
import type { StoreAddress } from "./schema/addresses.ts";

/** A configuration that was read, checked and completed. */
export type Config = {
  /** Absolute path of the file. */
  readonly file: string;
  /**
   * SHA-256 in hex of the file as written, its descriptions, authorities and client certificates,
   * and the rules for requests with their variables. No secret is in it.
   */
  readonly hash: string;
  readonly store: StoreAddress;
  readonly storePrefix: string;
  readonly onStoreFailure: "local" | "deny" | "allow";
  readonly expectedGateways: number;
  /** How long a call to the store may take before its requests are decided without it. */
  readonly storeTimeoutMs: number;
  readonly keys: { readonly in: "file"; readonly path: string } | { readonly in: "redis" };
  readonly stateFile: string;
  readonly workers: number | "auto";
  readonly environments: readonly EnvironmentConfig[];
  readonly plans: ReadonlyMap<string, readonly Limit[] | "custom">;
  /** By plan: all those of `plans`. */
  readonly planBounds: ReadonlyMap<string, PlanOptions>;
  readonly bans: BanPolicy | undefined;
  readonly unauthenticated: { readonly window: WindowName; readonly limit: number };
  readonly keyPrefix: string;
  readonly rateLimitFields: "off" | "ietf";
  readonly errors: ErrorFormat;
  readonly trustedProxies: readonly string[];
  readonly admin:
    | {
        readonly listen: HostPort;
        readonly token: string;
        readonly hosts: readonly string[];
        /** The address by which a command was told to ask it, with --admin. */
        readonly url?: string;
      }
    | undefined;
  readonly log: {
    readonly level: "debug" | "info" | "warn" | "error" | "silent";
    /** Names of account metadata in the log entry of a request. */
    readonly meta: readonly string[];
  };
  /** `routes`: how many operations have a histogram of their own. */
  readonly metrics: { readonly routes: number };
  /** How long usage by day is kept; undefined if it is not kept. */
  readonly historyMs: number | undefined;
  /** Names of the fields that may carry a key, lower case. */
  readonly keyHeaders: readonly string[];
  readonly foreignKeys: readonly { readonly prefix: string; readonly min: number }[];
  readonly events:
    | {
        readonly url: string;
        readonly secret: string;
        readonly kinds: readonly string[];
      }
    | undefined;
  /** Windows whose first use of 80 and 100 % is reported as an event. */
  readonly quotaEventWindows: readonly WindowName[];
  /** `serviceName` is the value of OTEL_SERVICE_NAME, or empty. */
  readonly telemetry:
    | { readonly otlp: string; readonly sample: number; readonly serviceName: string }
    | undefined;
};

/** A PEM file, and its text when it was read. */
export type PemFile = { readonly path: string; readonly text: string };

/** The upstreams that requests of some paths are forwarded to, and how they are reached. */
export type ServiceConfig = {
  readonly routes: RouteTable;
  /** Origins, no path: "http://127.0.0.1:9001". */
  readonly upstreams: readonly string[];
  readonly upstreamTls: {
    /** Trusted instead of the system's authorities: the file, and its text when it was read. */
    readonly ca: PemFile | undefined;
    readonly serverName: string | undefined;
    /** Presented to upstreams that request one. */
    readonly clientCertificate: { readonly cert: PemFile; readonly key: PemFile } | undefined;
  };
  /** Requested from each upstream. */
  readonly healthCheck: { readonly path: string; readonly everyMs: number } | undefined;
  readonly limits: EdgeLimits;
};

/** A service under its own path. The paths of its routes are those that clients use. */
export type PathServiceConfig = ServiceConfig & {
  /**
   * "/v1/orders": it serves this path and those below it, unless a longer path of another service
   * fits.
   */
  readonly path: string;
  /** The start of a client's path that is removed, and its replacement; "" for nothing. */
  readonly stripPrefix: string;
  readonly addPrefix: string;
};

/** `routes` and `upstreams` are for paths that no backend serves. There may be no upstreams. */
export type EnvironmentConfig = ServiceConfig & {
  readonly name: string;
  readonly listen: HostPort;
  /** Lower-case names without port. If empty, any host is served. */
  readonly hosts: readonly string[];
  readonly keyTag: string;
  /** The longest path first. */
  readonly services: readonly PathServiceConfig[];
  readonly upstreamHost: "upstream" | "client";
  /** Absolute paths of PEM files, read by the listener; undefined if it is plain. */
  readonly tls: CertificateFiles | undefined;
  readonly cors: CorsPolicy | undefined;
  /** The plan of requests without a key to public operations; undefined if there are none. */
  readonly publicPlan: string | undefined;
  /** The path at which a key may read the standing of its account. */
  readonly standing: string | undefined;
  /** Set while every request is refused before its key is checked. */
  readonly maintenance: { readonly retryAfterMs: number } | undefined;
  /** Networks as `address/bits`. If `allow` is empty, all are allowed except those of `deny`. */
  readonly allow: readonly string[];
  readonly deny: readonly string[];
  /** For commands that know the operations of a running gateway only: a path for a GET. */
  readonly examplePath?: string | undefined;
};

export type CertificateFiles = {
  readonly cert: string;
  readonly key: string;
  /** The pair in force, for a worker that starts later than the others. */
  readonly inForce?: CertificateInForce | undefined;
};

/** The texts of a pair that was read, and the print of its files (certificate.ts). */
export type CertificateInForce = {
  readonly cert: string;
  readonly key: string;
  readonly print: string;
};

export type LoadResult =
  | {
      readonly ok: true;
      readonly config: Config;
      readonly warnings: readonly Mistake[];
      /** Absolute paths of the files read, the configuration first. A save of one reloads. */
      readonly files: readonly string[];
    }
  | {
      readonly ok: false;
      readonly mistakes: readonly Mistake[];
      /** Set if a file could not be read for now: the configuration was not judged. */
      readonly unread?: string | undefined;
      /**
       * Absolute paths of all files that were named as far as the configuration could be read, there
       * or not, the configuration first. Saving any of them may be what mends the mistakes.
       */
      readonly files: readonly string[];
    };

/** The running configuration and the one that would replace it. */
export type ConfigChange = { readonly from: Config; readonly to: Config };
