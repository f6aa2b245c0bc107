import type { Address } from "../core/http/address.ts";
import type { CorsPolicy } from "../core/http/cors.ts";
import type { EdgeLimits } from "../core/http/edge-limits.ts";
import type { RouteTable } from "../core/http/route.ts";
import type { BanPolicy } from "../core/quota/decide.ts";
import type { PlanBounds } from "../core/quota/plan.ts";
import type { Limit, WindowName } from "../core/quota/windows.ts";
import type { Mistake } from "./file/place.ts";
import type { StoreAddress } from "./schema/addresses.ts";

/** A configuration that was read, checked and completed: nothing inside meets `undefined` by surprise. */
export type Config = {
  /** Absolute path of the file. */
  readonly file: string;
  /** SHA-256 in hex of the file as it stands, its descriptions and authorities; no variable is in it. */
  readonly hash: string;
  readonly store: StoreAddress;
  readonly storePrefix: string;
  readonly onStoreFailure: "local" | "deny" | "allow";
  readonly expectedGateways: number;
  readonly keys: { readonly in: "file"; readonly path: string } | { readonly in: "redis" };
  readonly stateFile: string;
  readonly workers: number | "auto";
  readonly environments: readonly Environment[];
  readonly plans: ReadonlyMap<string, readonly Limit[] | "custom">;
  /** By plan: all those of `plans`. */
  readonly planBounds: ReadonlyMap<string, PlanBounds>;
  readonly bans: BanPolicy | undefined;
  readonly unauthenticated: { readonly window: WindowName; readonly limit: number };
  readonly keyPrefix: string;
  readonly rateLimitFields: "off" | "policy";
  readonly trustedProxies: readonly string[];
  readonly admin: { readonly listen: Address; readonly token: string } | undefined;
  readonly log: { readonly level: "debug" | "info" | "warn" | "error" | "silent" };
};

export type Environment = {
  readonly name: string;
  readonly listen: Address;
  /** Lower-case names without port; empty serves any. */
  readonly hosts: readonly string[];
  readonly keyTag: string;
  readonly routes: RouteTable;
  /** Origins, no path: "http://127.0.0.1:9001". */
  readonly upstreams: readonly string[];
  readonly upstreamHost: "upstream" | "client";
  readonly upstreamTls: {
    /** Trusted in place of the system's authorities: the file, and what it held when it was read. */
    readonly ca: { readonly path: string; readonly text: string } | undefined;
    readonly serverName: string | undefined;
  };
  /** Asked of each upstream. */
  readonly healthCheck: { readonly path: string; readonly everyMs: number } | undefined;
  /**
   * Absolute paths of PEM files; undefined when the listener is plain. The files are read where
   * they are used.
   */
  readonly tls: CertificateFiles | undefined;
  readonly cors: CorsPolicy | undefined;
  readonly limits: EdgeLimits;
};

export type CertificateFiles = { readonly cert: string; readonly key: string };

export type Loaded =
  | {
      readonly ok: true;
      readonly config: Config;
      readonly warnings: readonly Mistake[];
      /**
       * Absolute paths of all files that were read, the configuration first: saving any of them
       * reloads.
       */
      readonly files: readonly string[];
    }
  | { readonly ok: false; readonly mistakes: readonly Mistake[] };
