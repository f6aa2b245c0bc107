import type { Config } from "../../config/config.ts";
import type { GatewayReport } from "../../telemetry/gateway-status.ts";
import { type AdminRequest, addressOf, fetchAllPages } from "./admin-client.ts";

/**
 * The gateways that a call asks, each once: the one of `admin.listen`, which is undefined, and those
 * of --admin. Two addresses may be of one gateway, such as localhost and 127.0.0.1, so they are
 * compared by the names that the gateways give themselves.
 */
export async function distinctGateways(
  config: Config,
  admins: readonly string[],
): Promise<readonly (string | undefined)[]> {
  const { admin } = config;
  const own = admin && new URL(addressOf(admin)).href.replace(/\/$/, "");
  const further = new Set(admins);
  if (own !== undefined) further.delete(own);
  if (further.size === 0) return [undefined];
  const names = new Set<string>();
  const distinct: (string | undefined)[] = [];
  for (const origin of [undefined, ...further]) {
    const name = await nameOfGateway(config, { origin });
    if (name === undefined || !names.has(name)) distinct.push(origin);
    if (name !== undefined) names.add(name);
  }
  return distinct;
}

/** The name of the gateway that answers; undefined if it tells none, or its store not yet. */
export async function nameOfGateway(
  config: Config,
  asked: Pick<AdminRequest, "origin" | "withinMs">,
): Promise<string | undefined> {
  const listed = await fetchAllPages<GatewayReport>(config, { ...asked, path: "/api/gateways" });
  return listed.ok ? listed.value.find(({ self }) => self)?.name : undefined;
}
