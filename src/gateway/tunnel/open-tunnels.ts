import {
  checkKeyRecord,
  isKeyAllowedFrom,
  isSuspended,
  type KeyRecord,
} from "../../core/keys/records.ts";
import { banAt } from "../../core/quota/bans.ts";
import type { Environment, GatewayContext } from "../exchange/environment.ts";
import type { OpenTunnel } from "../exchange/open-tunnel.ts";

/**
 * A revoked key is noticed within this time and a ban within twice as long, well under 5 s
 * (docs/reference/edge.md#tunnels).
 */
const RECHECK_MS = 1_000;
/** Accounts whose bans are looked up at the same time. */
const ASKED_AT_ONCE = 64;

/**
 * The tunnels of one listener. A request is judged once, but a tunnel lasts, so its key and its
 * account are checked again for as long as it is open.
 */
export class OpenTunnels {
  readonly #gateway: GatewayContext;
  readonly #served: () => readonly Environment[];
  readonly #byOwner = new Map<string, Set<OpenTunnel>>();
  #timer: NodeJS.Timeout | undefined;
  #asking = false;
  size = 0;

  /** `served` returns the current environments, because tunnels outlive a reload. */
  constructor(gateway: GatewayContext, served: () => readonly Environment[]) {
    this.#gateway = gateway;
    this.#served = served;
  }

  /** Registers a tunnel. Returns false if the key has `tunnelsPerKey` tunnels already. */
  enter(tunnel: OpenTunnel): boolean {
    const { owner, environment } = tunnel;
    const tunnels = this.#byOwner.get(owner) ?? new Set();
    if (tunnels.size >= environment.limits.tunnelsPerKey) return false;
    this.#byOwner.set(owner, tunnels.add(tunnel));
    this.size += 1;
    this.#timer ??= setInterval(() => this.#recheck(), RECHECK_MS).unref();
    return true;
  }

  leave(tunnel: OpenTunnel): void {
    const tunnels = this.#byOwner.get(tunnel.owner);
    if (!tunnels?.delete(tunnel)) return;
    this.size -= 1;
    if (tunnels.size === 0) this.#byOwner.delete(tunnel.owner);
    if (this.size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  closeAll(status: 1001 | 1008, why: string): void {
    for (const tunnel of this.#all()) tunnel.close(status, why);
  }

  #all(): OpenTunnel[] {
    return [...this.#byOwner.values()].flatMap((tunnels) => [...tunnels]);
  }

  #recheck(): void {
    const { keys, now } = this.#gateway;
    this.#closeRefusedAddresses();
    if (keys.ready) {
      for (const { key, environment } of this.#firsts()) {
        if (key === undefined) continue;
        const judged = checkKeyRecord(keys.find(key.digest), environment.name, now());
        const owner = keys.account(key.account);
        if (!judged.ok) this.#closeKey(key.id, judged.refusal.why as string);
        else if (owner !== undefined && isSuspended(owner, now())) {
          this.#closeKey(key.id, "the account is suspended");
        } else this.#closeElsewhere(judged.value);
      }
    }
    if (this.#asking) return;
    this.#asking = true;
    void this.#closeBanned().finally(() => {
      this.#asking = false;
    });
  }

  /** A reload may have added a client's network to `deny`, or removed it from `allow`. */
  #closeRefusedAddresses(): void {
    for (const tunnel of this.#all()) {
      const environment = this.#environmentOf(tunnel);
      if (environment === tunnel.environment) continue;
      if (environment.isAddressAllowed(tunnel.client)) continue;
      tunnel.close(1008, `not from ${tunnel.client}`);
    }
  }

  /** The environment as it is served now, or as it was if it is served no more. */
  #environmentOf({ environment }: OpenTunnel): Environment {
    return this.#served().find(({ name }) => name === environment.name) ?? environment;
  }

  /** The first tunnel of each key. It stands for the key's other tunnels. */
  #firsts(): OpenTunnel[] {
    return [...this.#byOwner.values()].flatMap(([first]) => first ?? []);
  }

  #closeKey(id: string, why: string): void {
    for (const tunnel of this.#byOwner.get(id) ?? []) tunnel.close(1008, why);
  }

  /** The tunnels of a key may come from several addresses, and its networks may have changed. */
  #closeElsewhere(key: KeyRecord): void {
    if (key.from.length === 0) return;
    for (const tunnel of this.#byOwner.get(key.id) ?? []) {
      if (!isKeyAllowedFrom(key, tunnel.client)) tunnel.close(1008, `not from ${tunnel.client}`);
    }
  }

  async #closeBanned(): Promise<void> {
    const tunnels = this.#firsts().filter(
      (tunnel) => tunnel.key && this.#environmentOf(tunnel).bans,
    );
    for (let i = 0; i < tunnels.length; i += ASKED_AT_ONCE) {
      const some = tunnels.slice(i, i + ASKED_AT_ONCE);
      const banned = await Promise.all(some.map((tunnel) => this.#isBanned(tunnel)));
      for (const [at, { owner }] of some.entries()) {
        if (banned[at]) this.#closeKey(owner, "the account is banned");
      }
    }
  }

  /**
   * Asks the store, because any gateway may have banned the account. While the store is
   * unreachable, the last known state is used.
   */
  async #isBanned(tunnel: OpenTunnel): Promise<boolean> {
    const { key } = tunnel;
    if (key === undefined) return false;
    const { quotas } = this.#gateway;
    const { bans } = this.#environmentOf(tunnel);
    const accountRef = { environment: key.environment, account: key.account };
    const decision = await quotas
      .peek(accountRef, { limits: [], bans })
      .catch(() => quotas.lastKnown(accountRef));
    return decision !== undefined && banAt(decision.ban, decision.nowMs) !== undefined;
  }
}
