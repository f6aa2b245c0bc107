import type { LoadClient } from "./load-generator.ts";
import { PLANS, type PlanName } from "./trial/workload.ts";

export type ProofClient = LoadClient & { readonly plan: PlanName };

const ACCOUNTS_EACH = 3;

/** Issues keys of every plan through a gateway. Rejects with its reason if it refuses one. */
export async function issueKeys(adminUrl: string): Promise<ProofClient[]> {
  const clients: ProofClient[] = [];
  for (const plan of Object.keys(PLANS) as PlanName[]) {
    const headers = { "Content-Type": "application/json" };
    const body = JSON.stringify({ environment: "proof", plan, count: ACCOUNTS_EACH });
    const response = await fetch(`${adminUrl}/api/keys`, { method: "POST", headers, body });
    const told = (await response.json()) as LoadClient[] | { readonly message: string };
    if (!Array.isArray(told)) throw new Error(`Cannot issue keys of ${plan}: ${told.message}`);
    clients.push(...told.map(({ account, key }) => ({ account, key, plan })));
  }
  return clients;
}
