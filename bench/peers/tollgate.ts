import { openSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { digestKey } from "../../src/core/keys/key.ts";
import { keysText } from "../../src/stores/keys/file-format.ts";
import { recordsFrom } from "../../test/support/records.ts";
import { LIMITS, type Peer, type PeerOptions, startServer } from "./peer.ts";

const MAIN = new URL("../../src/main.ts", import.meta.url).pathname;
const PETS = new URL("../../config/pets.openapi.yaml", import.meta.url).pathname;

/** Tollgate as it is shipped, on Redis, with the same keys, limits and backend as the others. */
export async function startTollgate(options: PeerOptions): Promise<Peer> {
  const { directory, port, keys } = options;
  const records = recordsFrom(
    keys.map((key, i) => ({ id: `account-${i}`, plan: "big", digest: digestKey(key) })),
  );
  await writeFile(join(directory, "keys.json"), [...keysText(records)].join(""));
  const file = join(directory, "tollgate.yaml");
  await writeFile(file, configText(options));
  const log = openSync(join(directory, "tollgate.log"), "w");
  const { child, stop } = await startServer(
    port,
    [process.execPath, MAIN, "start", "--config", file],
    ["ignore", log, "inherit"],
  );
  return { pid: child.pid ?? 0, url: `http://127.0.0.1:${port}`, stop };
}

function configText({ port, redisPort, backendPort }: PeerOptions): string {
  return `store: redis://127.0.0.1:${redisPort}
keys: ./keys.json
environments:
  production:
    listen: 127.0.0.1:${port}
    basePath: /v1
    keyTag: live
    api: ${PETS}
    upstreams: ["http://127.0.0.1:${backendPort}"]
plans: { big: { minute: ${LIMITS.minute}, day: ${LIMITS.day} } }
admin: off
`;
}
