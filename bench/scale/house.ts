import { randomInt } from "node:crypto";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { stringify } from "yaml";
import { digestKey, makeKey } from "../../src/core/keys/key.ts";
import { encodeKeyFile } from "../../src/stores/keys/file/file-format.ts";
import { type RunningProcess, startNode } from "../../test/support/gateway/processes.ts";
import { recordsFrom } from "../../test/support/records.ts";

const MAIN = new URL("../../src/main.ts", import.meta.url).pathname;

export type GivenPlan = { readonly plan: string; readonly count: number };

/** So many keys of each plan, an account each, and the file that a gateway reads them from. */
export function makeKeys(given: readonly GivenPlan[]) {
  const made = given.flatMap(({ plan, count }) =>
    Array.from({ length: count }, (_, i) => ({
      plan,
      account: `${plan}-${i}`,
      id: `k_${plan}_${i}`,
      key: makeKey("pets", "live", randomInt),
    })),
  );
  const records = recordsFrom(
    made.map(({ key, ...rest }) => ({ ...rest, digest: digestKey(key) })),
  );
  return {
    of: (plan: string) => made.filter((each) => each.plan === plan).map(({ key }) => key),
    records,
    text: [...encodeKeyFile(records)].join(""),
  };
}

export type Gateway = AsyncDisposable & {
  readonly running: RunningProcess;
  readonly url: string;
  readonly port: number;
  readonly adminUrl: string;
};

export type GatewayOptions = {
  readonly upstream: string;
  /** The key file; without it the configuration says where keys are. */
  readonly keysText?: string;
  readonly config: Readonly<Record<string, unknown>>;
  /** Arguments of Node ahead of the program. */
  readonly node?: readonly string[];
};

/** A gateway as a process of its own, in a folder of its own. */
export async function startGateway(options: GatewayOptions): Promise<Gateway> {
  const folder = await mkdtemp(join(tmpdir(), "tollgate-scale-"));
  if (options.keysText !== undefined) await writeFile(join(folder, "keys.json"), options.keysText);
  const production = { listen: "127.0.0.1:0", basePath: "/v1", keyTag: "live" };
  const config = {
    keys: "./keys.json",
    stateFile: "./state.json",
    environments: { production: { ...production, upstreams: [options.upstream] } },
    bans: "off",
    admin: { listen: "127.0.0.1:0" },
    limits: { drain: "1s" },
    ...options.config,
  };
  const file = join(folder, "tollgate.yaml");
  await writeFile(file, stringify(config));
  const running = startNode([...(options.node ?? []), MAIN, "start", "--config", file]);
  const { urls, admin } = await running.line(({ msg }) => msg === "serving", 60_000);
  const url = String((urls as Record<string, string>).production);
  return {
    running,
    url,
    port: Number(new URL(url).port),
    adminUrl: String(admin),
    [Symbol.asyncDispose]: async () => {
      await running.stop(5_000);
      await rm(folder, { recursive: true, force: true });
    },
  };
}

export async function metricOf({ adminUrl }: Gateway, name: string): Promise<number> {
  const text = await (await fetch(`${adminUrl}/metrics`)).text();
  const line = text.split("\n").find((each) => each.startsWith(`${name} `));
  return Number(line?.slice(name.length + 1));
}

export function say(text: string): void {
  process.stdout.write(`${text}\n`);
}
