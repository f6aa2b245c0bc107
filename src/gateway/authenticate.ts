import type { Head } from "../core/framing.ts";
import {
  digestKey,
  judgeRecord,
  judgeShape,
  type KeyRecord,
  limitsOf,
  readBearer,
} from "../core/key.ts";
import { accept, type Judged, refuse } from "../core/refusal.ts";
import type { Limit } from "../core/windows.ts";
import type { AccountName } from "../stores/store.ts";
import type { Gateway, Served } from "./gateway.ts";

/** Whose request it is: its key, its account, and the windows of the plan with those agreed. */
export type Consumer = {
  readonly key: KeyRecord;
  readonly name: AccountName;
  readonly limits: readonly Limit[];
};

/**
 * Contract 3 and 4.2. A wrong shape, tag or checksum is refused without looking anything up. Until
 * there is a copy of the records a well-formed key is neither valid nor invalid; a key whose plan is
 * missing is never unlimited.
 */
export function authenticate(gateway: Gateway, served: Served, head: Head): Judged<Consumer> {
  const bearer = readBearer(head.authorization);
  if (!bearer.ok) return bearer;
  const shape = judgeShape(bearer.value, served.keyPrefix, served.keyTag);
  if (!shape.ok) return shape;
  if (!gateway.keys.ready) return refuse("store_unavailable", "no copy of the key records yet");

  const record = gateway.keys.find(digestKey(bearer.value));
  const key = judgeRecord(record, served.name, gateway.now());
  if (!key.ok) return key;
  const consumer = consumerOf(served, key.value);
  if (consumer.limits.length === 0) return refuse("plan_missing", `plan ${key.value.plan}`);
  return accept(consumer);
}

/** Worked out once for each record and set of plans: both are replaced, never changed. */
const known = new WeakMap<Served["plans"], WeakMap<KeyRecord, Consumer>>();

function consumerOf({ plans }: Served, key: KeyRecord): Consumer {
  const ofPlans = known.get(plans) ?? new WeakMap<KeyRecord, Consumer>();
  known.set(plans, ofPlans);
  let consumer = ofPlans.get(key);
  if (consumer === undefined) {
    const { environment, account } = key;
    const plan = plans.get(key.plan);
    const limits = plan === undefined ? [] : limitsOf(plan, key.limits);
    consumer = { key, name: { environment, account }, limits };
    ofPlans.set(key, consumer);
  }
  return consumer;
}
