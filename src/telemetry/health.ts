/** `why` is read by anybody who can reach the listener: it names settings, never secrets. */
export type Check = { readonly ok: boolean; readonly why?: string };
export type Checks = Readonly<
  Record<"config" | "store" | "keys" | "upstreams" | "draining", Check>
> & {
  /** Only where several processes serve. */
  readonly workers?: Check;
};

export type Observed = {
  /** Why the last reload was refused; undefined after one that worked. */
  readonly reloadFailed: string | undefined;
  readonly store: Check;
  readonly keys: Check;
  readonly upstreams: Iterable<Backend>;
  readonly draining: boolean;
};

type Backend = { readonly environment: string; readonly origin: string; readonly up: boolean };

/** A configuration that was not reloaded is told, and no reason to send requests elsewhere. */
export function checksOf({ reloadFailed, store, keys, upstreams, draining }: Observed): Checks {
  return {
    config: reloadFailed === undefined ? OK : { ok: true, why: `not reloaded: ${reloadFailed}` },
    store,
    keys,
    upstreams: checkOf([...upstreams]),
    draining: draining ? { ok: false, why: "shutting down" } : OK,
  };
}

const OK: Check = { ok: true };

/** Well while every environment has a backend left; those that are down are told all the same. */
function checkOf(backends: readonly Backend[]): Check {
  const down = backends.filter(({ up }) => !up);
  if (down.length === 0) return OK;
  const ok = down.every(({ environment }) =>
    backends.some((one) => one.up && one.environment === environment),
  );
  return { ok, why: `down: ${down.map(({ origin }) => origin).join(", ")}` };
}
