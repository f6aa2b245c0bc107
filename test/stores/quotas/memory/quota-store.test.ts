import { createMemoryQuotaStore } from "../../../../src/stores/quotas/memory/memory-quota-store.ts";
import { describeQuotaStore } from "../quota-store.ts";
import { describeHistory } from "../quota-store-history.ts";
import { DAY, type OpenQuotaStore } from "../quota-store-kit.ts";
import { describeNotes } from "../quota-store-notes.ts";
import { describeUsageMarks } from "../quota-store-usage-marks.ts";

const report = () => {};
describeQuotaStore("The memory store", (now) => createMemoryQuotaStore({ now, report }));
const withDays: OpenQuotaStore = (now) => {
  return createMemoryQuotaStore({ now, report, historyMs: 400 * DAY });
};
describeHistory("The memory store", withDays);
describeNotes("The memory store", withDays);
describeUsageMarks("The memory store", withDays);
