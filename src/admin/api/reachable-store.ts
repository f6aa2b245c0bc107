import { errorMessage } from "../../base/messages.ts";
import { isWholeStore } from "../../stores/queries/missing-parts.ts";
import type { OnMissing } from "../../stores/quotas/quota-store.ts";
import {
  type AdminResponse,
  MISSING_NAME,
  problemResponse,
  RETRY_AFTER_1,
} from "../http/response.ts";
import type { ApiDeps } from "./api-request.ts";

/** Responds with 503 if the store is unreachable: that is not a fault of the gateway. */
export async function storeOr503(
  deps: ApiDeps,
  asked: () => Promise<AdminResponse>,
): Promise<AdminResponse> {
  try {
    return await asked();
  } catch (error) {
    const why = errorMessage(error);
    deps.log.error("store_no_answer", { why });
    // An operator reads it, who has to know what no retry helps against: a right that is missing.
    const message = `The rate limit store is unavailable: ${why}`;
    return problemResponse("store_unavailable", message, RETRY_AFTER_1);
  }
}

/**
 * Sends the response to a change when a restart would not forget the change any more
 * (docs/reference/store.md#state-file). If it cannot be written it is in force all the same.
 */
export async function whenSaved(
  { quotas }: Pick<ApiDeps, "quotas">,
  response: AdminResponse,
): Promise<AdminResponse> {
  const why = await quotas.whyUnsaved();
  if (why === undefined) return response;
  const message = `This is in force, but a restart would forget it: ${why}`;
  return problemResponse("store_unavailable", message);
}

/**
 * Responds with what `asked` finds in the parts of the store that can be reached. The field
 * X-Tollgate-Missing names the buckets and nodes of a Cluster that cannot, or the store that did not
 * take the message of a change that was made
 * (docs/reference/admin.md#missing-parts). If no part can be reached, a list is 503.
 */
export function fromReachableStore(
  deps: ApiDeps,
  asked: (onMissing: OnMissing) => Promise<AdminResponse>,
): Promise<AdminResponse> {
  return storeOr503(deps, async () => {
    const parts = new Map<string, readonly number[]>();
    const response = await asked(({ node, buckets, why }) => {
      if (!parts.has(node)) deps.log.error("store_no_answer", { why });
      parts.set(node, buckets);
    });
    if (parts.size === 0) return response;
    if (response.body === "[]" && isWholeStore(parts.values())) {
      throw new Error("no part of it can be reached");
    }
    const named = [...parts].map(([node, buckets]) => {
      if (buckets.length === 0) return node;
      return `${buckets.length === 1 ? "bucket" : "buckets"} ${buckets.join(" ")} at ${node}`;
    });
    return { ...response, fields: [...response.fields, MISSING_NAME, named.join(", ")] };
  });
}
