import type { LoadName } from "../load/messages.ts";
import type { Slice } from "../measure/slice.ts";
import { REFERENCE, RIVAL } from "../variants/variants.ts";
import type { Report, TargetRow } from "./report.ts";

type Measured = Pick<Report, "variants" | "refusals" | "growth" | "line">;

/** A figure to reach: `limit` is the most, or the least, that `find` may give. */
type Target = {
  readonly what: string;
  readonly limit: number;
  readonly least?: true;
  find(figures: Figures): number | undefined;
};

const TARGETS: readonly Target[] = [
  {
    what: "gateway + store, 1,000 keys, against nginx + Lua + Redis",
    limit: 0.95,
    find: (of) => of.ratio("closed", "sumUs", RIVAL),
  },
  {
    what: "gateway + store, 50,000 keys, against the same",
    limit: 0.95,
    find: (of) => of.ratio("closed", "sumUs", "nginx-lua-redis-50000", "tollgate-redis-50000"),
  },
  {
    what: "gateway + store, one key, against the same",
    limit: 0.8,
    find: (of) => of.ratio("closed", "sumUs", "nginx-lua-redis-1", "tollgate-redis-1"),
  },
  {
    what: "gateway + store at 3,000 requests a second, against the same",
    limit: 1.3,
    find: (of) => of.ratio("paced", "sumUs", RIVAL),
  },
  {
    what: "p99 of 64 connections without pause, against the same",
    limit: 1.2,
    find: (of) => of.ratio("closed", "p99Ms", RIVAL),
  },
  {
    what: "p99 at 3,000 requests a second, against the same",
    limit: 1.3,
    find: (of) => of.ratio("paced", "p99Ms", RIVAL),
  },
  {
    what: "gateway + store against Fastify, which counts one window",
    limit: 0.6,
    find: (of) => of.ratio("closed", "sumUs", "fastify"),
  },
  {
    what: "bytes down per CPU second, against nginx + Lua + Redis",
    limit: 0.75,
    least: true,
    find: (of) => of.inverse("down", RIVAL),
  },
  {
    what: "bytes up per CPU second, against the same",
    limit: 0.75,
    least: true,
    find: (of) => of.inverse("up", RIVAL),
  },
  {
    what: "store commands a request, 64 connections, 1,000 keys",
    limit: 0.1,
    find: (of) => of.variant(REFERENCE, "closed")?.commandsPerRequest,
  },
  {
    what: "a known 429: milliseconds at the median, accounts that ask rarely",
    limit: 1,
    find: (of) => of.refusal("429-rare")?.p50Ms,
  },
  {
    what: "a known 429: CPU against an admitted request",
    limit: 1 / 3,
    find: (of) => quotient(of.refusal("429-one")?.sumUs, of.refusal("admitted")?.sumUs),
  },
  {
    what: "bytes of Redis an account",
    limit: 300,
    find: (of) => of.growth.at(-1)?.storeBytesPerAccount,
  },
  {
    what: "the log line and the metrics of a request, by themselves: microseconds of CPU",
    limit: 2,
    find: (of) => of.line?.us,
  },
];

/** Every target whose figures were measured. */
export function targetsOf(measured: Measured): TargetRow[] {
  const figures = new Figures(measured);
  return TARGETS.flatMap(({ what, limit, least, find }) => {
    const found = find(figures);
    if (found === undefined || Number.isNaN(found)) return [];
    const met = least ? found >= limit : found <= limit;
    const shown = Number.isInteger(limit) ? String(limit) : limit.toFixed(2);
    const target = `${least ? "at least" : "at most"} ${shown}`;
    return [{ what, target, found, distance: found / limit, met }];
  });
}

class Figures {
  readonly growth: Report["growth"];
  readonly line: Report["line"];
  readonly #measured: Measured;

  constructor(measured: Measured) {
    this.#measured = measured;
    this.growth = measured.growth;
    this.line = measured.line;
  }

  variant(name: string, load: LoadName): Slice | undefined {
    return this.#measured.variants.find((row) => row.name === name)?.loads[load];
  }

  refusal(name: string): Slice | undefined {
    return this.#measured.refusals.find((row) => row.name === name)?.slice;
  }

  ratio(load: LoadName, figure: keyof Slice, other: string, own = REFERENCE): number | undefined {
    return quotient(this.variant(own, load)?.[figure], this.variant(other, load)?.[figure]);
  }

  /** The ratio of bytes per CPU second: they are the more the less CPU a request takes. */
  inverse(load: LoadName, other: string): number | undefined {
    return quotient(this.variant(other, load)?.sumUs, this.variant(REFERENCE, load)?.sumUs);
  }
}

function quotient(value: number | undefined, by: number | undefined): number | undefined {
  return value === undefined || by === undefined ? undefined : value / by;
}
