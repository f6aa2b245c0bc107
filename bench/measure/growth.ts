import { freePort } from "../../test/support/redis/redis.ts";
import { messages } from "../load/messages.ts";
import type { GrowthRow, RunOptions } from "../report/report.ts";
import { residentBytes } from "../stage/cpu.ts";
import { newKeys, type Stage } from "../stage/stage.ts";
import { openStore } from "../stage/store.ts";
import { startTollgate } from "../variants/tollgate.ts";
import { runRounds } from "./rounds.ts";
import { warmUp } from "./slice.ts";
import { medianSlice } from "./statistics.ts";

/** Tollgate on a Redis of its own, with ten times as many active accounts at each step. */
export async function measureGrowth(
  stage: Stage,
  options: RunOptions,
  say: (text: string) => void,
): Promise<GrowthRow[]> {
  const rows: GrowthRow[] = [];
  for (let accounts = 1000; accounts <= options.accountsMax; accounts *= 10) {
    say(`growth: ${accounts} accounts`);
    const row = await measureStep(stage, accounts, options, say);
    if (row !== undefined) rows.push(row);
  }
  return rows;
}

async function measureStep(
  stage: Stage,
  accounts: number,
  options: RunOptions,
  say: (text: string) => void,
): Promise<GrowthRow | undefined> {
  await using closing = new AsyncDisposableStack();
  const store = await openStore();
  closing.defer(() => store.close());
  const keys = newKeys(accounts);
  const { backendPort } = stage;
  const ports = { port: await freePort(), storePort: store.port, backendPort };
  const directory = await stage.folder();
  const server = await startTollgate({ ...ports, directory, keys, store: "redis" });
  closing.defer(() => server.stop());
  const slice = { server, store, next: messages("closed", keys), status: 200 };
  // Scripts and connections are there before the accounts are weighed.
  await warmUp({ ...slice, next: messages("closed", keys.slice(0, 1)) }, 500);
  const emptyBytes = await store.usedBytes();
  // 64 more are under way when the last account has been asked for.
  await warmUp(slice, Math.max(accounts + 64, options.warmUpRequests));
  const usedBytes = (await store.usedBytes()) - emptyBytes;
  const found = await runRounds([{ id: `${accounts} accounts`, slice }], { ...options, say });
  const measured = medianSlice([...found.values()].flatMap(({ slices }) => slices));
  if (measured === undefined) return undefined;
  return {
    accounts,
    slice: measured,
    gatewayBytes: residentBytes(server.pids),
    storeBytesPerAccount: usedBytes / accounts,
  };
}
