import { afterAll, beforeAll } from "vitest";
import { startRedis, type TestRedis } from "../../support/redis/redis.ts";
import { describeQuotaStore } from "../interface/quota-store.ts";
import { describeHistory } from "../interface/quota-store-history.ts";
import { DAY } from "../interface/quota-store-kit.ts";
import { open } from "./redis-kit.ts";

let server: TestRedis;
beforeAll(async () => {
  server = await startRedis();
});
afterAll(() => server.close());

describeQuotaStore("The Redis store", async (now) => (await open(server.address, { now })).store);
describeHistory("The Redis store", async (now) => {
  const prefix = `history${performance.now()}`;
  return (await open(server.address, { now, prefix, historyMs: 400 * DAY })).store;
});
