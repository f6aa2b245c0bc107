import assert from "node:assert/strict";
import { it } from "vitest";
import { withLostBans } from "../../../src/cli/access/lost-bans.ts";
import type { Config } from "../../../src/config/config.ts";
import type { UsageReport } from "../../../src/core/keys/usage-reports.ts";
import { openAdmin, send } from "./admin-server.ts";

const UNTIL = 2_000_000_000;

it("a ban that the store has lost is told beside those that it has, and asked for if any account has none", async () => {
  const lost = { account: "b", environment: "production", until: UNTIL, offences: 2 };
  await using admin = await openAdmin((response) => send(response, 200, [lost]));
  const config = { ...admin.config, bans: {} } as unknown as Config;
  const report = (account: string, ban: UsageReport["ban"]) => {
    return { account, environment: "production", ban } as UsageReport;
  };
  const [known, none] = [report("a", { until: UNTIL, offences: 1 }), report("b", null)];
  assert.deepEqual(
    (await withLostBans(config, [known, none])).map(({ ban }) => ban),
    [known.ban, { until: UNTIL, offences: 2, lost: true }],
  );
  assert.deepEqual(await withLostBans(config, [known]), [known]);
  assert.equal(admin.questions.length, 1);
});
