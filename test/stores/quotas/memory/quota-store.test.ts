import { createMemoryQuotaStore } from "../../../../src/stores/quotas/memory/create-memory-quota-store.ts";
import type { LateUsage } from "../../../../src/stores/quotas/quota-store.ts";
import { describeQuotaStore } from "../quota-store.ts";
import { describeHistory } from "../quota-store-history.ts";
import { DAY, type OpenQuotaStore } from "../quota-store-kit.ts";
import { describeMeters } from "../quota-store-meters.ts";
import { describeNotes } from "../quota-store-notes.ts";
import { describeUsageMarks } from "../quota-store-usage-marks.ts";
import type { Told } from "../redis/redis-kit.ts";

const report = () => {};
describeQuotaStore("The memory store", (now) => createMemoryQuotaStore({ now, report }));
const withDays: OpenQuotaStore = (now) => {
  return createMemoryQuotaStore({ now, report, historyMs: 400 * DAY });
};
describeHistory("The memory store", withDays);
describeNotes("The memory store", withDays);
describeUsageMarks("The memory store", withDays);
describeMeters("The memory store", async (now) => {
  const [told, late]: [Told[], LateUsage[]] = [[], []];
  const store = await createMemoryQuotaStore({
    now,
    report: (level, message, details) => told.push({ level, message, details }),
    historyMs: 400 * DAY,
    onLateUsage: (usage) => late.push(usage),
  });
  return { store, told, late };
});
