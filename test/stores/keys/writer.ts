import type { KeyStore } from "../../../src/stores/keys/key-store.ts";
import { add, record } from "./record.ts";

/** One of several processes that write at once: NAME COUNT file PATH | redis URL. */
const [name = "", count = "0", engine = "", where = ""] = process.argv.slice(2);
const store = await open();
for (let i = 0; i < Number(count); i++) await add(store, record(`${name}_${i}`));
await store.close();

/** Loads one of the two alone: a load of the other is half of the processor time of a writer. */
async function open(): Promise<KeyStore> {
  const common = { report: () => {}, watch: false };
  // No claim is one of time, and twenty processes on a busy machine take longer than people wait.
  const file = { path: where, lockWaitMs: 240_000 };
  if (engine === "file") {
    const { openFileKeyStore } = await import("../../../src/stores/keys/file/file-key-store.ts");
    return openFileKeyStore({ ...file, ...common });
  }
  const { openRedisKeyStore } = await import("../../../src/stores/keys/redis/redis-key-store.ts");
  const address = { kind: "redis", url: where, shown: where } as const;
  return openRedisKeyStore({ address, prefix: "tg", ...common });
}
