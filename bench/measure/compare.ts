import { freePort } from "../../test/support/redis/redis.ts";
import { LOADS, type LoadName, messages } from "../load/messages.ts";
import type { Noise, NoisyFigure, RunOptions, VariantRow } from "../report/report.ts";
import { missing } from "../stage/needs.ts";
import { installPackages } from "../stage/packages.ts";
import type { Server } from "../stage/server.ts";
import { newKeys, type Stage } from "../stage/stage.ts";
import type { Variant } from "../variants/variant.ts";
import { VARIANTS } from "../variants/variants.ts";
import { type Case, type Found, runRounds } from "./rounds.ts";
import { type SliceOptions, warmUp } from "./slice.ts";
import { medianSlice, noiseOf } from "./statistics.ts";

/** Requests a second of the load `paced`. */
const PACE = 3000;
/** The share of the warm-up that goes to each kind of 64 KiB bodies. */
const BODIES_SHARE = 0.02;

export type Compared = {
  readonly rows: VariantRow[];
  readonly noise: Partial<Record<LoadName, Noise>>;
  readonly leftOut: { title: string; why: string }[];
};

type Instance = { readonly variant: Variant; readonly server: Server; readonly keys: string[] };

/** How often the connections to each of several workers are opened while it is warmed. */
const OPENINGS = 4;

/** Starts every variant beside the others, warms each, and measures all of them in turns. */
export async function compareVariants(
  stage: Stage,
  options: RunOptions,
  say: (text: string) => void,
): Promise<Compared> {
  const leftOut: Compared["leftOut"] = [];
  const instances: Instance[] = [];
  const wanted = VARIANTS.filter(({ name }) => {
    return options.variants.length === 0 || options.variants.includes(name);
  });
  if (wanted.some(({ needs }) => needs.includes("npm"))) installPackages(say);
  for (const variant of wanted) {
    const lacks = missing(variant.needs);
    if (lacks.length > 0) {
      leftOut.push({ title: variant.title, why: `needs apt-get install ${lacks.join(" ")}` });
      continue;
    }
    for (let copy = 1; copy <= (variant.instances ?? 1); copy++) {
      say(`starting and warming ${variant.name}`);
      try {
        const instance = await begin(stage, variant);
        stage.keep(instance.server);
        await warmInstance(stage, instance, options.warmUpRequests);
        instances.push(instance);
      } catch (error) {
        leftOut.push({ title: variant.title, why: String(error) });
      }
    }
  }
  const cases = instances.flatMap((instance, i) => {
    return loadsOf(instance.variant).map((load): Case => {
      return { id: caseId(instance.variant, i, load), slice: sliceOf(stage, instance, load) };
    });
  });
  const found = await runRounds(cases, { ...options, say });
  const rows = wanted.flatMap((variant) => rowOf(variant, instances, found));
  return { rows, noise: noise(instances, found), leftOut };
}

async function begin(stage: Stage, variant: Variant): Promise<Instance> {
  const keys = newKeys(variant.keys);
  const { backendPort, store } = stage;
  const directory = await stage.folder();
  const ports = { port: await freePort(), storePort: store.port, backendPort };
  return { variant, keys, server: await variant.start({ ...ports, directory, keys }) };
}

/**
 * Several workers get the requests of as many instances, over connections that are opened again and
 * again: of 64 that are opened at once one worker may take nearly all, and the others stay cold.
 */
async function warmInstance(stage: Stage, instance: Instance, requests: number): Promise<void> {
  const { workers = 1 } = instance.variant;
  const openings = workers === 1 ? 1 : OPENINGS * workers;
  for (const load of loadsOf(instance.variant)) {
    if (load === "paced") continue;
    const share = load === "closed" ? 1 : BODIES_SHARE;
    const each = Math.ceil((requests * share * workers) / openings);
    for (let opening = 0; opening < openings; opening++) {
      await warmUp(sliceOf(stage, instance, load), each);
    }
  }
}

function loadsOf({ bodies = true }: Variant): readonly LoadName[] {
  return bodies ? LOADS : ["closed", "paced"];
}

function sliceOf(
  { store }: Stage,
  { variant, server, keys }: Instance,
  load: LoadName,
): SliceOptions {
  return {
    server,
    store: variant.usesStore ? store : undefined,
    next: messages(load, keys),
    ratePerSecond: load === "paced" ? PACE : undefined,
    status: 200,
  };
}

function caseId({ name }: Variant, instance: number, load: LoadName): string {
  return `${name} (${instance}), ${load}`;
}

function rowOf(
  variant: Variant,
  instances: readonly Instance[],
  found: ReadonlyMap<string, Found>,
): VariantRow[] {
  const copies = instances.flatMap((one, i) => (one.variant === variant ? [i] : []));
  if (copies.length === 0) return [];
  const all = loadsOf(variant).map((load) => {
    const each = copies.map((i) => found.get(caseId(variant, i, load)));
    const medians = each.flatMap((one) => medianSlice(one?.slices ?? []) ?? []);
    return {
      load,
      slice: medianSlice(medians),
      failures: each.flatMap((one) => one?.failures ?? []),
    };
  });
  const { name, title, counts, keys } = variant;
  const loads = Object.fromEntries(
    all.flatMap(({ load, slice }) => (slice ? [[load, slice]] : [])),
  );
  const failures = all.flatMap((one) => one.failures);
  return [{ name, title, counts, keys, instances: copies.length, loads, failures }];
}

function noise(
  instances: readonly Instance[],
  found: ReadonlyMap<string, Found>,
): Partial<Record<LoadName, Noise>> {
  const ofFigure = (load: LoadName, figure: NoisyFigure) => {
    const byVariant = Map.groupBy(
      instances.map(({ variant }, i) => ({ variant, i })),
      ({ variant }) => variant,
    );
    return noiseOf(
      [...byVariant].map(([variant, copies]) => {
        return copies.flatMap(({ i }) => {
          const slices = found.get(caseId(variant, i, load))?.slices ?? [];
          return medianSlice(slices)?.[figure] ?? [];
        });
      }),
    );
  };
  if (instances.every(({ variant: { instances: copies = 1 } }) => copies === 1)) return {};
  const ofLoad = (load: LoadName): Noise => ({
    gatewayUs: ofFigure(load, "gatewayUs"),
    sumUs: ofFigure(load, "sumUs"),
    p50Ms: ofFigure(load, "p50Ms"),
    p99Ms: ofFigure(load, "p99Ms"),
  });
  return Object.fromEntries(LOADS.map((load) => [load, ofLoad(load)]));
}
