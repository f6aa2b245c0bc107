import type { IncomingHttpHeaders } from "node:http";
import { responseFields } from "../../core/http/fields.ts";
import { ownFields, replacedFields } from "../../core/http/own-fields.ts";
import { acceptFor, WEBSOCKET_VERSION } from "../../core/http/websocket.ts";
import type { ForwardTrace } from "../../telemetry/tracing.ts";
import { type Admitted, hostFor, outgoingFields } from "../forward/backend-request.ts";
import type { Upstream } from "../upstreams/backend-connection.ts";

/**
 * The fields of a handshake to the backend: those of any request, then the handshake's own, so that
 * no field that a client nominates in Connection can take them out.
 */
export function handshakeFields(
  admitted: Admitted,
  upstream: Pick<Upstream, "host">,
  nonce: string,
  trace?: ForwardTrace | undefined,
): IncomingHttpHeaders {
  return Object.assign(recordOf(outgoingFields(admitted, trace?.fields)), {
    host: hostFor(admitted, upstream),
    connection: "Upgrade",
    upgrade: "websocket",
    "sec-websocket-version": WEBSOCKET_VERSION,
    "sec-websocket-key": nonce,
  });
}

/** The fields of the 101 to the client: the handshake's own, the backend's, and ours as everywhere. */
export function switchFields(
  admitted: Admitted,
  raw: readonly string[],
  nonce: string,
): IncomingHttpHeaders {
  return recordOf([
    ...["Upgrade", "websocket", "Connection", "Upgrade"],
    ...["Sec-WebSocket-Accept", acceptFor(nonce)],
    ...responseFields(raw, { replaced: replacedBySwitch(admitted), status: 101 }),
    ...ownFields(admitted.exchange),
  ]);
}

/** The fields of any other answer of the backend, flat. */
export function answerFields(admitted: Admitted, raw: readonly string[], status: number): string[] {
  const fields = responseFields(raw, { replaced: replacedFields(admitted.exchange), status });
  return [...fields, ...ownFields(admitted.exchange)];
}

function replacedBySwitch(admitted: Admitted): ReadonlySet<string> {
  return new Set([...replacedFields(admitted.exchange), "content-length", "sec-websocket-accept"]);
}

/** A flat list as the library takes it: by name in lower case, repeated ones as lists. */
function recordOf(fields: readonly string[]): Record<string, string | string[]> {
  const record: Record<string, string | string[]> = Object.create(null);
  for (let i = 0; i < fields.length; i += 2) {
    const name = (fields[i] as string).toLowerCase();
    const value = fields[i + 1] as string;
    const before = record[name];
    record[name] = before === undefined ? value : [before, value].flat();
  }
  return record;
}
