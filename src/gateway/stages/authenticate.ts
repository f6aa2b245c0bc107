import { memoize } from "../../base/memoize.ts";
import type { RequestHead } from "../../core/http/head.ts";
import { capLimits } from "../../core/keys/caps.ts";
import { findCredential } from "../../core/keys/credentials.ts";
import { checkKeyText, digestKey } from "../../core/keys/key.ts";
import {
  type AccountLimit,
  type AccountRecord,
  checkKeyRecord,
  effectiveLimits,
  isKeyAllowedFrom,
  type KeyRecord,
} from "../../core/keys/records.ts";
import { type Limit, sortByLength } from "../../core/quota/windows.ts";
import { accept, type Result, refuse } from "../../core/refusal.ts";
import { type AccountRef, accountId } from "../../stores/quotas/account-ref.ts";
import type { AnonymousClient } from "../client/anonymous-clients.ts";
import type { Environment, GatewayContext } from "../exchange/environment.ts";
import type { Exchange } from "../exchange/exchange.ts";
import type { RoutedRequest } from "./receive.ts";

/**
 * The owner of a request: an account by one of its keys, with the windows of its plan and its own.
 * Getters read from the key record instead of copying, because up to 100,000 consumers are kept
 * within 30 MB.
 */
export class Consumer implements AccountRef {
  readonly key: KeyRecord;
  readonly owner: AccountRecord;
  readonly id: string;
  readonly limits: readonly Limit[];
  bucket: number | undefined;

  constructor(key: KeyRecord, owner: AccountRecord, limits: readonly Limit[]) {
    this.key = key;
    this.owner = owner;
    this.id = accountId({ environment: key.environment, account: key.account });
    this.limits = limits;
  }

  get environment(): string {
    return this.key.environment;
  }

  get account(): string {
    return this.key.account;
  }

  get plan(): string {
    return this.owner.plan;
  }

  get scopes(): readonly string[] {
    return this.key.scopes;
  }
}

/**
 * Finds the caller of a request (docs/reference/http.md#authentication). A wrong shape, tag or
 * checksum is refused without a lookup. Until the records are loaded, a well-formed key is neither
 * valid nor invalid. A key whose plan is missing is never unlimited.
 */
function authenticate(
  gateway: GatewayContext,
  environment: Environment,
  { head, client }: { readonly head: RequestHead; readonly client: string },
): Result<Consumer> {
  const token = findCredential(head, environment);
  if (!token.ok) return token;
  const shape = checkKeyText(token.value, environment);
  if (!shape.ok) {
    gateway.wrongEnvironmentKeys?.note(token.value, environment);
    return shape;
  }
  if (!gateway.keys.ready) return refuse("store_unavailable", "no copy of the key records yet");

  const record = gateway.keys.find(digestKey(token.value));
  const key = checkKeyRecord(record, environment.name, gateway.now());
  if (!key.ok) {
    if (record !== undefined) gateway.wrongEnvironmentKeys?.note(token.value, environment);
    return key;
  }
  if (!isKeyAllowedFrom(key.value, client)) return refuse("key_invalid", `not from ${client}`);
  // The store keeps no key without its account.
  const owner = gateway.keys.account(key.value.account) as AccountRecord;
  return accept(consumerOf(environment, key.value, owner));
}

/** Computed once for each record and set of plans. Both are replaced, never changed. */
const consumersOf = memoize((_plans: Environment["plans"]) => new WeakMap<KeyRecord, Consumer>());

function consumerOf({ plans }: Environment, key: KeyRecord, owner: AccountRecord): Consumer {
  const consumers = consumersOf(plans);
  let consumer = consumers.get(key);
  if (consumer?.owner !== owner) {
    const plan = plans.get(owner.plan);
    const limits = plan === undefined ? [] : withCaps(limitsFor(plan, owner.limits), key);
    consumer = new Consumer(key, owner, limits);
    consumers.set(key, consumer);
  }
  return consumer;
}

/** The limits of a key with caps: its caps and the limits of its account, if that has any. */
function withCaps(limits: readonly Limit[], key: KeyRecord): readonly Limit[] {
  const caps = capLimits(key);
  return caps.length === 0 || limits.length === 0 ? limits : sortByLength([...limits, ...caps]);
}

/** The limits of accounts without windows of their own. Nearly all keys share them. */
const planLimits = memoize((plan: readonly Limit[]) => effectiveLimits(plan, []));

function limitsFor(
  plan: readonly Limit[] | "custom",
  own: readonly AccountLimit[],
): readonly Limit[] {
  return plan === "custom" || own.length > 0 ? effectiveLimits(plan, own) : planLimits(plan);
}

/** The account that a request is charged to: the key's account, or that of a client address. */
export type Caller = Consumer | AnonymousClient;

/**
 * Finds the caller of a request. Credentials are always judged if there are any. Without
 * credentials, a public operation is charged to the client address
 * (docs/reference/plans.md#public-operations).
 */
export function identify(
  gateway: GatewayContext,
  { environment, head, found }: RoutedRequest,
  { arrival }: Exchange,
): Result<Caller> {
  const consumer = authenticate(gateway, environment, { head, client: arrival.client });
  if (consumer.ok || consumer.refusal.code !== "key_missing") return consumer;
  const { publicPlan } = environment;
  if (publicPlan === undefined || !found.isPublic) return consumer;
  return accept(gateway.anonymousClients.get(publicPlan, arrival.client, gateway.elapsed()));
}
