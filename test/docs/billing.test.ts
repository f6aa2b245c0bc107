import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { it } from "vitest";
import { DAY_MS, dayOf, formatDay } from "../../src/core/quota/days.ts";
import { createMemoryQuotaStore } from "../../src/stores/quotas/memory/memory-quota-store.ts";
import { freePorts, openFolder, runVerb, writeConfig } from "../cli/kit.ts";
import { startProgram, startTollgate } from "../support/gateway/processes.ts";
import { eventually } from "../support/poll.ts";
import { SECRET } from "../support/webhook-receiver.ts";
import { blocksOf } from "./markdown.ts";

/** The first day of the two before today, which is closed at every hour of today. */
const DAY = dayOf(Date.now()) - 2;

it("docs/billing.md: its receiver makes meter events of Stripe and OpenMeter, each once", async () => {
  await using folder = await openFolder();
  const program = blocksOf("docs/billing.md").find(({ language }) => language === "js");
  await writeFile(join(folder.path, "receiver.mjs"), program?.text ?? "");
  const [port = 0] = await freePorts(1);
  const env = {
    ...{ PORT: String(port), WEBHOOK_SECRET: SECRET },
    CUSTOMERS: JSON.stringify({ acme: "cus_NciAYcXfLnqBoz" }),
  };
  const run = { cwd: folder.path, env };
  await using receiver = startProgram(process.execPath, ["receiver.mjs"], run);
  await receiver.says(`listening on ${port}`);
  const more = `history: 400d\nevents: { url: "http://127.0.0.1:${port}/usage", secret: "${SECRET}" }\n`;
  const file = await writeConfig(folder, { more });
  const args = ["--env", "production", "--plan", "pro", "--account", "acme", "--config", file];
  assert.equal((await runVerb(["keys", "create", ...args])).status, 0);
  const stateFile = join(folder.path, "data/state.json");
  const now = () => DAY * DAY_MS + DAY_MS / 2;
  const store = await createMemoryQuotaStore({
    ...{ stateFile, now, report: () => {}, historyMs: 400 * DAY_MS },
  });
  const quotaRequest = {
    limits: [{ window: "month", limit: 100 }] as const,
    bans: undefined,
    requests: 1,
  };
  const accountRef = { environment: "production", account: "acme" };
  for (const cost of [3, 4]) await store.charge(accountRef, { ...quotaRequest, cost, plan: "pro" });
  await store.close();

  await using gateway = startTollgate(["start", "--config", file]);
  await gateway.line(({ kind }) => kind === "usage", 60_000);
  const [line] = await eventually(() => {
    assert.equal(receiver.lines().length, 1);
    return receiver.lines();
  });
  const day = formatDay(DAY);
  assert.deepEqual(Object.fromEntries(new URLSearchParams(String(line?.stripe))), {
    event_name: "api_units",
    "payload[stripe_customer_id]": "cus_NciAYcXfLnqBoz",
    "payload[value]": "7",
    identifier: `production:acme:${day}`,
    timestamp: String(((DAY + 1) * DAY_MS) / 1000 - 1),
  });
  assert.deepEqual(JSON.parse(String(line?.openMeter)), {
    ...{ specversion: "1.0", type: "tollgate.usage", source: "/tollgate/tg", subject: "acme" },
    ...{ id: `production:acme:${day}`, time: `${day}T23:59:59Z` },
    datacontenttype: "application/json",
    data: { ...accountRef, plan: "pro", day, admitted: 2, units: 7, refused: 0 },
  });
  await gateway.stop();
});
