import type { TraceFields } from "../../core/http/trace-context.ts";
import type { ForeignKeyFormat } from "../../core/keys/key.ts";
import type { RefusalCode } from "../../core/refusal.ts";
import type { AccessLogEntry } from "../log/access-log-entry.ts";

/** Traces requests. It does not exist while telemetry is off, and its library is not loaded. */
export type Tracing = {
  /**
   * Called when a request arrives with these fields, in which its client may name a trace. Its head
   * began `headMs` earlier. Keys in the fields, also of `foreignKeys`, must not be exported.
   */
  begin(
    rawHeaders: readonly string[],
    headMs?: number,
    foreignKeys?: readonly ForeignKeyFormat[],
  ): RequestSpan;
};

/** The span of a request to the gateway. */
export type RequestSpan = {
  readonly traceId: string;
  /** Called when the request is sent to an upstream, once for each attempt. */
  forward(request: ForwardedRequest): UpstreamSpan;
  /** Called when the response has ended, with its access log entry. */
  end(entry: AccessLogEntry, facts: RequestFacts): void;
};

/** The span of one attempt at an upstream. */
export type UpstreamSpan = {
  /** The fields by which the backend's spans become children of this one. */
  readonly fields: TraceFields;
  /** Called when the head of the upstream's response has arrived. */
  setStatus(status: number): void;
  /**
   * Called when the response has ended, or, with the failure, if it never will. Only the first call
   * counts.
   */
  end(failure?: AttemptFailure): void;
};

/** The code of a failure; `client_gone` if the client left before the response. */
export type AttemptFailure = RefusalCode | "client_gone";

/** A request as it is sent to an upstream. Keys in its target must not be exported. */
export type ForwardedRequest = {
  readonly method: string;
  readonly origin: string;
  readonly target: string;
  readonly foreignKeys: readonly ForeignKeyFormat[];
};

/** Facts that the log entry of a request leaves out; undefined if its head was not parsed. */
export type RequestFacts = {
  readonly scheme: "http" | "https";
  readonly host: string | undefined;
  readonly version: string | undefined;
};
