import type { CorsPolicy } from "../../core/http/cors.ts";
import { fieldValues, type RequestHead } from "../../core/http/head.ts";
import type { StandardRateLimit } from "../../core/http/rate-limit-fields.ts";
import type { RouteMatch } from "../../core/http/route.ts";
import { pathOf } from "../../core/http/target.ts";
import type { AccountRecord, KeyRecord } from "../../core/keys/records.ts";
import type { AnswerReader } from "../../core/meters/answer-reader.ts";
import { type Holds, NO_METERS, type OperationMeter } from "../../core/quota/meters.ts";
import type { RateLimitInfo } from "../../core/quota/rate-limit-info.ts";
import { isDecision, type Refusal, type RefusalCode, type Result } from "../../core/refusal.ts";
import type { IncomingRequest } from "../../http1/server/incoming-request.ts";
import type { AccountRef } from "../../stores/quotas/account-ref.ts";
import type { AccessLogEntry } from "../../telemetry/log/access-log-entry.ts";
import type { RequestSpan } from "../../telemetry/tracing/tracing.ts";
import type { Environment, Service } from "./environment.ts";
import type { Upgrade } from "./open-tunnel.ts";

/**
 * Known when the head has arrived, at `startedMs`; its first byte came at `beganMs`.
 * `closesConnection`: no request follows it on the connection.
 */
export type RequestContext = {
  readonly id: string;
  readonly beganMs: number;
  readonly startedMs: number;
  readonly peer: string;
  /** The environment of the listener, if it has only one: every request belongs to it. */
  readonly onlyEnvironment: Environment | undefined;
  /** The client's address: the peer's, or the one that a trusted proxy reports. */
  readonly client: string;
  /** Undefined if the client asks for no WebSocket; a refusal if its handshake is invalid. */
  readonly upgrade: Result<Upgrade> | undefined;
  readonly closesConnection: boolean;
  /** Undefined while telemetry is off. */
  readonly span?: RequestSpan | undefined;
};

/** The operation that the path of a request leads to, and the service that has the path. */
export type RouteFacts = {
  readonly path: string;
  readonly match: RouteMatch;
  readonly service: Service | undefined;
};

/** The caller: from an accepted key, or from an address without a key. */
type CallerIdentity = {
  /** The text of its environment and account. */
  readonly id: string;
  readonly key: KeyRecord | undefined;
  readonly owner: Pick<AccountRecord, "meta"> | undefined;
  readonly account: string;
  readonly plan: string;
};

/** The store's decision. `decidedMs` is the store's time: Retry-After counts from it. */
export type DecisionFacts = {
  readonly outcome: "admitted" | "refused";
  readonly charged: number;
  readonly rateLimitInfo: RateLimitInfo;
  readonly decidedMs: number;
  readonly strikes: number;
  /** Windows whose observed limits an admitted request crossed. */
  readonly observed?: AccessLogEntry["observed"];
  /** The holds of the request; absent if it has no meters. */
  readonly holds?: TakenHolds | undefined;
  /** The state that led to a refusal: enough to decide it again. */
  readonly refusal?: Pick<AccessLogEntry, "windows" | "holds" | "monthFrom" | "by" | "ban">;
};

/** The holds of an admitted request, and the account that they are counted for. */
type TakenHolds = { readonly accountRef: AccountRef; readonly holds: Holds };

/** The upstream's answer: a 101, or a head that announces `promisedBytes` (-1: no length). */
type AnswerFacts = { readonly isTunnel: boolean; readonly promisedBytes: number };

/**
 * The facts of an exchange. Each stage records its own facts once. A stage that was not reached has
 * none, so a refusal reports what is known by then.
 */
export class ExchangeRecord {
  readonly request: IncomingRequest;
  readonly arrival: RequestContext;
  readonly id: string;
  /** The head, if it is well-formed. */
  head: RequestHead | undefined;
  environment: Environment | undefined;
  route: RouteFacts | undefined;
  caller: CallerIdentity | undefined;
  decision: DecisionFacts | undefined;
  answer: AnswerFacts | undefined;
  /** Whether all of the upstream's answer has arrived. */
  isAnswerWhole = false;
  /** Reads from the upstream's answer what the request used, if it is metered. */
  answerReader: AnswerReader | undefined;
  /** RateLimit-Policy and RateLimit, if the configuration asks for them. */
  rateLimit: StandardRateLimit | undefined;
  code: RefusalCode | undefined;
  /** The reason for the log. */
  why: string | undefined;
  /** The window whose whole limit is below the cost of the request. */
  over: string | undefined;
  /** The end of the brownout that refused the request, in Unix seconds. */
  until: number | undefined;
  /** Set if the rest of the client's request is malformed and no forward was in progress. */
  requestError: Refusal | undefined;
  /** Whether the holds of the request were taken to be settled, which may be before its end. */
  isSettled = false;
  #rateLimitInfo: RateLimitInfo | undefined;

  constructor(request: IncomingRequest, arrival: RequestContext) {
    this.request = request;
    this.arrival = arrival;
    this.id = arrival.id;
  }

  /** The origin of the page, by the Origin field; undefined if there is none, or more than one. */
  get origin(): string | undefined {
    const values = fieldValues(this.request.rawHeaders, "origin");
    return values.length === 1 ? values[0] : undefined;
  }

  /** The path of the target without the query, because clients put secrets into queries. */
  get path(): string {
    return this.route?.path ?? pathOf(this.request.target);
  }

  get found(): RouteMatch | undefined {
    return this.route?.match;
  }

  /** The cost of the request in units. */
  get cost(): number {
    return this.route?.match.cost ?? 1;
  }

  /** The meters that the request has taken from. */
  get meters(): readonly OperationMeter[] {
    const isAdmitted = this.decision?.outcome === "admitted";
    return isAdmitted ? (this.route?.match.meters ?? NO_METERS) : NO_METERS;
  }

  /** If a listener has one environment, its policy holds even if the head cannot be read. */
  get cors(): CorsPolicy | undefined {
    return (this.environment ?? this.arrival.onlyEnvironment)?.cors;
  }

  /** The fields that may carry a key. */
  get keyHeaders(): readonly string[] {
    return this.environment?.keyHeaders ?? [];
  }

  /** The account's standing by the decision, or as known; else the address's allowance. */
  get rateLimitInfo(): RateLimitInfo | undefined {
    return this.decision?.rateLimitInfo ?? this.#rateLimitInfo;
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

  setEnvironment(environment: Environment): void {
    this.environment = environment;
  }

  /** The route was found. It is judged later. */
  setRoute(route: RouteFacts): void {
    this.route = route;
  }

  /** The key was accepted, or the address if no key is needed. */
  identify(caller: CallerIdentity): void {
    this.caller = caller;
  }

  /** The standing of the account, or of the address's failure allowance, without a decision. */
  setRateLimitInfo(rateLimitInfo: RateLimitInfo): void {
    this.#rateLimitInfo = rateLimitInfo;
  }

  /** The same for the standard fields. */
  setRateLimit(rateLimit: StandardRateLimit): void {
    this.rateLimit = rateLimit;
  }

  /** The head of the answer has come. The answer may tell what the request used. */
  readAnswer(answerReader: AnswerReader): void {
    this.answerReader = answerReader;
  }

  /** The cost of the request is above the whole limit of a window, so that it would never fit. */
  exceed(window: string): void {
    this.over = window;
  }

  setDecision(decision: DecisionFacts): void {
    this.decision = decision;
  }

  /** Returns the holds of the request to settle them: only once. */
  takeHolds(): TakenHolds | undefined {
    if (this.isSettled) return undefined;
    this.isSettled = true;
    return this.decision?.holds;
  }

  /** The gateway refuses. Records the code, and the reason unless there is one already. */
  refuse({ code, why, until }: Refusal): void {
    this.code = code;
    this.until = until;
    this.why ??= why;
  }

  /** The reason for the log; the first one stays. */
  setReason(why: string | undefined): void {
    this.why ??= why;
  }
}
