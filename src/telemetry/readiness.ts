/** `why` is visible to all clients of the listener: it names settings, never secrets. */
export type ReadinessCheck = { readonly ok: boolean; readonly why?: string };
export type ReadinessChecks = Readonly<
  Record<"config" | "store" | "keys" | "upstreams" | "draining", ReadinessCheck>
> & {
  /** Present only if several processes serve. */
  readonly workers?: ReadinessCheck;
  /** Present only while log lines are lost, which is no reason to send requests elsewhere. */
  readonly log?: ReadinessCheck;
};

export type ReadinessInputs = {
  /**
   * The reason why the last reload failed, without text of the file or of a record: the place of the
   * mistake, or words such as "it needs a restart". Undefined after a success.
   */
  readonly reloadFailed: string | undefined;
  readonly store: ReadinessCheck;
  /**
   * `why` is not shown, because it may quote a record. `lost` is shown: it says how lost records
   * are restored, or what the checks of workers show.
   */
  readonly keys: ReadinessCheck & {
    readonly lost?: string | undefined;
    /** Whether requests are served by the records that were read last. */
    readonly inUse?: boolean;
    readonly damaged?: number;
  };
  readonly upstreams: Iterable<UpstreamState>;
  readonly draining: boolean;
  readonly logTrouble?: string | undefined;
  readonly workers?: ReadinessCheck;
};

/** How an upstream has gone out of service so far. Instants are Unix milliseconds. */
export type UpstreamOutages = {
  readonly count: number;
  /** When it last went out, and why. */
  readonly downMs: number;
  readonly why: string;
  /** When it last came back; absent if it never has. */
  readonly upMs?: number;
};

/** An upstream as checks, metrics and the page tell of it. */
export type UpstreamState = {
  readonly environment: string;
  /** The path of the service that it belongs to; absent for the environment's own. */
  readonly backend?: string | undefined;
  readonly origin: string;
  readonly up: boolean;
  /** The reason for which it is down. */
  readonly why?: string | undefined;
  /** Absent if it was never down. */
  readonly outages?: UpstreamOutages;
};

/**
 * The checks of /readyz, or of /readyz/ENV if an environment is named
 * (docs/reference/admin.md#health). A failed reload is reported, but is no reason to send requests
 * elsewhere.
 */
export function readinessChecks(observed: ReadinessInputs, environment?: string): ReadinessChecks {
  const { reloadFailed, store, keys, draining, workers, logTrouble } = observed;
  const upstreams = [...observed.upstreams];
  return {
    config:
      reloadFailed === undefined
        ? OK
        : { ok: true, why: `not reloaded: ${reloadFailed}; the log says why` },
    store,
    keys: checkKeys(keys, store.ok),
    upstreams: environment === undefined ? ofAll(upstreams) : ofOne(upstreams, environment),
    draining: draining ? { ok: false, why: "shutting down" } : OK,
    ...(workers && { workers }),
    ...(logTrouble !== undefined && { log: { ok: true, why: logTrouble } }),
  };
}

const OK: ReadinessCheck = { ok: true };
const UNREADABLE_KEYS: ReadinessCheck = {
  ok: false,
  why: "no usable key records: the log says why",
};
/** Key records may be in the store, and no line of the log is about them while it is unreachable. */
const UNREACHABLE_KEYS: ReadinessCheck = {
  ok: false,
  why: "no usable key records: the check of the store or the log says why",
};
const STALE_KEYS: ReadinessCheck = {
  ok: false,
  why: "the key records cannot be read: the log says why; those read before are in use",
};

function checkKeys(
  { ok, lost, inUse, damaged = 0 }: ReadinessInputs["keys"],
  isStoreUp: boolean,
): ReadinessCheck {
  if (ok) return OK;
  if (lost !== undefined) return { ok, why: lost };
  if (inUse !== true) return isStoreUp ? UNREADABLE_KEYS : UNREACHABLE_KEYS;
  if (damaged === 0) return STALE_KEYS;
  const are = damaged === 1 ? "1 key record is" : `${damaged} key records are`;
  return { ok, why: `${are} damaged: the log says where; the others are in use` };
}

/**
 * Passes if any environment has an upstream left. Upstreams that are down are named in any case.
 */
function ofAll(upstreams: readonly UpstreamState[]): ReadinessCheck {
  return judged(
    upstreams,
    upstreams.some(({ up }) => up),
  );
}

/** Passes if each service of the environment has an upstream left. */
function ofOne(all: readonly UpstreamState[], environment: string): ReadinessCheck {
  const upstreams = all.filter((one) => one.environment === environment);
  const backends = Map.groupBy(upstreams, ({ backend }) => backend);
  return judged(
    upstreams,
    [...backends.values()].every((backend) => backend.some(({ up }) => up)),
  );
}

/**
 * `why` names the upstreams that are down by environment: "down: production http://127.0.0.1:9001".
 */
function judged(upstreams: readonly UpstreamState[], ok: boolean): ReadinessCheck {
  const down = upstreams.filter(({ up }) => !up);
  if (down.length === 0) return OK;
  const named = down.map(({ environment, backend, origin }) => {
    return [environment, backend, new URL(origin).origin].filter(Boolean).join(" ");
  });
  return { ok, why: `down: ${named.join(", ")}` };
}
