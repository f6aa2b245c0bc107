import { createMemoryStore } from "../../src/stores/memory.ts";
import { describeQuotaStore } from "./contract.ts";

describeQuotaStore("The memory store", (now) => createMemoryStore({ now, report: () => {} }));
