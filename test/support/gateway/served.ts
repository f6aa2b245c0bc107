import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { stringify } from "yaml";
import { digestKey } from "../../../src/core/keys/key.ts";
import { encodeKeyFile } from "../../../src/stores/keys/file/file-format.ts";
import type { AccessLogEntry } from "../../../src/telemetry/log/access-log-entry.ts";
import { recordsFrom } from "../records.ts";
import { withLongStoreTimeout } from "./house.ts";
import { PETS } from "./pets-routes.ts";
import { type RunningProcess, type RunOptions, startProgram } from "./processes.ts";

const ROOT = new URL("../../../", import.meta.url).pathname;

/** A key that is in the key file from the start: that of the vectors. */
export const KEY = "pets_live_Smuggle0Test0Key0For0Vectors004Lozas";
export const ACCOUNT = "vectors";

export type SpawnOptions = {
  readonly upstreams: readonly string[];
  readonly config?: Readonly<Record<string, unknown>>;
  readonly limits?: Readonly<Record<string, unknown>>;
  /** Further keys of the environment `production`. */
  readonly environment?: Readonly<Record<string, unknown>>;
  /** In place of the pets description; `null` serves without one. */
  readonly api?: string | null;
  /**
   * The program that runs node: a shell that sets limits first, say. It gets the whole command as
   * arguments.
   */
  readonly under?: readonly string[];
  /** The program of another Node than the one that runs the tests. */
  readonly node?: string;
  /** A folder that is there already, in place of one that is removed afterwards. */
  readonly directory?: string;
  readonly run?: RunOptions;
};

/** A gateway as a process of its own, on free ports, with the memory store unless told otherwise. */
export type SpawnedGateway = AsyncDisposable & {
  readonly running: RunningProcess;
  readonly directory: string;
  readonly file: string;
  readonly url: string;
  readonly port: number;
  readonly adminUrl: string;
  /** Request lines of its log so far, and all other lines. */
  readonly lines: readonly AccessLogEntry[];
  readonly said: readonly Record<string, unknown>[];
  /** Rewrites the configuration file, which the process notices. */
  rewrite(over: Readonly<Record<string, unknown>>): Promise<void>;
  /** The count of the account in the store, in its longest window. */
  counted(account?: string): Promise<number>;
};

/** The plan `vectors` is never exhausted by a test: its month is what `counted` tells. */
const PLANS = { vectors: { minute: 10 ** 9, month: 10 ** 9 }, free: { minute: 60, day: 1000 } };

function configOfServed(options: SpawnOptions): Record<string, unknown> {
  const { upstreams, api = PETS, limits = {} } = options;
  const production = {
    listen: "127.0.0.1:0",
    basePath: "/v1",
    keyTag: "live",
    upstreams,
    ...options.environment,
  };
  return {
    keys: "./keys.json",
    stateFile: "./state.json",
    environments: { production: api === null ? production : { ...production, api } },
    plans: PLANS,
    bans: "off",
    unauthenticated: { minute: 10 ** 9 },
    admin: { listen: "127.0.0.1:0" },
    limits: { drain: "3s", ...limits },
    ...options.config,
  };
}

export async function spawnGateway(options: SpawnOptions): Promise<SpawnedGateway> {
  const given = options.directory;
  const directory = given ?? (await mkdtemp(join(tmpdir(), "tollgate-served-")));
  const file = join(directory, "tollgate.yaml");
  const config = withLongStoreTimeout(configOfServed(options));
  await writeFile(file, stringify(config));
  await writeFile(join(directory, "keys.json"), keysOfServed());
  const node = options.node ?? process.execPath;
  const command = [node, `${ROOT}src/main.ts`, "start", "--config", file];
  const [program = "", ...args] = [...(options.under ?? []), ...command];
  const running = startProgram(program, args, options.run);
  const lines: AccessLogEntry[] = [];
  const said: Record<string, unknown>[] = [];
  sortLines(running, lines, said);
  const { urls, admin } = await running.line(({ msg }) => msg === "serving");
  const { production, ...others } = urls as Record<string, string>;
  const url = production ?? Object.values(others)[0] ?? "";
  const adminUrl = String(admin);
  return {
    running,
    directory,
    file,
    url,
    port: Number(new URL(url).port),
    adminUrl,
    lines,
    said,
    rewrite: (over) => writeFile(file, stringify({ ...config, ...over })),
    counted: async (account = ACCOUNT) => {
      const response = await fetch(`${adminUrl}/api/usage/${account}`);
      const text = await response.text();
      assert.equal(response.status, 200, text);
      const { windows } = JSON.parse(text) as { windows: { used: number }[] };
      return windows.at(-1)?.used ?? Number.NaN;
    },
    [Symbol.asyncDispose]: async () => {
      await running.kill();
      if (given === undefined) await rm(directory, { recursive: true, force: true });
    },
  };
}

export function keysOfServed(): string {
  const given = { id: ACCOUNT, plan: "vectors", digest: digestKey(KEY) };
  return [...encodeKeyFile(recordsFrom([given]))].join("");
}

function sortLines(
  running: RunningProcess,
  lines: AccessLogEntry[],
  said: Record<string, unknown>[],
): void {
  let half = "";
  running.child.stdout?.on("data", (text: string) => {
    const whole = (half + text).split("\n");
    half = whole.pop() ?? "";
    for (const line of whole) {
      if (!line.startsWith("{")) continue;
      const parsed = JSON.parse(line) as Record<string, unknown>;
      if (parsed.msg === "request") lines.push(parsed as unknown as AccessLogEntry);
      else said.push(parsed);
    }
  });
}
