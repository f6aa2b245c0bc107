import { afterAll, beforeAll } from "vitest";
import { startRedis, type TestRedis } from "../../support/redis/redis.ts";
import { describeQuotaStore } from "../interface/quota-store.ts";
import { open } from "./redis-kit.ts";

let server: TestRedis;
beforeAll(async () => {
  server = await startRedis();
});
afterAll(() => server.close());

describeQuotaStore("The Redis store", async (now) => (await open(server.address, { now })).store);
