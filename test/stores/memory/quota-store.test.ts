import { createMemoryStore } from "../../../src/stores/memory/memory-store.ts";
import { describeQuotaStore } from "../interface/quota-store.ts";

describeQuotaStore("The memory store", (now) => createMemoryStore({ now, report: () => {} }));
