import { freePort } from "../../test/support/redis/redis.ts";
import { type LoadName, messages } from "../load/messages.ts";
import { newKeys, openStage, type Stage } from "../stage/stage.ts";
import { startTollgate } from "../variants/tollgate.ts";
import { runRounds } from "./rounds.ts";
import { type Slice, type SliceOptions, warmUp } from "./slice.ts";
import { medianSlice } from "./statistics.ts";

/** Requests a second of the load `paced`. */
const PACE = 3000;

/** A gateway that is compared: this checkout or another, with further settings or none. */
export type Side = { readonly name: string; readonly root?: string; readonly settings?: string };

export type BesideOptions = {
  readonly sides: readonly Side[];
  readonly store: "memory" | "redis";
  readonly keys: number;
  /** Accounts that take turns with them, and are refused: they may ask once a month. */
  readonly spent: number;
  readonly load: LoadName;
  /** Copies of each side: V8 optimises no two of them alike. */
  readonly instances: number;
  readonly rounds: number;
  readonly sliceMs: number;
  readonly warmUpRequests: number;
};

/** The median slice of every copy of a side. */
export type SideFound = { readonly name: string; readonly copies: readonly Slice[] };

/** Measures sides beside each other: copies of all of them run at once, and take turns at random. */
export async function measureBeside(
  options: BesideOptions,
  say: (text: string) => void,
): Promise<SideFound[]> {
  await using stage = await openStage();
  const copies: { side: Side; id: string; slice: SliceOptions }[] = [];
  for (let copy = 1; copy <= options.instances; copy++) {
    for (const side of options.sides) {
      say(`starting and warming ${side.name} (${copy})`);
      const slice = await begin(stage, side, options);
      await warmUp({ ...slice, ratePerSecond: undefined }, options.warmUpRequests);
      copies.push({ side, id: `${side.name} (${copy})`, slice });
    }
  }
  const found = await runRounds(copies, { ...options, say });
  return options.sides.map((side) => {
    const own = copies.filter((copy) => copy.side === side);
    const medians = own.flatMap(({ id }) => medianSlice(found.get(id)?.slices ?? []) ?? []);
    return { name: side.name, copies: medians };
  });
}

async function begin(stage: Stage, side: Side, options: BesideOptions): Promise<SliceOptions> {
  const [keys, spentKeys] = [newKeys(options.keys), newKeys(options.spent)];
  const { backendPort, store } = stage;
  const { root, settings } = side;
  const server = await startTollgate({
    ...{ port: await freePort(), storePort: store.port, backendPort },
    ...{ directory: await stage.folder(), store: options.store, keys, spentKeys },
    ...{ ...(root && { root }), ...(settings && { settings }) },
  });
  stage.keep(server);
  return {
    server,
    store: options.store === "redis" ? store : undefined,
    next: messages(options.load, [...keys, ...spentKeys]),
    ratePerSecond: options.load === "paced" ? PACE : undefined,
    status: options.spent === 0 ? 200 : undefined,
  };
}
