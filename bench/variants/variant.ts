import type { Need } from "../stage/needs.ts";
import type { Server } from "../stage/server.ts";

/** One of the gateways that are compared, as configured. */
export type Variant = {
  readonly name: string;
  readonly title: string;
  /** The work that a request makes besides being forwarded. */
  readonly counts: string;
  /** Keys that take turns; those that count nothing are sent one all the same. */
  readonly keys: number;
  readonly usesStore: boolean;
  readonly needs: readonly Need[];
  /** Copies that run side by side: how far they lie apart is the noise. Default: 1. */
  readonly instances?: number;
  /** Processes that take connections and run on Node. Default: 1. */
  readonly workers?: number;
  /** It has 64 KiB bodies measured, too. Default: true. */
  readonly bodies?: boolean;
  start(options: StartOptions): Promise<Server>;
};

export type StartOptions = {
  /** A new folder for what it writes. */
  readonly directory: string;
  readonly port: number;
  readonly storePort: number;
  readonly backendPort: number;
  readonly keys: readonly string[];
};

/** Far above what a benchmark asks for in an hour: nothing is refused. */
export const LIMITS = { minute: 100_000_000, day: 1_000_000_000 };
