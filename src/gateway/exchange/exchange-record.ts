import type { CorsPolicy } from "../../core/http/cors.ts";
import { fieldValues, type RequestHead } from "../../core/http/head.ts";
import type { StandardRateLimit } from "../../core/http/rate-limit-fields.ts";
import type { RouteMatch } from "../../core/http/route.ts";
import type { AccountRecord, KeyRecord } from "../../core/keys/records.ts";
import type { RateLimitInfo } from "../../core/quota/rate-limit-info.ts";
import { isDecision, type Refusal, type RefusalCode } from "../../core/refusal.ts";
import type { IncomingRequest } from "../../http1/server/incoming-request.ts";
import type { AccessLogEntry } from "../../telemetry/log/log.ts";
import type { Environment, Service } from "./environment.ts";
import type { RequestContext } from "./open-tunnel.ts";

/** The operation that the path of a request leads to, and the service that has it. */
export type RouteFacts = {
  readonly path: string;
  readonly match: RouteMatch;
  readonly backend: Service | undefined;
};

/** The caller that an accepted key, or an address without one, makes. */
export type CallerIdentity = {
  readonly key: KeyRecord | undefined;
  readonly owner: Pick<AccountRecord, "meta"> | undefined;
  readonly account: string;
  readonly plan: string;
};

/** The store's answer. `decidedMs` is its now: Retry-After counts from it. */
export type DecisionFacts = {
  readonly outcome: "admitted" | "refused";
  readonly charged: number;
  readonly standing: RateLimitInfo;
  readonly decidedMs: number;
  readonly strikes: number;
  /** Windows whose observed limits an admitted request crossed. */
  readonly observed?: AccessLogEntry["observed"];
  /** The state that a refusal was decided by: enough to decide it again. */
  readonly refusal?: Pick<AccessLogEntry, "windows" | "by" | "ban">;
};

/** The upstream's answer: a 101, or a head that promises a body of `promisedBytes`, -1 for no promise. */
export type AnswerFacts = { readonly isTunnel: boolean; readonly promisedBytes: number };

/**
 * The facts of an exchange, as each stage returned them and once each. A stage that was not reached
 * has none: a refusal tells what is known by then.
 */
export class ExchangeRecord {
  readonly request: IncomingRequest;
  readonly arrival: RequestContext;
  readonly id: string;
  /** The head, if it is well-formed. */
  head: RequestHead | undefined;
  served: Environment | undefined;
  route: RouteFacts | undefined;
  caller: CallerIdentity | undefined;
  decision: DecisionFacts | undefined;
  answer: AnswerFacts | undefined;
  /** The RateLimit-Policy field, where the configuration asks for it. */
  rateLimit: StandardRateLimit | undefined;
  code: RefusalCode | undefined;
  /** The reason for the log. */
  why: string | undefined;
  /** The rest of the client's request is malformed, and no forward was there to be notified. */
  broken: Refusal | undefined;
  #standing: RateLimitInfo | undefined;

  constructor(request: IncomingRequest, arrival: RequestContext) {
    this.request = request;
    this.arrival = arrival;
    this.id = arrival.id;
  }

  /** The page that asks, by its Origin field; undefined where there is none, or more than one. */
  get origin(): string | undefined {
    const values = fieldValues(this.request.rawHeaders, "origin");
    return values.length === 1 ? values[0] : undefined;
  }

  /** The path of the target, without the query, which clients fill with secrets. */
  get path(): string {
    return this.route?.path ?? pathOf(this.request.target);
  }

  get found(): RouteMatch | undefined {
    return this.route?.match;
  }

  /** Units that the request costs. */
  get cost(): number {
    return this.route?.match.cost ?? 1;
  }

  /** A listener with one environment answers for it even if the head cannot be read. */
  get cors(): CorsPolicy | undefined {
    return (this.served ?? this.arrival.onlyEnvironment)?.cors;
  }

  /** How the account stands by the decision; else as it, or the address's allowance, is known. */
  get standing(): RateLimitInfo | undefined {
    return this.decision?.standing ?? this.#standing;
  }

  get outcome(): "admitted" | "refused" | "none" {
    if (this.code !== undefined && isDecision(this.code)) return "refused";
    return this.decision?.outcome ?? "none";
  }

  get source(): "gateway" | "backend" {
    return this.answer === undefined ? "gateway" : "backend";
  }

  readHead(head: RequestHead): void {
    this.head = head;
  }

  serve(served: Environment): void {
    this.served = served;
  }

  /** The route is found, and judged later. */
  find(route: RouteFacts): void {
    this.route = route;
  }

  /** The key is accepted, or the address where none is needed. */
  identify(caller: CallerIdentity): void {
    this.caller = caller;
  }

  /** The state of the account, or of the address's failure allowance, where nothing is decided. */
  stand(standing: RateLimitInfo): void {
    this.#standing = standing;
  }

  /** The same for the standard fields. */
  announce(rateLimit: StandardRateLimit): void {
    this.rateLimit = rateLimit;
  }

  decide(decision: DecisionFacts): void {
    this.decision = decision;
  }

  /** The gateway refuses: the code, and the reason unless there was one before. */
  refuse({ code, why }: Refusal): void {
    this.code = code;
    this.why ??= why;
  }

  /** The reason for the log; the first one stays. */
  explain(why: string | undefined): void {
    this.why ??= why;
  }
}

function pathOf(target: string): string {
  const question = target.indexOf("?");
  return question === -1 ? target : target.slice(0, question);
}
