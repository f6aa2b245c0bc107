import type { GatewayNews } from "../../../telemetry/gateway-status.ts";
import type { GatewayDirectory } from "../quota-store.ts";

/** The gateway list of a store that no other process has: it holds only this gateway. */
export class MemoryGateways implements GatewayDirectory {
  readonly #told = new Map<string, { status: string; atMs: number }>();

  async announce(name: string, status: string): Promise<void> {
    this.#told.set(name, { status, atMs: performance.now() });
  }

  async withdraw(name: string): Promise<void> {
    this.#told.delete(name);
  }

  async list(): Promise<readonly GatewayNews[]> {
    const nowMs = performance.now();
    return [...this.#told].map(([name, { status, atMs }]) => {
      return { name, status, ageMs: nowMs - atMs };
    });
  }
}
