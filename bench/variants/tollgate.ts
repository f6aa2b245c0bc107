import { createWriteStream } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { digestKey } from "../../src/core/keys/key.ts";
import { encodeKeyFile } from "../../src/stores/keys/file/file-format.ts";
import { recordsFrom } from "../../test/support/records.ts";
import { type Server, startServer } from "../stage/server.ts";
import { LIMITS, type StartOptions } from "./variant.ts";

const ROOT = join(import.meta.dirname, "../..");

export type TollgateOptions = StartOptions & {
  readonly store: "memory" | "redis";
  readonly workers?: number;
  /** Keys of a plan of one request a month. */
  readonly spentKeys?: readonly string[];
  /** The setting `bans`. Default: that of the product. */
  readonly bans?: string;
  /** The checkout whose gateway it is. Default: this one. */
  readonly root?: string;
  /** Further lines of the configuration. */
  readonly settings?: string;
};

/** Tollgate as it is shipped, with its access log on. */
export async function startTollgate(options: TollgateOptions): Promise<Server> {
  const { directory, port, keys, spentKeys = [], workers = 1, root = ROOT } = options;
  const given = (plan: string, list: readonly string[]) => {
    return list.map((key, i) => ({ id: `${plan}-${i}`, plan, digest: digestKey(key) }));
  };
  const all = [...given("big", keys), ...given("spent", spentKeys)];
  const text = root === ROOT ? encodeKeyFile(recordsFrom(all)) : firstVersionText(all);
  await pipeline(Readable.from(text), createWriteStream(join(directory, "keys.json")));
  const file = join(directory, "tollgate.yaml");
  await writeFile(file, configText(options));
  return startServer({
    command: [process.execPath, join(root, "src/main.ts"), "start", "--config", file],
    port,
    logFile: join(directory, "tollgate.log"),
    processes: workers === 1 ? 1 : workers + 1,
  });
}

type Given = { readonly id: string; readonly plan: string; readonly digest: string };

/** The first form of a key file, which every release reads. */
function* firstVersionText(given: readonly Given[]): Generator<string> {
  const rest = { name: "", environment: "production", scopes: [], limits: {} };
  const records = given.map((one) => {
    return { ...one, ...rest, account: one.id, created: new Date(0).toISOString() };
  });
  yield JSON.stringify({ version: 1, keys: records });
}

function configText(options: TollgateOptions): string {
  const { port, store, storePort, backendPort, workers = 1, bans, settings = "" } = options;
  return `store: ${store === "memory" ? "memory" : `redis://127.0.0.1:${storePort}`}
keys: ./keys.json
stateFile: ./state.json
workers: ${workers}
environments:
  production:
    listen: 127.0.0.1:${port}
    basePath: /v1
    keyTag: live
    api: ${join(ROOT, "config/pets.openapi.yaml")}
    upstreams: ["http://127.0.0.1:${backendPort}"]
plans:
  big: { minute: ${LIMITS.minute}, day: ${LIMITS.day} }
  spent: { day: 1, month: 1 }
${bans === undefined ? "" : `bans: ${bans}\n`}limits: { drain: 1s }
admin: off
${settings}`;
}
