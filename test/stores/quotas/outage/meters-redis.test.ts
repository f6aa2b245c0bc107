import { useRedis } from "../../../support/redis/redis-of-file.ts";
import { describeMeters } from "../quota-store-meters.ts";
import { openFallback } from "./fallback-kit.ts";

const { server } = await useRedis();
let number = 0;

describeMeters("The Redis store", async (now) => {
  number += 1;
  const policy = { storeTimeoutMs: 2_000 };
  const { store, told, late } = await openFallback(
    { address: server.address },
    { policy, now, prefix: `meters${number}` },
  );
  return { store, told, late };
});
