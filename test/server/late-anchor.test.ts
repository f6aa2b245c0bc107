import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { it } from "vitest";
import { digestKey } from "../../src/core/keys/key.ts";
import type { Calendar } from "../../src/core/quota/calendar.ts";
import { DAY_MS } from "../../src/core/quota/days.ts";
import { encodeKeyFile } from "../../src/stores/keys/file/file-format.ts";
import { startTestGateway, type TestGateway } from "../support/gateway/house.ts";
import { KEY } from "../support/gateway/served.ts";
import { eventually } from "../support/poll.ts";
import { recordsFrom } from "../support/records.ts";
import { startRedis } from "../support/redis/redis.ts";

async function writeCalendar({ directory }: TestGateway, calendar: Calendar): Promise<void> {
  const { keys, accounts } = recordsFrom([{ digest: digestKey(KEY) }]);
  const records = { keys, accounts: accounts.map((account) => ({ ...account, calendar })) };
  await writeFile(join(directory, "keys.json"), [...encodeKeyFile(records)].join(""));
}

it("a refusal ends with the account's month as soon as a gateway has read of its anchor, though it had refused before", async () => {
  const redis = await startRedis();
  try {
    await using house = await startTestGateway({
      config: { store: redis.url, bans: "off", plans: { free: { month: 1 } } },
      keys: { [KEY]: {} },
    });
    const today = Math.floor(Date.now() / DAY_MS) * DAY_MS;
    const beginsOn = (ms: number) => ({ day: new Date(ms).getUTCDate(), fromMs: today });
    const resetMs = async () => {
      const { status, headers } = await house.ask(KEY);
      return status === 429 ? Number(headers.get("x-ratelimit-reset")) * 1_000 : status;
    };
    await writeCalendar(house, [beginsOn(today)]);
    await eventually(async () => assert.ok((await resetMs()) >= today + 28 * DAY_MS));
    await writeCalendar(house, [beginsOn(today + DAY_MS)]);
    await eventually(async () => assert.equal(await resetMs(), today + DAY_MS));
  } finally {
    await redis.close();
  }
});
