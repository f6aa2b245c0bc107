import type { Refusal } from "../../core/refusal.ts";
import { holderOf } from "./connection-shares.ts";
import { startDueProbe } from "./health-check.ts";
import {
  Upstream,
  UpstreamConnection,
  type UpstreamLoad,
  type UpstreamPoolOptions,
} from "./upstream.ts";
import {
  FAILED_PROBES_MAX,
  FAILURES_MAX,
  forgive,
  inheritHealth,
  isFailing,
  isUp,
  keepOneIn,
} from "./upstream-health.ts";

/** Responses that say that the upstream cannot serve (RFC 9110 15.6.3 to 15.6.5). */
const UNAVAILABLE: ReadonlySet<number> = new Set([502, 503, 504]);
/** Pauses before the first probe of a failing upstream, before the second, and so on. */
const PAUSES_MS: readonly [number, ...number[]] = [1_000, 2_000, 4_000, 10_000];

/** The connection that a request prefers after it has been tried already. */
export type PickPreference = {
  /** Takes only a connection that has carried no request yet: it cannot have died of old age. */
  readonly freshOnly: boolean;
  /** Upstreams that could not be reached for this request. */
  readonly unreachable: ReadonlySet<Upstream>;
  /** Taken only if there is no other upstream: its connection has just died. */
  readonly avoided: Upstream | undefined;
};

const ANY: PickPreference = { freshOnly: false, unreachable: new Set(), avoided: undefined };

/**
 * The upstreams of one service (docs/reference/edge.md#backends). The upstream with the fewest
 * pending requests is chosen first. Being out of service only lowers an upstream's rank. An
 * upstream that is out is asked if no other is left, by its health check, or, without one, by one
 * request after a pause. The last upstream in service is never taken out.
 */
export class UpstreamPool {
  readonly options: UpstreamPoolOptions;
  readonly all: readonly Upstream[];
  #closed = false;
  /** Connections whose response has ended in this turn of the event loop, and in the one before. */
  #ended: UpstreamConnection[] = [];
  #resting: UpstreamConnection[] = [];
  /** The index at which the search for the least pending upstream begins. */
  #turn = 0;

  /** `before` is the pool that served before a reload: equal origins keep their load and health. */
  constructor(options: UpstreamPoolOptions, before?: UpstreamPool) {
    const { origins, healthCheck, elapsed } = options;
    this.options = options;
    this.all = origins.map((origin) => {
      const known = before?.all.find((one) => one.origin === origin);
      const upstream = new Upstream(origin, options, known?.load);
      if (known !== undefined) inheritHealth(upstream, known, healthCheck !== undefined);
      return upstream;
    });
    keepOneIn(this.all);
    for (const upstream of this.all) {
      const isProbed = healthCheck !== undefined || (!isUp(upstream) && upstream.trial === "none");
      if (isProbed) upstream.probeAtMs = elapsed();
    }
  }

  /**
   * Called when its configuration is in force: its limit holds, for the requests of those before too.
   */
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

  /**
   * Whether there is an upstream, in service or out, that this request has not found unreachable.
   */
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
    if (!connection.open) this.#free(connection);
    else if (this.#ended.push(connection) === 1 && this.#resting.length === 0) {
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
    const { share, idle } = upstream.load;
    let connection = idle.pop();
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

  /**
   * The upstream has sent a good head to a request of the account. All client addresses count as
   * one account. The body may take long, so the head decides, and a body that breaks then counts
   * by itself.
   */
  answered(upstream: Upstream, account: string, status: number): void {
    upstream.failuresInRow = 0;
    if (upstream.trial === "asked") {
      upstream.brokenInRow = Math.min(upstream.brokenInRow, FAILURES_MAX - 1);
    }
    if (UNAVAILABLE.has(status)) {
      const holder = holderOf(account);
      if (upstream.unavailableInRow === 0) upstream.unavailableFor = holder;
      upstream.isUnavailableForSeveral ||= upstream.unavailableFor !== holder;
      upstream.unavailableInRow += 1;
      upstream.why = `answered ${status}`;
    } else {
      upstream.unavailableInRow = 0;
      upstream.isUnavailableForSeveral = false;
    }
    if (!isFailing(upstream)) this.#trust(upstream);
    else if (UNAVAILABLE.has(status)) this.#distrust(upstream);
  }

  /** A body of the upstream went well: it was whole, or its client left while it came. */
  delivered(upstream: Upstream): void {
    upstream.brokenInRow = 0;
    if (!isFailing(upstream)) this.#trust(upstream);
  }

  /** Another process found the upstream down: it counts as failing here, until a probe succeeds. */
  foundDown(origin: string, why = ""): void {
    for (const upstream of this.all) {
      if (upstream.origin !== origin || upstream.failuresInRow > 0) continue;
      upstream.why = why;
      upstream.failuresInRow = FAILURES_MAX;
      this.#takeOut(upstream);
      upstream.probeAtMs ??= this.options.elapsed();
    }
  }

  /** A request to the upstream failed, before its head or after it, and the upstream is to blame. */
  failed(upstream: Upstream, { code, why = code }: Refusal, isAnswered = false): void {
    // The reason alone, such as `line`, does not say that the response was malformed.
    upstream.why = code === "upstream_invalid" && why !== code ? `${code}: ${why}` : why;
    if (isAnswered) upstream.brokenInRow += 1;
    else upstream.failuresInRow += 1;
    if (upstream.trial === "asked" || isFailing(upstream)) this.#distrust(upstream);
  }

  /** The upstream fails: it goes out of service, if another one is left, until it recovers. */
  #distrust(upstream: Upstream): void {
    this.#takeOut(upstream);
    const { trial, probeAtMs } = upstream;
    if (trial === "asked") upstream.failedTrials += 1;
    if (trial !== "none" || probeAtMs === undefined) this.#scheduleProbe(upstream);
    upstream.trial = "none";
  }

  /** A request succeeded. A failing health check outweighs that. */
  #trust(upstream: Upstream): void {
    if (upstream.failedProbes >= FAILED_PROBES_MAX) return;
    // While bodies of it are in doubt, a good head shortens no pause.
    if (upstream.brokenInRow === 0) upstream.failedTrials = 0;
    else if (upstream.trial === "asked") upstream.failedTrials += 1;
    upstream.out = false;
    upstream.trial = "none";
    if (this.options.healthCheck === undefined) upstream.probeAtMs = undefined;
  }

  #scheduleProbe(upstream: Upstream): void {
    const { healthCheck, elapsed } = this.options;
    const pauseMs = PAUSES_MS[upstream.failedTrials] ?? (PAUSES_MS.at(-1) as number);
    upstream.probeAtMs = elapsed() + (healthCheck?.everyMs ?? pauseMs);
  }

  /** Starts due probes, closes expired idle connections and refreshes addresses. Called often. */
  probe(): void {
    for (const upstream of this.all) {
      for (const connection of upstream.load.idle) connection.closeIfExpired();
      if (upstream.load.isShort) this.#allowAll(upstream.load);
      upstream.addresses?.refresh();
      startDueProbe(upstream, this.options, (wrong) => this.#probed(upstream, wrong));
    }
  }

  /** Whether each upstream is in service and answers, else why not. */
  health(): { readonly origin: string; readonly up: boolean; readonly why?: string }[] {
    return this.all.map((upstream) => {
      const { origin, why } = upstream;
      const up = isUp(upstream);
      return up ? { origin, up } : { origin, up, why };
    });
  }

  /** Closes idle connections now, and busy ones when their response has ended. */
  close(): void {
    this.#closed = true;
    for (const { endProbe } of this.all) endProbe?.();
    for (const { load } of this.all) for (const one of load.idle.splice(0)) one.close();
  }

  #probed(upstream: Upstream, wrong: string | undefined): void {
    if (wrong !== undefined) upstream.why = wrong;
    if (this.options.healthCheck === undefined) this.#connected(upstream, wrong === undefined);
    else this.#checked(upstream, wrong === undefined);
  }

  /** A health check ended. One success clears every failure; two failures take the upstream out. */
  #checked(upstream: Upstream, wentWell: boolean): void {
    upstream.failedProbes = wentWell ? 0 : upstream.failedProbes + 1;
    if (wentWell) {
      forgive(upstream);
      this.#trust(upstream);
    } else if (upstream.failedProbes >= FAILED_PROBES_MAX) {
      this.#takeOut(upstream);
    }
    this.#scheduleProbe(upstream);
  }

  /** A bare connection to a failing upstream ended. If it succeeded, one request decides. */
  #connected(upstream: Upstream, wentWell: boolean): void {
    if (!wentWell) {
      upstream.failedTrials += 1;
      this.#scheduleProbe(upstream);
      return;
    }
    upstream.probeAtMs = undefined;
    if (upstream.out) {
      upstream.trial = "due";
    } else {
      // This is the last upstream in service. Without requests nothing else would clear its
      // failures. One more of either kind is enough then.
      const broken = Math.min(upstream.brokenInRow, FAILURES_MAX - 1);
      forgive(upstream);
      upstream.brokenInRow = broken;
      upstream.failuresInRow = FAILURES_MAX - 1 - broken;
    }
  }

  #takeOut(upstream: Upstream): void {
    if (this.all.some((one) => one !== upstream && !one.out)) upstream.out = true;
  }

  #choose(preference: PickPreference): Upstream {
    const upstream = this.#best(preference) ?? (this.all[0] as Upstream);
    if (upstream.trial === "due") upstream.trial = "asked";
    this.#turn = (this.all.indexOf(upstream) + 1) % this.all.length;
    return upstream;
  }

  /** Upstreams with equally few pending requests take turns. */
  #best({ unreachable, avoided }: PickPreference): Upstream | undefined {
    const count = this.all.length;
    let best: Upstream | undefined;
    for (let i = 0; i < count; i++) {
      const upstream = this.all[(this.#turn + i) % count] as Upstream;
      if (unreachable.has(upstream)) continue;
      const order = best === undefined ? -1 : rankOf(upstream, avoided) - rankOf(best, avoided);
      if (order < 0 || (order === 0 && upstream.load.pending < (best as Upstream).load.pending)) {
        best = upstream;
      }
    }
    return best;
  }
}

/** The lowest rank is chosen first: on trial, in service, to be avoided, out of service. */
function rankOf(upstream: Upstream, avoided: Upstream | undefined): number {
  if (upstream === avoided) return upstream.out ? 4 : 2;
  if (upstream.trial === "due") return 0;
  return upstream.out ? 3 : 1;
}

function nothing(): void {}
