import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { digestKey } from "../../src/core/keys/key.ts";
import { keysText } from "../../src/stores/keys/file-format.ts";
import { recordsFrom } from "../../test/support/records.ts";

const MAIN = new URL("../../src/main.ts", import.meta.url).pathname;
const START_MS_MAX = 20_000;

export type Gateway = {
  readonly port: number;
  /** CPU that its process has used so far, in microseconds. */
  cpuUs(): Promise<number>;
  stop(): Promise<void>;
};

export type GatewayOptions = {
  readonly ports: readonly [port: number, admin: number];
  readonly storeUrl: string;
  readonly upstream: string;
  /** The plan of each key. `big` is never exhausted; `one` is with its second request. */
  readonly keys: Readonly<Record<"big" | "one", readonly string[]>>;
  /** The setting `bans`. */
  readonly bans: string;
};

/** The gateway as it is shipped, with its log on, written to nowhere. */
export async function startGateway(options: GatewayOptions): Promise<Gateway> {
  const [port, admin] = options.ports;
  const directory = await mkdtemp(join(tmpdir(), "tollgate-bench-"));
  const file = join(directory, "tollgate.yaml");
  await writeFile(file, configText(options));
  await writeFile(join(directory, "keys.json"), [...keysText(recordsOf(options))].join(""));
  const child = spawn(process.execPath, [MAIN, "start", "--config", file], {
    stdio: ["ignore", "ignore", "inherit"],
  });
  const exited = once(child, "exit");
  const stop = async () => {
    child.kill("SIGTERM");
    await exited;
    await rm(directory, { recursive: true, force: true });
  };
  const deadlineMs = Date.now() + START_MS_MAX;
  while (!(await answers(`http://127.0.0.1:${admin}/readyz`))) {
    if (child.exitCode !== null || Date.now() > deadlineMs) {
      await stop();
      throw new Error(`Cannot start the gateway on ports ${port} and ${admin}: see above`);
    }
    await sleep(20);
  }
  const cpuUs = async () => {
    const text = await (await fetch(`http://127.0.0.1:${admin}/metrics`)).text();
    return Number(/^process_cpu_seconds_total (\S+)/m.exec(text)?.[1]) * 1e6;
  };
  return { port, cpuUs, stop };
}

async function answers(url: string): Promise<boolean> {
  return fetch(url).then(
    ({ ok }) => ok,
    () => false,
  );
}

function recordsOf({ keys }: GatewayOptions) {
  const given = (["big", "one"] as const).flatMap((plan) =>
    keys[plan].map((key, i) => ({ id: `${plan}-${i}`, plan, digest: digestKey(key) })),
  );
  return recordsFrom(given);
}

function configText({ ports: [port, admin], storeUrl, upstream, bans }: GatewayOptions): string {
  return `store: ${storeUrl}
keys: ./keys.json
stateFile: ./state.json
environments:
  production:
    { listen: "127.0.0.1:${port}", basePath: /v1, keyTag: live, upstreams: ["${upstream}"] }
plans: { big: { day: 1000000000, month: 1000000000 }, one: { day: 1, month: 1 } }
bans: ${bans}
limits: { drain: 1s }
admin: { listen: "127.0.0.1:${admin}" }
`;
}
