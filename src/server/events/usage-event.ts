import { hash } from "node:crypto";
import { formatDay } from "../../core/quota/days.ts";
import type { ClosedDay, UntoldUsage } from "../../stores/queries/untold-usage.ts";
import type { SignedMessage } from "../../telemetry/log/signed-post.ts";

/** A closed day of an account. */
export type AccountDay = {
  readonly accountRef: UntoldUsage["accountRef"];
  readonly usage: ClosedDay;
};

const ID_DIGITS = 32;

/**
 * The message about closed days: CloudEvents 1.0 in the JSON batch format
 * (docs/reference/events.md#usage-events). The same days make the same bytes and the same id,
 * whichever gateway sends them. `source` names what counted them.
 */
export function usageMessage(days: readonly AccountDay[], source: string): SignedMessage {
  const body = JSON.stringify(days.map((day) => cloudEvent(day, source)));
  return {
    id: `msg_${hash("sha256", body, "hex").slice(0, ID_DIGITS)}`,
    type: "application/cloudevents-batch+json",
    body,
  };
}

function cloudEvent({ accountRef, usage }: AccountDay, source: string) {
  const { environment, account } = accountRef;
  const day = formatDay(usage.day);
  const { plan, admitted, units, refused, overage, overageUnknown, meters } = usage;
  return {
    specversion: "1.0",
    type: "tollgate.usage",
    source,
    // No environment has a colon in its name, nor has the id of an account.
    id: `${environment}:${account}:${day}`,
    // Within the day, and after all that began on it.
    time: `${day}T23:59:59Z`,
    subject: account,
    datacontenttype: "application/json",
    data: {
      ...{ environment, account, plan, day, admitted, units, refused },
      ...{ overage, overageUnknown, meters },
    },
  };
}
