import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, it, vi } from "vitest";
import { DAY_MS, dayOf, formatDay } from "../../../src/core/quota/days.ts";
import type { DayReport } from "../../../src/stores/queries/read-history.ts";
import { open } from "../../stores/quotas/redis/redis-kit.ts";
import { eventually } from "../../support/poll.ts";
import { startRedis, type TestRedis } from "../../support/redis/redis.ts";
import { audited, type Line, openAudited } from "../audit-kit.ts";
import { jsonOf, runVerb } from "../kit.ts";

const realNow = Date.now;
const LIMITS = [{ window: "month", limit: 900 }] as const;

/** An account that has used 5 units two days ago, and 1 today. */
async function openUsed({ url: store, address }: TestRedis) {
  const config = { store, bans: "off", history: "400d", plans: { free: { month: 900 } } };
  const house = await openAudited({ config });
  const { key, account } = await house.issue();
  const pastMs = realNow() - 2 * DAY_MS;
  const past = await open(address, { now: () => pastMs, historyMs: 400 * DAY_MS });
  const asked = { limits: LIMITS, bans: undefined, requests: 1, cost: 5, plan: "free" };
  await past.store.charge({ environment: "production", account }, asked);
  await past.store.close();
  await (await house.ask(key)).text();
  await eventually(() => assert.equal(house.lines.length, 1));
  const [line = {}] = house.lines as unknown as Line[];
  const edit = () => [{ ...line, time: pastMs, decidedAt: pastMs, charged: 5, cost: 5 }, line];
  return { house, account, day: formatDay(dayOf(pastMs)), edit };
}

describe("a command whose machine's clock is wrong, while those of store and gateway are right", () => {
  let redis: TestRedis;
  let used: Awaited<ReturnType<typeof openUsed>>;
  beforeAll(async () => {
    redis = await startRedis();
    used = await openUsed(redis);
  });
  afterEach(() => vi.restoreAllMocks());
  afterAll(async () => {
    await used.house[Symbol.asyncDispose]();
    await redis.close();
  });

  describe.each([
    ["4 days behind", -4],
    ["14 days behind", -14],
    ["28 days ahead", 28],
  ])("%s", (_, days) => {
    const setClock = () =>
      vi.spyOn(Date, "now").mockImplementation(() => realNow() + days * DAY_MS);

    it("audits a day that is over", async () => {
      const { house, day, edit } = used;
      setClock();
      const { status, told } = await audited(house, { args: ["--day", day], edit });
      assert.deepEqual([status, told.matched, told.drift, told.notCompared], [0, 1, [], []]);
    });

    it("lists the last days of usage", async () => {
      const { house, account } = used;
      setClock();
      const asked = ["usage", account, "--days", "5", "--json", "--config", house.file];
      const units = jsonOf<DayReport[]>(await runVerb(asked)).map((row) => row.units);
      assert.deepEqual(units, [5, 1]);
    });
  });

  it("goes by its own clock if its user of Redis has no right to TIME", async () => {
    const { house, account } = used;
    const admin = await redis.client();
    await admin.call("ACL", "SETUSER", "reader", "on", ">secret", "~*", "&*", "+@all", "-time");
    const file = join(house.directory, "reader.yaml");
    const text = await readFile(house.file, "utf8");
    await writeFile(file, text.replace("redis://", "redis://reader:secret@"));
    const listed = async (...args: string[]) => {
      const said = await runVerb(["usage", account, "--json", "--config", file, ...args]);
      return jsonOf<DayReport[]>(said).map((row) => row.units);
    };
    assert.deepEqual(await listed("--days", "5"), [5, 1]);
    vi.spyOn(Date, "now").mockImplementation(() => realNow() + 28 * DAY_MS);
    assert.deepEqual(await listed("--days", "5"), []);
    assert.deepEqual(await listed("--days", "40"), [5, 1]);
  });
});
