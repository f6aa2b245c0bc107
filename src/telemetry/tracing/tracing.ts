import type { TraceFields } from "../../core/http/trace-context.ts";
import type { ForeignKeyFormat } from "../../core/keys/key.ts";
import type { RefusalCode } from "../../core/refusal.ts";
import type { AccessLogEntry } from "../log/log.ts";

/** Traces requests. There is none while telemetry is off, and nothing of it is loaded. */
export type Tracing = {
  /** A request has come with these fields, in which its client may name a trace. */
  begin(rawHeaders: readonly string[]): RequestSpan;
};

/** The span of a request to the gateway. */
export type RequestSpan = {
  readonly traceId: string;
  /** The request goes to a backend, once more with each try. */
  forward(request: ForwardedRequest): UpstreamSpan;
  /** The answer has ended, as this line tells. */
  end(line: AccessLogEntry, facts: RequestFacts): void;
};

/** The span of one try at a backend. */
export type UpstreamSpan = {
  /** The fields by which the backend's spans become children of this one. */
  readonly fields: TraceFields;
  /** The head of the backend's response has come. */
  setStatus(status: number): void;
  /** The response has ended, or, with the failure, never will. The first call counts. */
  end(failure?: AttemptFailure): void;
};

/** The code of a failure; `client_gone` if the client left before the response. */
export type AttemptFailure = RefusalCode | "client_gone";

/** A request as it goes to a backend; the keys in its target must not be told. */
export type ForwardedRequest = {
  readonly method: string;
  readonly origin: string;
  readonly target: string;
  readonly foreignKeys: readonly ForeignKeyFormat[];
};

/** The facts about a request that its line leaves out; undefined where its head was not understood. */
export type RequestFacts = {
  readonly scheme: "http" | "https";
  readonly host: string | undefined;
  readonly version: string | undefined;
};
