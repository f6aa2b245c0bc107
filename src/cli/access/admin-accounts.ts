import type { Config } from "../../config/config.ts";
import type {
  BanReport,
  CountReport,
  ResetReport,
  UsageReport,
} from "../../core/keys/usage-reports.ts";
import type { BanReasons } from "../../stores/queries/ban-reasons.ts";
import type { DayReport } from "../../stores/queries/read-history.ts";
import { type GatewayReport, mayRun } from "../../telemetry/gateway-status.ts";
import type { AccountOperations, LiftedBan, OperationResult } from "./account-operations.ts";
import { type AdminRequest, fetchAdmin, fetchAllPages, fetchEachPage } from "./admin-client.ts";

const ONLY = "with store: memory the running gateway knows";

/**
 * Queries the running gateway through its admin listener, because with the memory store no other
 * process knows its accounts (docs/reference/commands.md#which-process-answers), or because --admin
 * names it. Every error message names the setting that leads there.
 */
export function openAdminAccounts(config: Config, sharesStore: boolean): AccountOperations {
  const only = sharesStore ? undefined : ONLY;
  const ask = <T>(question: AdminRequest) => fetchAdmin<T>(config, { ...question, only });
  const list = <T>(path: string) => fetchAllPages<T>(config, { path, only });
  return {
    bans: () => list<BanReport>("/api/bans"),
    usage: ({ id, environment }) =>
      ask<UsageReport>({
        path: withQuery(`/api/usage/${encodeURIComponent(id)}`, { env: environment }),
        members: ["account", "windows", "strikes", "ban"],
        id,
      }),
    // The gateway applies the filter.
    usageOfAll: ({ environment: env, plan, over, top }) =>
      list<UsageReport>(withQuery("/api/usage", { limit: PAGE, env, plan, over, top })),
    counts: () => list<CountReport>(withQuery("/api/counts", { limit: PAGE })),
    countsOf: ({ id, environment }) =>
      ask<CountReport>({
        path: withQuery(`/api/counts/${encodeURIComponent(id)}`, { env: environment }),
        members: ["account", "at", "windows"],
        id,
      }),
    gatewayNames: async () => runningNames(await list<GatewayReport>("/api/gateways")),
    history: ({ id, environment: env, plan, period }, tell) => {
      const query = { limit: PAGE, account: id, env, plan, ...period };
      const path = withQuery("/api/history", query);
      return fetchEachPage<DayReport>(config, { path, only, id }, tell);
    },
    reset: ({ id, environment }, windows) =>
      ask<ResetReport>({
        method: "POST",
        path: withQuery(`/api/accounts/${encodeURIComponent(id)}/reset`, { env: environment }),
        body: { windows },
        members: ["account", "windows"],
        ...{ id, look: `\`usage ${id}\`` },
      }),
    ban: (id, { lengthMs, reason }) =>
      ask<BanReport>({
        method: "POST",
        path: "/api/bans",
        body: { id, for: `${lengthMs}ms`, reason },
        also: [201],
        members: ["account", "until"],
        ...{ id, look: `\`bans why ${id}\`` },
      }),
    banReasons: (id) =>
      ask<BanReasons>({
        path: `/api/bans/${encodeURIComponent(id)}`,
        members: ["account", "environment", "strikes", "ban"],
        id,
      }),
    liftBan: (id) =>
      ask<LiftedBan>({
        method: "DELETE",
        path: `/api/bans/${encodeURIComponent(id)}`,
        members: ["account", "environment"],
        ...{ id, look: `\`bans why ${id}\`` },
      }),
  };
}

function runningNames(
  listed: OperationResult<readonly GatewayReport[]>,
): OperationResult<readonly string[]> {
  if (!listed.ok) return listed;
  const running = listed.value.filter(({ age }) => mayRun(age * 1_000));
  return { ok: true, value: running.map(({ name }) => name) };
}

/** The most items of one page. */
const PAGE = 10_000;

/** The path, with those of the parameters that have a value. */
function withQuery(
  path: string,
  parameters: Readonly<Record<string, string | number | undefined>>,
): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    if (value !== undefined) query.set(name, String(value));
  }
  return query.size === 0 ? path : `${path}?${query}`;
}
