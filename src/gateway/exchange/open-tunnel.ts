import type { KeyRecord } from "../../core/keys/records.ts";
import type { Environment } from "./environment.ts";

/**
 * A valid WebSocket handshake of the client (docs/reference/edge.md#upgrade). `nonce` is its
 * Sec-WebSocket-Key.
 */
export type Upgrade = { readonly nonce: string; readonly tunnels: TunnelRegistry };

/** Counts the tunnels of each key. The open tunnels of a listener implement it. */
export type TunnelRegistry = {
  /** Registers a tunnel. Returns false if its key has the most tunnels allowed. */
  enter(tunnel: OpenTunnel): boolean;
  leave(tunnel: OpenTunnel): void;
};

/** An open tunnel, or one that waits for the upstream's 101. */
export type OpenTunnel = {
  /** Undefined if none was needed. */
  readonly key: KeyRecord | undefined;
  /** The id of the key, or the account of an address. Tunnels are counted by it. */
  readonly owner: string;
  /** The address of the client. */
  readonly client: string;
  readonly environment: Environment;
  /**
   * Closes it from the gateway's side. 1001: the gateway stops, or the tunnel is idle; 1008: the
   * key is not allowed any more.
   */
  close(status: 1001 | 1008, why: string): void;
};
