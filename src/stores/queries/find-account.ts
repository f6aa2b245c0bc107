import { quoteValue } from "../../base/messages.ts";
import type { Config } from "../../config/config.ts";
import { unknownIdRefusal } from "../../core/keys/find-records.ts";
import { maskKeys } from "../../core/keys/key.ts";
import { isAddressName, parseAddressName, type Records } from "../../core/keys/records.ts";
import { findUsageSubject, type UsageSubject } from "../../core/keys/usage-reports.ts";
import type { QuotaAdmin } from "../quotas/quota-store.ts";
import { usageOf } from "./read-usage.ts";

/** The name of an account as people write it; with `environment` if they name one. */
export type AccountSelector = { readonly id: string; readonly environment?: string | undefined };

/**
 * `unknown`: there is no such account, or only one in another `environment` than the selector names.
 * `ambiguous`: there are several, and the selector does not say which.
 */
export type AccountLookup =
  | { readonly ok: true; readonly subject: UsageSubject }
  | {
      readonly ok: false;
      readonly because: "unknown" | "ambiguous";
      readonly message: string;
      readonly environment?: string;
    };

/** The account that `id` names: an account, or one of its keys. */
export function findNamedAccount(records: Records, selector: AccountSelector): AccountLookup {
  const { id, environment: wanted } = selector;
  const subject = findUsageSubject(records, id);
  if (subject === undefined) return unknown(selector);
  const { environment } = subject;
  if (wanted === undefined || wanted === environment) return { ok: true, subject };
  const { message } = unknownIdRefusal(id, environment);
  return { ok: false, because: "unknown", message, environment };
}

/**
 * The account that `id` names: an account, one of its keys, or the address of requests without a
 * key, `addr:192.0.2.1`, in any spelling (docs/reference/plans.md#public-operations). Such an address may have
 * counts in several environments; if so, the selector has to name one. Rejects if the store is
 * unreachable.
 */
export async function findAccountBySelector(
  {
    quotas,
    config,
  }: { readonly quotas: Pick<QuotaAdmin, "peek" | "knownBan">; readonly config: Config },
  records: Records,
  selector: AccountSelector,
): Promise<AccountLookup> {
  const { id, environment } = selector;
  const fits = (each: string) => environment === undefined || environment === each;
  if (!isAddressName(id)) return findNamedAccount(records, selector);
  const account = parseAddressName(id);
  if (account === undefined) return unknown(selector);
  const holders = config.environments.flatMap(({ name, publicPlan: plan }): UsageSubject[] => {
    return plan === undefined || !fits(name)
      ? []
      : [{ account, environment: name, plan, limits: [] }];
  });
  const [first] = holders;
  if (first === undefined) return unknown(selector);
  if (holders.length === 1) return { ok: true, subject: first };
  const counted: UsageSubject[] = [];
  for (const subject of holders) {
    const usage = await usageOf(quotas, config, subject);
    if (usage?.windows.some(({ used }) => used > 0)) counted.push(subject);
  }
  const [only = first, ...others] = counted;
  if (others.length === 0) return { ok: true, subject: only };
  const names = counted.map((each) => each.environment).join(" and ");
  const message = `${account} has counts in ${names}: name one with --env, or env in the admin API`;
  return { ok: false, because: "ambiguous", message };
}

function unknown({ id, environment }: AccountSelector): AccountLookup {
  const where = environment === undefined ? "" : ` in ${environment}`;
  const message = `Cannot find ${quoteValue(maskKeys(id))}${where}: no key or account has this ID`;
  return { ok: false, because: "unknown", message };
}
