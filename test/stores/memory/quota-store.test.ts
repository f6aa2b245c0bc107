import { createMemoryStore } from "../../../src/stores/memory/memory-store.ts";
import { describeQuotaStore } from "../interface/quota-store.ts";
import { describeHistory } from "../interface/quota-store-history.ts";
import { DAY } from "../interface/quota-store-kit.ts";

const report = () => {};
describeQuotaStore("The memory store", (now) => createMemoryStore({ now, report }));
describeHistory("The memory store", (now) => {
  return createMemoryStore({ now, report, historyMs: 400 * DAY });
});
