import type { Waiter } from "./connection-shares.ts";
import { startDueProbe } from "./health-check.ts";
import { Upstream, UpstreamConnection, type UpstreamPoolOptions } from "./upstream.ts";

const FAILURES_MAX = 5;
const OUT_MS = 10_000;
const FAILED_PROBES_MAX = 2;

/** Which connection a request would rather have, after it has been tried already. */
export type PickPreference = {
  /** A connection that carried no request yet: it cannot have died of old age. */
  readonly fresh: boolean;
  /** These could not be reached for this request. */
  readonly unreached: ReadonlySet<Upstream>;
  /** Only when there is no other: its connection died just now. */
  readonly shunned: Upstream | undefined;
};

const ANY: PickPreference = { fresh: false, unreached: new Set(), shunned: undefined };

/**
 * The backends of one environment (docs/reference/edge.md#backends): least pending requests first;
 * five failures in a row take one out for 10 s, then one probe decides; two failed health checks
 * take one out, and the next good one brings it back; the last one in service is never taken out.
 */
export class UpstreamPool {
  readonly options: UpstreamPoolOptions;
  readonly all: readonly Upstream[];
  #closed = false;
  /** Where the search for the least pending backend begins. */
  #turn = 0;

  constructor(options: UpstreamPoolOptions) {
    this.options = options;
    this.all = options.origins.map((origin) => new Upstream(origin, options));
    if (options.healthCheck === undefined) return;
    for (const upstream of this.all) upstream.probeAtMs = options.elapsed();
  }

  /**
   * Gives a connection of the least pending backend, at once or when the account may have one. The
   * returned function gives up waiting; it does nothing once there is a connection.
   */
  take(
    account: string,
    onConnection: (connection: UpstreamConnection) => void,
    preference: PickPreference = ANY,
  ): () => void {
    const upstream = this.#leastPending(preference) ?? (this.all[0] as Upstream);
    const { share } = upstream;
    upstream.pending += 1;
    const waiter = { account, onFree: onConnection, fresh: preference.fresh };
    if (share.mayTake(account)) {
      this.#give(upstream, waiter);
      return nothing;
    }
    share.wait(waiter);
    return () => {
      if (share.giveUp(waiter)) upstream.pending -= 1;
    };
  }

  /** Whether there is a backend in service that was not found unreachable already. */
  hasOther(unreached: ReadonlySet<Upstream>): boolean {
    return this.#leastPending({ ...ANY, unreached }) !== undefined;
  }

  /** Gives a connection back, after its response ended or failed. */
  release(connection: UpstreamConnection): void {
    const { upstream, account } = connection;
    upstream.pending -= 1;
    upstream.share.returned(account);
    if (this.#closed) connection.close();
    else upstream.idle.push(connection);
    for (;;) {
      const waiter = upstream.share.next();
      if (waiter === undefined) return;
      this.#give(upstream, waiter);
    }
  }

  #give(upstream: Upstream, { account, fresh, onFree }: Waiter<UpstreamConnection>): void {
    const connection = upstream.idle.pop() ?? new UpstreamConnection(upstream, this.options);
    upstream.share.taken(account);
    connection.account = account;
    if (fresh) connection.renew();
    onFree(connection);
  }

  /** The backend for a tunnel, which opens a connection of its own; pending until `done`. */
  pick(): Upstream {
    const upstream = this.#leastPending(ANY) as Upstream;
    upstream.pending += 1;
    return upstream;
  }

  done(upstream: Upstream): void {
    upstream.pending -= 1;
  }

  succeeded({ upstream }: Pick<UpstreamConnection, "upstream">): void {
    if (upstream.failuresInRow === 0) return;
    upstream.failuresInRow = 0;
    if (!upstream.out && this.options.healthCheck === undefined) upstream.probeAtMs = undefined;
  }

  failed({ upstream }: Pick<UpstreamConnection, "upstream">): void {
    upstream.failuresInRow += 1;
    if (upstream.failuresInRow < FAILURES_MAX || upstream.out) return;
    this.#takeOut(upstream);
    // One that must stay in service is probed too: without requests nothing else would clear it.
    if (upstream.out || upstream.failuresInRow === FAILURES_MAX) {
      upstream.probeAtMs = this.options.elapsed() + OUT_MS;
    }
  }

  /** Starts the probes that are due; called a few times a second. */
  probe(): void {
    for (const upstream of this.all) {
      startDueProbe(upstream, this.options, (wentWell) => this.#probed(upstream, wentWell));
    }
  }

  /** Which backends are in service and answer, as far as is known: one that was never tried is. */
  health(): { readonly origin: string; readonly up: boolean }[] {
    return this.all.map(({ origin, out, failuresInRow, failedProbes }) => {
      const failing = failuresInRow >= FAILURES_MAX || failedProbes >= FAILED_PROBES_MAX;
      return { origin, up: !out && !failing };
    });
  }

  /** Closes idle connections now, and busy ones when their response has ended. */
  close(): void {
    this.#closed = true;
    for (const { endProbe } of this.all) endProbe?.();
    for (const { idle } of this.all) for (const connection of idle.splice(0)) connection.close();
  }

  #probed(upstream: Upstream, wentWell: boolean): void {
    const { healthCheck, elapsed } = this.options;
    const ejected = upstream.failuresInRow >= FAILURES_MAX;
    const nextMs = healthCheck?.everyMs ?? OUT_MS;
    if (wentWell) {
      upstream.failedProbes = 0;
      upstream.out = false;
      // On trial: the next failure takes it out again.
      if (ejected) upstream.failuresInRow = FAILURES_MAX - 1;
    } else if (healthCheck !== undefined) {
      upstream.failedProbes += 1;
      if (upstream.failedProbes >= FAILED_PROBES_MAX) this.#takeOut(upstream);
    }
    const wanted = healthCheck !== undefined || !wentWell;
    upstream.probeAtMs = wanted ? elapsed() + nextMs : undefined;
  }

  #takeOut(upstream: Upstream): void {
    const inService = this.all.filter(({ out }) => !out);
    if (inService.length > 1) upstream.out = true;
  }

  /** Backends with as few pending requests as each other are asked in turn. */
  #leastPending({ unreached, shunned }: PickPreference): Upstream | undefined {
    const count = this.all.length;
    let least: Upstream | undefined;
    let place = this.#turn;
    for (let i = 0; i < count; i++) {
      const at = (this.#turn + i) % count;
      const upstream = this.all[at] as Upstream;
      if (upstream.out || unreached.has(upstream)) continue;
      const isBetter = upstream !== shunned && upstream.pending < (least?.pending ?? 0);
      if (least !== undefined && least !== shunned && !isBetter) continue;
      least = upstream;
      place = at;
    }
    this.#turn = (place + 1) % count;
    return least;
  }
}

function nothing(): void {}
