import { memoize } from "../../base/memoize.ts";
import type { AddressMatcher } from "../../core/address.ts";
import type { CorsPolicy } from "../../core/http/cors.ts";
import type { EdgeLimits } from "../../core/http/edge-limits.ts";
import { comparablePath, isUnder, type PathMatching } from "../../core/http/path-pattern.ts";
import { operationWindows, type RouteTable } from "../../core/http/route.ts";
import type { ForeignKeyFormat } from "../../core/keys/key.ts";
import type { BanPolicy } from "../../core/quota/bans.ts";
import type { Limit, PlanOptions } from "../../core/quota/windows.ts";
import type { ErrorFormat } from "../../core/refusal.ts";
import type { RequestLimits } from "../../http1/server/server-limits.ts";
import type { KeyStore } from "../../stores/keys/key-store.ts";
import type { AccountRef } from "../../stores/quotas/account-ref.ts";
import type { ChargeResult, QuotaAdmin, QuotaDecider } from "../../stores/quotas/quota-store.ts";
import type {
  DeprecatedCall,
  DeprecatedOperation,
} from "../../telemetry/history/deprecated-calls.ts";
import type { AccessLogEntry } from "../../telemetry/log/access-log-entry.ts";
import type { Log } from "../../telemetry/log/log.ts";
import type { RequestTimes, TurnedAwayReason } from "../../telemetry/metrics/request-metrics.ts";
import type { Tracing } from "../../telemetry/tracing/tracing.ts";
import type { AnonymousClients, PublicPlan } from "../client/anonymous-clients.ts";
import type { AuthFailureLimiter } from "../client/auth-failure-limiter.ts";
import type { ConcurrencyLimiter } from "../client/concurrency-limiter.ts";
import type { OpenHolds } from "../client/open-holds.ts";
import type { UsageReportCache } from "../client/usage-report-cache.ts";
import type { WrongEnvironmentKeys } from "../client/wrong-environment-keys.ts";
import type { Certificate } from "../runtime/certificate.ts";
import type { MemoryPressure } from "../runtime/memory.ts";
import type { UpstreamPool } from "../upstreams/upstream-pool.ts";

/**
 * A service of an environment: the paths under `path`, by whole segments, with a description and
 * upstreams of its own (docs/reference/plans.md#services). The service without `path` has all paths
 * that no other service has.
 */
export type Service = {
  readonly path: string | undefined;
  /** `path` in the form that the `paths` of its routes compare. */
  readonly comparable: string | undefined;
  readonly routes: RouteTable;
  readonly upstreams: UpstreamPool;
  /** The environment's limits, overridden by those of the service. */
  readonly limits: EdgeLimits;
  /** Removed from the front of a target that is forwarded, and the prefix put there instead. */
  readonly stripPrefix: string;
  readonly addPrefix: string;
};

/** One environment as it is served now. A reload replaces it whole; an exchange keeps its own. */
export type Environment = {
  readonly name: string;
  readonly hosts: readonly string[];
  readonly keyPrefix: string;
  readonly keyTag: string;
  /** Names of the fields that may carry a key, in lower case. */
  readonly keyHeaders: readonly string[];
  readonly foreignKeys: readonly ForeignKeyFormat[];
  /** The longest path first, the service without a path last. */
  readonly services: readonly Service[];
  readonly limits: EdgeLimits;
  /** The limits for what follows the head of a request. */
  readonly requestLimits: RequestLimits;
  /** The first digits of the configuration's hash, for the access log entry. */
  readonly config: string;
  /** The names of account metadata that an access log entry includes. */
  readonly logMeta: readonly string[];
  /** Whether `allow` and `deny` admit a client. */
  readonly isAddressAllowed: AddressMatcher;
  readonly maintenance: { readonly retryAfterSeconds: number } | undefined;
  readonly upstreamHost: "upstream" | "client";
  readonly cors: CorsPolicy | undefined;
  /** Set if the listener uses TLS. */
  readonly certificate: Certificate | undefined;
  readonly plans: ReadonlyMap<string, readonly Limit[] | "custom">;
  readonly planBounds: ReadonlyMap<string, PlanOptions>;
  readonly bans: BanPolicy | undefined;
  /** The terms of requests without a key to public operations; undefined if they need a key. */
  readonly publicPlan: PublicPlan | undefined;
  /** The path of the standing of a key's account, in the form that `paths` compares. */
  readonly standing: string | undefined;
  readonly paths: PathMatching;
};

/**
 * The parts that all listeners of this process share. `now` is the store's clock, by which records
 * and windows are judged (docs/operations.md#clocks), `machineNow` the wall clock of this machine,
 * by which sunsets and brownouts are judged, and `elapsed` the monotonic clock.
 */
export type GatewayContext = {
  readonly keys: KeyStore;
  readonly quotas: QuotaDecider & Pick<QuotaAdmin, "peek" | "read" | "knownBan">;
  failures: AuthFailureLimiter;
  /** Called with tokens that were refused; absent if nothing listens. */
  readonly wrongEnvironmentKeys?: WrongEnvironmentKeys;
  readonly concurrency: ConcurrencyLimiter;
  readonly holds: OpenHolds;
  /** Whether an address is that of a trusted proxy. */
  isTrusted: AddressMatcher;
  /** The form of the gateway's own responses. */
  style: ResponseStyle;
  readonly anonymousClients: AnonymousClients;
  readonly usageReports: UsageReportCache;
  readonly log: Log;
  /** `tracing` is undefined while telemetry is off. */
  readonly telemetry?: { readonly tracing: Tracing | undefined };
  readonly onRequest: (
    entry: AccessLogEntry,
    exchange: RequestTimes & { readonly caller: { readonly id: string } | undefined },
  ) => void;
  /** Called when a new client connection was ended at once. */
  readonly onTurnedAway?: (why: TurnedAwayReason) => void;
  /** Called when a known account has called a deprecated operation, whatever the response was. */
  readonly onDeprecated?: (
    operation: DeprecatedOperation,
    account: string,
    decidedAtMs: number | undefined,
  ) => void;
  /** The deprecated operations that an account calls; undefined if the store does not say so. */
  readonly deprecatedCalls?: (
    accountRef: AccountRef,
  ) => Promise<readonly DeprecatedCall[] | undefined>;
  /**
   * Called when a request was decided without the store, or not at all
   * (docs/reference/store.md#away).
   */
  readonly onWithoutStore: (answer: "local" | "share" | "unavailable") => void;
  /** Called when the store, or the outage handler, has decided a request with this cost. */
  readonly onAnswer: (consumer: RespondedAccount, result: ChargeResult, cost: number) => void;
  readonly now: () => number;
  readonly machineNow: () => number;
  readonly elapsed: () => number;
  /**
   * `announced` from the beginning of the drain: responses close their connections. `closed` once
   * the drain delay is over: requests that begin later get 503 `draining`.
   */
  draining: "no" | "announced" | "closed";
  /** The memory pressure at the last check; absent until then. */
  memory?: MemoryPressure;
};

/** The fields that report an account's standing, and the form of the bodies of refusals. */
export type ResponseStyle = {
  readonly rateLimitFields: "off" | "ietf";
  readonly errors: ErrorFormat;
};

/** The owner of a request that was decided. */
type RespondedAccount = AccountRef & {
  readonly plan: string;
  readonly key: { readonly id: string } | undefined;
};

/** The service that has the path, which must be in normal form; undefined if there is none. */
export function findService({ services }: Environment, path: string): Service | undefined {
  const exact = comparablePath(path);
  let loose: string | undefined;
  return services.find(({ comparable, routes }) => {
    if (comparable === undefined) return true;
    if (routes.paths !== "loose") return isUnder(comparable, exact);
    loose ??= comparablePath(path, "loose");
    return isUnder(comparable, loose);
  });
}

/** The methods of the path of the standing, for Allow (RFC 9110 15.5.6). */
export const STANDING_METHODS: readonly string[] = ["GET", "HEAD"];

/** Whether the path, in normal form, is the one of the standing, which no description has. */
export function isStandingPath({ standing, paths }: Environment, path: string): boolean {
  return standing !== undefined && comparablePath(path, paths) === standing;
}

/** The windows of all operations of the environment. */
export const operationLimits = memoize(({ services }: Environment) => {
  return operationWindows(services.map(({ routes }) => routes));
});

/** Whether an operation of the environment is deprecated. */
export const hasDeprecated = memoize(({ services }: Environment) => {
  const operations = services.flatMap(({ routes }) => routes.operations ?? []);
  return operations.some(({ lifecycle }) => lifecycle.deprecated);
});

/** The scheme that clients of this environment speak. */
export function schemeOf({ certificate }: Environment): "http" | "https" {
  return certificate === undefined ? "http" : "https";
}

/**
 * The loosest of every limit among environments that share a listener. These limits hold for the
 * connection itself, and for a request until its host is known. Of `connectionsPerAddress` the
 * strictest holds, because it protects the process (docs/reference/http.md#environments).
 */
export const loosestLimits = memoize((environments: readonly Environment[]): EdgeLimits => {
  const [first, ...others] = environments as readonly [Environment, ...Environment[]];
  const all = { ...first.limits };
  for (const { limits: each } of others) {
    for (const name of Object.keys(all) as (keyof EdgeLimits)[]) {
      Object.assign(all, { [name]: looser(name, all[name], each[name]) });
    }
  }
  return all;
});

function looser(name: keyof EdgeLimits, one: number, other: number): number {
  if (name !== "connectionsPerAddress") return Math.max(one, other);
  return one === 0 || other === 0 ? Math.max(one, other) : Math.min(one, other);
}
