import { after, before } from "node:test";
import { startRedis, type TestRedis } from "../../support/redis/redis.ts";
import { describeQuotaStore } from "../interface/quota-store.ts";
import { open } from "./redis-kit.ts";

let server: TestRedis;
before(async () => {
  server = await startRedis();
});
after(() => server.close());

describeQuotaStore("The Redis store", async (now) => (await open(server.address, { now })).store);
