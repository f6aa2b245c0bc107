import { parseArgs } from "node:util";
import { measureAccounts } from "./accounts.ts";
import { measureCluster } from "./cluster.ts";
import { measureGateways } from "./gateways.ts";
import { say } from "./house.ts";
import { measureIdle } from "./idle.ts";
import { measureKeys } from "./keys.ts";

/**
 * npm run scale -- gateways | cluster | accounts | keys | idle: one measurement of what a large installation
 * meets, on loopback. The exit status is 1 where a figure is worse than what is promised.
 */
const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: { count: { type: "string" } },
});
const count = values.count === undefined ? undefined : Number(values.count);

const MEASURES: Readonly<Record<string, () => Promise<string[]>>> = {
  gateways: () => measureGateways({ gateways: count ?? 4, rounds: 3, sliceMs: 8_000 }),
  cluster: () =>
    measureCluster({
      keys: [1_000, 50_000],
      connections: count ?? 64,
      rounds: 3,
      sliceMs: 3_000,
    }),
  accounts: () => measureAccounts(count ?? 1_000_000),
  keys: () => measureKeys(count ?? 100_000),
  idle: () => measureIdle({ connections: count ?? 10_000, tunnels: (count ?? 10_000) / 10 }),
};

const measure = MEASURES[positionals[0] ?? ""];
if (measure === undefined) {
  say(`Name one of ${Object.keys(MEASURES).join(", ")}: npm run scale -- gateways`);
  process.exitCode = 64;
} else {
  const worse = await measure();
  say(worse.length === 0 ? "as promised" : `worse than promised: ${worse.join("; ")}`);
  process.exitCode = worse.length === 0 ? 0 : 1;
}
