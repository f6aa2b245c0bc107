import { afterAll, beforeAll } from "vitest";
import { startRedis, type TestRedis } from "../../../support/redis/redis.ts";
import { describeQuotaStore } from "../quota-store.ts";
import { describeHistory } from "../quota-store-history.ts";
import { DAY, type OpenQuotaStore } from "../quota-store-kit.ts";
import { describeNotes } from "../quota-store-notes.ts";
import { describeUsageMarks } from "../quota-store-usage-marks.ts";
import { open } from "./redis-kit.ts";

let server: TestRedis;
beforeAll(async () => {
  server = await startRedis();
});
afterAll(() => server.close());

describeQuotaStore("The Redis store", async (now) => (await open(server.address, { now })).store);
const withDays: OpenQuotaStore = async (now) => {
  const prefix = `history${performance.now()}`;
  return (await open(server.address, { now, prefix, historyMs: 400 * DAY })).store;
};
describeHistory("The Redis store", withDays);
describeNotes("The Redis store", withDays);
describeUsageMarks("The Redis store", withDays);
