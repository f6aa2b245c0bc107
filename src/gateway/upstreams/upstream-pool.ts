import { SOON_MS } from "./closing-habit.ts";
import { startDueProbe } from "./health-check.ts";
import { PoolHealth } from "./pool-health.ts";
import {
  Upstream,
  UpstreamConnection,
  type UpstreamLoad,
  type UpstreamPoolOptions,
} from "./upstream.ts";

/** The connection that a request prefers after it has been tried already. */
export type PickPreference = {
  /** Whether it is a GET or HEAD that was not sent again yet, whose loss in a trial costs least. */
  readonly isRepeatable: boolean;
  /** Takes only a connection that has carried no request yet: it cannot have died of old age. */
  readonly freshOnly: boolean;
  /** Upstreams that could not be reached for this request. */
  readonly unreachable: ReadonlySet<Upstream>;
  /** Taken only if there is no other upstream: its connection has just died. */
  readonly avoided: Upstream | undefined;
};

const ANY: PickPreference = {
  isRepeatable: true,
  freshOnly: false,
  unreachable: new Set(),
  avoided: undefined,
};
/** A trial waits so long for a repeatable request; then the next one of any kind is it. */
const TRIAL_WAIT_MS = 1_000;

/**
 * The upstreams of one service with their connections (docs/reference/edge.md#backends). The
 * upstream with the fewest pending requests is chosen first.
 */
export class UpstreamPool {
  readonly options: UpstreamPoolOptions;
  readonly all: readonly Upstream[];
  readonly health: PoolHealth;
  #closed = false;
  /** Connections whose response has ended in this turn of the event loop, and in the one before. */
  #ended: UpstreamConnection[] = [];
  #resting: UpstreamConnection[] = [];
  /** The index at which the search for the least pending upstream begins. */
  #turn = 0;

  /** `before` is the pool that served before a reload: equal origins keep their load and health. */
  constructor(options: UpstreamPoolOptions, before?: UpstreamPool) {
    const { all = [] } = before ?? {};
    this.options = options;
    this.all = options.origins.map((origin) => {
      return new Upstream(origin, options, all.find((one) => one.origin === origin)?.load);
    });
    this.health = new PoolHealth(this.all, options, all);
  }

  /** Called when its configuration is in force: its limit holds for earlier requests too. */
  open(): void {
    for (const { load } of this.all) this.#allowAll(load);
  }

  #allowAll(load: UpstreamLoad): void {
    load.isShort = false;
    load.sockets.needed = this.options.connectionsMax;
    load.share.limitTo(this.options.connectionsMax);
    load.share.serve();
  }

  /**
   * Called when no file was left for a connection, before it is released. Requests wait for those
   * that are open until `probe` lets them open others. The upstream is not to blame. Closed ones
   * that are idle are forgotten, because a request that gets one has to open it.
   */
  short({ load }: Upstream): void {
    if (!load.isShort) {
      const open = load.idle.filter((connection) => connection.open);
      for (const [i, connection] of open.entries()) load.idle[i] = connection;
      load.idle.length = open.length;
    }
    load.isShort = true;
    load.share.limitToOpen(load.idle.length);
  }

  /**
   * Leases a connection of the least pending upstream, at once or as soon as the account may have
   * one. The returned function stops waiting; it does nothing once there is a connection.
   */
  take(
    account: string,
    onConnection: (connection: UpstreamConnection) => void,
    preference: PickPreference = ANY,
  ): () => void {
    const upstream = this.#choose(preference);
    const { share } = upstream.load;
    upstream.load.pending += 1;
    const onFree = () => onConnection(this.#lease(upstream, account, preference.freshOnly));
    if (share.mayTake(account)) {
      onFree();
      return nothing;
    }
    const waiter = { account, onFree };
    share.wait(waiter);
    return () => {
      if (share.giveUp(waiter)) this.onRequestEnd(upstream);
    };
  }

  /** Whether some upstream, in service or out, was not found unreachable by this request. */
  hasOther(unreached: ReadonlySet<Upstream>): boolean {
    return this.all.some((upstream) => !unreached.has(upstream));
  }

  /**
   * Returns a connection after its response ended or failed. An open connection rests for a whole
   * turn of the event loop, so that an end or stray bytes sent with the last response are read by
   * then.
   */
  release(connection: UpstreamConnection): void {
    this.onRequestEnd(connection.upstream);
    if (!connection.open) {
      this.#free(connection);
      return;
    }
    // Where the gateway ends the connection, as after HEAD, nothing shows whether the upstream would.
    connection.upstream.load.closing.onAnswer();
    if (this.#ended.push(connection) === 1 && this.#resting.length === 0) {
      setImmediate(this.#onTurn);
    }
  }

  /** Called after each turn's reads. Connections that rested through all of them are free. */
  readonly #onTurn = (): void => {
    const rested = this.#resting;
    this.#resting = this.#ended;
    this.#ended = [];
    if (this.#resting.length > 0) setImmediate(this.#onTurn);
    for (const connection of rested) this.#free(connection);
  };

  #free(connection: UpstreamConnection): void {
    const { upstream, account } = connection;
    const { share, idle, isShort } = upstream.load;
    share.onReturned(account);
    if (this.#closed) connection.close();
    else if (connection.open || !isShort) idle.push(connection);
    share.serve();
  }

  #lease(upstream: Upstream, account: string, fresh: boolean): UpstreamConnection {
    const { share, idle, closing } = upstream.load;
    let connection = closing.isHabit ? takeRested(upstream.load) : idle.pop();
    if (connection?.upstream !== upstream) {
      // An idle one of another configuration is not for this request, and counts as open.
      connection?.close();
      connection = new UpstreamConnection(upstream, this.options);
    }
    share.onTaken(account);
    connection.account = account;
    if (fresh) connection.renew();
    return connection;
  }

  /**
   * The upstream for a tunnel, which opens its own connection. It counts as pending until
   * `onRequestEnd`.
   */
  pick(preference: PickPreference = ANY): Upstream {
    const upstream = this.#choose(preference);
    upstream.load.pending += 1;
    return upstream;
  }

  onRequestEnd(upstream: Upstream): void {
    upstream.load.pending -= 1;
    // If the client of a trial left before its outcome, the next request becomes the trial.
    if (upstream.trial === "asked") upstream.trial = "due";
  }

  /** Starts due probes, closes expired idle connections and refreshes addresses. Called often. */
  probe(): void {
    for (const upstream of this.all) {
      for (const connection of upstream.load.idle) connection.closeIfExpired();
      if (upstream.load.isShort) this.#allowAll(upstream.load);
      upstream.addresses?.refresh();
      startDueProbe(upstream, this.options, (wrong) => this.health.probed(upstream, wrong));
    }
  }

  /** Closes idle connections now, and busy ones when their response has ended. */
  close(): void {
    this.#closed = true;
    for (const { endProbe } of this.all) endProbe?.();
    for (const { load } of this.all) for (const one of load.idle.splice(0)) one.close();
  }

  #choose(preference: PickPreference): Upstream {
    const upstream = this.#best(preference) ?? (this.all[0] as Upstream);
    if (upstream.trial === "due") upstream.trial = "asked";
    this.#turn = (this.all.indexOf(upstream) + 1) % this.all.length;
    return upstream;
  }

  /** Upstreams with equally few pending requests take turns. */
  #best(preference: PickPreference): Upstream | undefined {
    const { unreachable } = preference;
    const count = this.all.length;
    let best: Upstream | undefined;
    for (let i = 0; i < count; i++) {
      const upstream = this.all[(this.#turn + i) % count] as Upstream;
      if (unreachable.has(upstream)) continue;
      const rank = this.#rankOf(upstream, preference);
      const order = best === undefined ? -1 : rank - this.#rankOf(best, preference);
      if (order < 0 || (order === 0 && upstream.load.pending < (best as Upstream).load.pending)) {
        best = upstream;
      }
    }
    return best;
  }

  /**
   * The lowest rank is chosen first: on trial, in service, to be avoided, connected to but not yet
   * for this request, out of service.
   */
  #rankOf(upstream: Upstream, { isRepeatable, avoided }: PickPreference): number {
    const { trial, trialDueMs, out } = upstream;
    if (upstream === avoided) return out ? 5 : 2;
    if (trial !== "due") return out ? 4 : 1;
    return isRepeatable || this.options.elapsed() >= trialDueMs + TRIAL_WAIT_MS ? 0 : 3;
  }
}

/**
 * Takes an idle connection that is closed, or one that the upstream would have closed by now.
 * Undefined if there is none and another may be opened: those that are about to end stay, and show
 * whether they do.
 */
function takeRested({ idle, share, isShort }: UpstreamLoad): UpstreamConnection | undefined {
  const at = idle.findLastIndex((one) => !one.open || one.restedMs > SOON_MS);
  if (at !== -1) return idle.splice(at, 1)[0];
  if (share.hasRoomBeside(idle.length)) return undefined;
  const connection = idle.pop();
  if (!isShort) connection?.renew();
  return connection;
}

function nothing(): void {}
