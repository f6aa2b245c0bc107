import { deprecatedOperations, deprecations } from "../../config/deprecations.ts";
import { explain } from "../../core/quota/explain.ts";
import { type Answer, json, problem } from "../http/answer.ts";
import type { Call } from "./call.ts";
import { paged } from "./pages.ts";
import { peekAccount } from "./usage.ts";

/** Why a request was refused, by its id, from the memory of the gateway. */
export async function explainRequest({ deps, id }: Call): Promise<Answer> {
  const line = await deps.recall.refusal(id);
  if (line !== undefined) return json(200, explain(line));
  const message = "No refusal with this request id is remembered: its line in the log explains it";
  return problem("unknown_request", message);
}

/** Units that were charged for requests under way: no line of the log tells of them yet. */
export async function tellOpen({ deps }: Call): Promise<Answer> {
  return json(200, await deps.recall.open());
}

/** Operations that go away, with the accounts that called them. */
export async function tellDeprecations({ deps, query }: Call): Promise<Answer> {
  const config = deps.config();
  await deps.recall.tellStore();
  // While the store is away, as far as this gateway remembers.
  const calls = await deps.quotas.notes
    .calls(deprecatedOperations(config))
    .catch(() => deps.recall.deprecated());
  const found = deprecations(config, calls, deps.now());
  const named = found.map((one) => {
    return { id: `${one.environment} ${one.method} ${one.route}`, one };
  });
  return paged(named, { path: "/api/deprecations", query }, (page) => page.map(({ one }) => one));
}

/** Why an account is or was banned: its running strikes, and the bans that are remembered. */
export function whyBanned(call: Call): Promise<Answer> {
  return peekAccount(call, async ({ account, environment, strikes, ban }) => {
    const bans = await call.deps.recall.bansOf({ account, environment });
    return { account, environment, strikes, ban, bans };
  });
}
