import { setTimeout as sleep } from "node:timers/promises";
import type { Dice } from "../../test/fuzz/random.ts";
import type { Slot, TroubleHouse } from "./house.ts";

/**
 * The harm that a fault may do to the counts. `cuts`: calls lose their answers, which is told as uncertain.
 * `kills`: a gateway ends with calls under way. `loses`: Redis comes back without its counts.
 */
export type Harm = "cuts" | "kills" | "loses";

type Fault = {
  readonly name: string;
  readonly harm?: Harm;
  readonly run: (house: TroubleHouse, dice: Dice) => Promise<void>;
};

const some = (dice: Dice, { slots }: TroubleHouse): Slot[] => {
  return dice.chance(2) ? slots : [dice.one(slots.slice(0, 3))];
};

async function behave(
  slots: readonly Slot[],
  damage: Parameters<Slot["proxy"]["behave"]>[0],
  ms: number,
): Promise<void> {
  for (const { proxy } of slots) proxy.behave(damage);
  await sleep(ms);
  for (const { proxy } of slots) proxy.behave({});
}

const FAULTS: readonly Fault[] = [
  {
    name: "pause",
    run: async ({ redis }, dice) => {
      redis.stop();
      await sleep(300 + dice.below(2_500));
      redis.cont();
    },
  },
  {
    name: "stalls",
    run: async ({ redis }) => {
      for (let i = 0; i < 3; i++) {
        redis.stop();
        await sleep(1_200);
        redis.cont();
        await sleep(400);
      }
    },
  },
  {
    name: "late answers",
    run: async (house, dice) => {
      const slots = some(dice, house);
      for (let i = 0; i < 6; i++) {
        await behave(slots, { answerLatencyMs: dice.one([45, 60, 90, 250]) }, 80 + dice.below(400));
        await sleep(50 + dice.below(300));
      }
    },
  },
  {
    name: "slow way",
    run: (house, dice) => behave(some(dice, house), { latencyMs: 20 + dice.below(230) }, 2_500),
  },
  {
    name: "black hole",
    run: (house, dice) => behave(some(dice, house), { blackHole: true }, 200 + dice.below(2_500)),
  },
  {
    name: "cut connections",
    harm: "cuts",
    run: async (house, dice) => {
      for (const { proxy } of some(dice, house)) proxy.reset();
    },
  },
  {
    name: "refused",
    harm: "cuts",
    run: async (house, dice) => {
      const slots = some(dice, house);
      for (const { proxy } of slots) await proxy.refuse();
      await sleep(300 + dice.below(2_500));
      for (const { proxy } of slots) await proxy.listen().catch(() => undefined);
    },
  },
  {
    name: "restart with AOF",
    harm: "cuts",
    run: (house) => house.restartRedis(true),
  },
  {
    name: "restart without",
    harm: "loses",
    run: (house) => house.restartRedis(false),
  },
  {
    name: "leave",
    run: async (house, dice) => {
      const slot = dice.one(house.slots.slice(0, 3));
      const { gateway } = slot;
      slot.gateway = undefined;
      await gateway?.leave();
      await house.start(slot);
    },
  },
  {
    name: "join",
    run: async (house) => {
      const spare = house.slots.at(-1);
      if (spare !== undefined && spare.gateway === undefined) await house.start(spare);
    },
  },
  {
    name: "kill",
    harm: "kills",
    run: async (house, dice) => {
      const slot = dice.one(house.slots.slice(0, 3));
      const { gateway } = slot;
      slot.gateway = undefined;
      await gateway?.kill();
      await sleep(500);
      await house.start(slot);
    },
  },
];

/** The faults of a round, one to three, each of which may run beside the others. */
export function faultsOf(dice: Dice): readonly Fault[] {
  const count = 1 + dice.below(3);
  return Array.from({ length: count }, () => dice.one(FAULTS));
}
