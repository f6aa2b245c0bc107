/**
 * Runs in the copy that test/recipes.test.ts makes of the source, and prints as JSON what became of
 * the recipes: `window URL` or `wire URL`, with the address of a Redis.
 */
import { Redis } from "ioredis";
import { GENERATED } from "../../scripts/pages/generated.ts";
import { schemaText } from "../../src/config/schema/json-schema.ts";
import { LIMITED } from "../../src/core/keys/edit-rules.ts";
import type { UsageReport } from "../../src/core/keys/usage-reports.ts";
import { type AccountState, decide, NEW_ACCOUNT_STATE } from "../../src/core/quota/decide.ts";
import { type WindowName, windowEnd, windowStart } from "../../src/core/quota/windows.ts";
import { DECIDE_SCRIPT } from "../../src/stores/quotas/redis/account-scripts.ts";
import { decodeDecisions, encodeDecide } from "../../src/stores/quotas/redis/decide-codec.ts";
import { startTestGateway } from "./gateway/house.ts";

const [, , what, url = ""] = process.argv;
const FORTNIGHT = "fortnight" as WindowName;
const page = (path: string) => GENERATED.find((one) => one.path === path)?.text() ?? "";

/** In how many of a thousand steps the store and `decide` differ. */
async function differences(): Promise<number> {
  const redis = new Redis(url);
  await redis.script("LOAD", DECIDE_SCRIPT.text);
  let account: AccountState = NEW_ACCOUNT_STATE;
  let nowMs = Date.UTC(2026, 10, 22, 23, 59, 59, 999);
  let differs = 0;
  const quotaRequest = { limits: [{ window: FORTNIGHT, limit: 3 }], bans: undefined, requests: 1 };
  for (let i = 0; i < 1_000; i++) {
    const keyed = [{ key: "t:{0}:recipe", quotaRequest }];
    const reply = await redis.call("evalsha", DECIDE_SCRIPT.sha, ...encodeDecide(keyed, nowMs, i));
    const decided = decide(account, quotaRequest, nowMs);
    account = decided.account;
    const [told] = decodeDecisions(keyed, reply, i);
    if (JSON.stringify(told) !== JSON.stringify(decided.decision)) differs += 1;
    const edgeMs = windowEnd(FORTNIGHT, windowStart(FORTNIGHT, nowMs));
    nowMs = i % 3 === 2 ? edgeMs - 1 : i % 5 === 4 ? edgeMs : nowMs + 1;
  }
  redis.disconnect();
  return differs;
}

async function window(): Promise<unknown> {
  const { limits } = (await import("../../src/admin/page/parts/limits.js" as string)) as {
    limits(plan: object): string;
  };
  await using house = await startTestGateway({
    config: { store: url, plans: { free: { fortnight: 2 } } },
  });
  const { key, account } = await house.issue();
  await house.ask(key);
  const { headers } = await house.ask(key, "/pets");
  await house.ask(key);
  const shown = (await (await house.admin(`/api/usage/${account}`)).json()) as UsageReport;
  const [first] = shown.windows;
  const broken = await startTestGateway({
    config: { plans: { free: { fortnight: 2 } } },
    environment: { public: "free" },
  }).then(
    () => "",
    (error: unknown) => String(error),
  );
  return {
    schema: schemaText().includes('"fortnight"'),
    generated: page("docs/configuration.md").includes("| `fortnight` |"),
    publicPlan: broken.includes("it has a fortnight window"),
    limitOption: LIMITED.includes(FORTNIGHT),
    page: limits({ fortnight: 9 }),
    differs: await differences(),
    headers: ["Limit", "Remaining", "Window"].map((one) => headers.get(`X-RateLimit-${one}`)),
    usage: [first?.window, first?.used, first?.limit],
  };
}

async function wire(): Promise<unknown> {
  await using house = await startTestGateway({ config: { store: url } });
  const { key } = await house.issue();
  const field = (await house.ask(key)).headers.get("X-API-Version");
  const refused = await house.ask("pets_tea_0123456789");
  const { code } = (await refused.json()) as { code: string };
  const text = await (await house.admin("/metrics")).text();
  return {
    field,
    refusal: [refused.status, code],
    metric: /^tollgate_kettles_total 3$/m.test(text),
    page: page("docs/reference/refusals.md").includes("tea_time"),
  };
}

const found = JSON.stringify(await (what === "window" ? window() : wire()));
// A gateway that was refused its configuration leaves the servers of its test running.
process.stdout.write(found, () => process.exit());
