import type { EdgeLimits } from "../core/http/edge-limits.ts";
import type { Served } from "./exchange/served.ts";

const known = new WeakMap<readonly Served[], EdgeLimits>();

/**
 * The largest of every limit among environments that share a listener: what holds before a request
 * has told its host, and for the connection itself.
 */
export function largest(serves: readonly Served[]): EdgeLimits {
  const [first, ...others] = serves as readonly [Served, ...Served[]];
  let limits = known.get(serves);
  if (limits === undefined) {
    const all = { ...first.limits };
    for (const { limits: each } of others) {
      for (const name of Object.keys(all) as (keyof EdgeLimits)[]) {
        Object.assign(all, { [name]: Math.max(all[name], each[name]) });
      }
    }
    limits = all;
    known.set(serves, limits);
  }
  return limits;
}
