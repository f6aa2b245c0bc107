/** `why` is read by anybody who can reach the listener: it names settings, never secrets. */
export type ReadinessCheck = { readonly ok: boolean; readonly why?: string };
export type ReadinessChecks = Readonly<
  Record<"config" | "store" | "keys" | "upstreams" | "draining", ReadinessCheck>
> & {
  /** Only where several processes serve. */
  readonly workers?: ReadinessCheck;
  /** Only while lines of the log are lost, which is no reason to send requests elsewhere. */
  readonly log?: ReadinessCheck;
};

export type ReadinessInputs = {
  /** Where the last reload failed, without a word of the file; undefined after one that worked. */
  readonly reloadFailed: string | undefined;
  readonly store: ReadinessCheck;
  /** `why` is not told: it may quote a record. `lost` is: it says how lost records come back. */
  readonly keys: ReadinessCheck & { readonly lost?: string };
  readonly upstreams: Iterable<Upstream>;
  readonly draining: boolean;
  readonly logTrouble?: string | undefined;
  readonly workers?: ReadinessCheck;
};

type Upstream = {
  readonly environment: string;
  /** The path of the backend that it belongs to; absent for the environment's own. */
  readonly backend?: string | undefined;
  readonly origin: string;
  readonly up: boolean;
};

/**
 * The checks of /readyz, or of /readyz/ENV where an environment is named
 * (docs/reference/admin.md#health). A configuration that was not reloaded is told, and no reason to
 * send requests elsewhere.
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
    keys: checkKeys(keys),
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

function checkKeys({ ok, lost }: ReadinessInputs["keys"]): ReadinessCheck {
  if (ok) return OK;
  return lost === undefined ? UNREADABLE_KEYS : { ok, why: lost };
}

/** Well while any environment has an upstream left; those that are down are told all the same. */
function ofAll(upstreams: readonly Upstream[]): ReadinessCheck {
  return judged(upstreams, upstreams.length === 0 || upstreams.some(({ up }) => up));
}

/** Well while each backend of the environment has an upstream left. */
function ofOne(all: readonly Upstream[], environment: string): ReadinessCheck {
  const upstreams = all.filter((one) => one.environment === environment);
  const backends = Map.groupBy(upstreams, ({ backend }) => backend);
  return judged(
    upstreams,
    [...backends.values()].every((backend) => backend.some(({ up }) => up)),
  );
}

/** `why` names what is down by its environment: "down: production http://127.0.0.1:9001". */
function judged(upstreams: readonly Upstream[], ok: boolean): ReadinessCheck {
  const down = upstreams.filter(({ up }) => !up);
  if (down.length === 0) return OK;
  const named = down.map(({ environment, backend, origin }) => {
    return [environment, backend, new URL(origin).origin].filter(Boolean).join(" ");
  });
  return { ok, why: `down: ${named.join(", ")}` };
}
