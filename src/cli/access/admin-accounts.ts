import type { Config } from "../../config/config.ts";
import type {
  BanReport,
  CountReport,
  ResetReport,
  UsageReport,
} from "../../core/keys/usage-reports.ts";
import type { BanReasons } from "../../stores/queries/ban-reasons.ts";
import type { AccountSelector } from "../../stores/queries/find-account.ts";
import type { DayReport } from "../../stores/queries/read-history.ts";
import type { UsageFilter } from "../../stores/queries/read-usage.ts";
import { type GatewayReport, mayRun } from "../../telemetry/gateway-status.ts";
import type {
  AccountOperations,
  HistoryQuery,
  LiftedBan,
  OperationResult,
} from "./account-operations.ts";
import { fetchAdmin, fetchAllPages, fetchEachPage } from "./admin-client.ts";

const ONLY = "with store: memory the running gateway knows";

/**
 * Queries the running gateway through its admin listener, because with the memory store no other
 * process knows its accounts (docs/reference/commands.md#which-process-answers), or because --admin
 * names it. Every error message names the setting that leads there.
 */
export function openAdminAccounts(config: Config, sharesStore = false): AccountOperations {
  const only = sharesStore ? undefined : ONLY;
  return {
    bans: () => fetchAllPages<BanReport>(config, { path: "/api/bans", only }),
    usage: (selector) =>
      fetchAdmin<UsageReport>(config, {
        path: pathOf("/api/usage/ID", selector),
        members: ["account", "windows", "strikes", "ban"],
        id: selector.id,
        only,
      }),
    usageOfAll: (filter) => askUsage(config, filter, only),
    counts: () => fetchAllPages<CountReport>(config, { path: "/api/counts?limit=10000", only }),
    countsOf: (selector) =>
      fetchAdmin<CountReport>(config, {
        path: pathOf("/api/counts/ID", selector),
        members: ["account", "at", "windows"],
        id: selector.id,
        only,
      }),
    gatewayNames: () => readGatewayNames(config, only),
    history: (query, tell) => askHistory(config, { ...query, only }, tell),
    reset: (selector, windows) =>
      fetchAdmin<ResetReport>(config, {
        method: "POST",
        path: pathOf("/api/accounts/ID/reset", selector),
        body: { windows },
        members: ["account", "windows"],
        ...{ id: selector.id, only, look: `\`usage ${selector.id}\`` },
      }),
    ban: (id, { lengthMs, reason }) =>
      fetchAdmin<BanReport>(config, {
        method: "POST",
        path: "/api/bans",
        body: { id, for: `${lengthMs}ms`, reason },
        also: [201],
        members: ["account", "until"],
        ...{ id, only, look: `\`bans why ${id}\`` },
      }),
    banReasons: (id) =>
      fetchAdmin<BanReasons>(config, {
        path: `/api/bans/${encodeURIComponent(id)}`,
        members: ["account", "environment", "strikes", "ban"],
        id,
        only,
      }),
    liftBan: (id) =>
      fetchAdmin<LiftedBan>(config, {
        method: "DELETE",
        path: `/api/bans/${encodeURIComponent(id)}`,
        members: ["account", "environment"],
        ...{ id, only, look: `\`bans why ${id}\`` },
      }),
  };
}

async function readGatewayNames(
  config: Config,
  only: string | undefined,
): Promise<OperationResult<readonly string[]>> {
  const told = await fetchAllPages<GatewayReport>(config, { path: "/api/gateways", only });
  if (!told.ok) return told;
  const running = told.value.filter(({ age }) => mayRun(age * 1_000));
  return { ok: true, value: running.map(({ name }) => name) };
}

/** `template` with the ID in place of ID. */
function pathOf(template: string, { id, environment }: AccountSelector): string {
  const path = template.replace("ID", encodeURIComponent(id));
  return environment === undefined ? path : `${path}?${new URLSearchParams({ env: environment })}`;
}

/** The gateway applies the filter. */
function askUsage(
  config: Config,
  { environment, plan, over, top }: UsageFilter,
  only: string | undefined,
): Promise<OperationResult<readonly UsageReport[]>> {
  const query = new URLSearchParams({ limit: "10000" });
  for (const [name, value] of Object.entries({ env: environment, plan, over, top })) {
    if (value !== undefined) query.set(name, String(value));
  }
  return fetchAllPages<UsageReport>(config, { path: `/api/usage?${query}`, only });
}

async function askHistory(
  config: Config,
  { id, environment, plan, period, only }: HistoryQuery & { readonly only: string | undefined },
  tell: (rows: readonly DayReport[]) => void,
): Promise<OperationResult<undefined>> {
  const query = new URLSearchParams({ limit: "10000" });
  for (const [name, value] of Object.entries({ account: id, env: environment, plan, ...period })) {
    if (value !== undefined) query.set(name, String(value));
  }
  const path = `/api/history?${query}`;
  return fetchEachPage<DayReport>(config, { path, only, id }, tell);
}
