import { isLoop } from "../../core/http/fields.ts";
import { type Head, hostName, judgeBody, judgeHead, judgeSize } from "../../core/http/head.ts";
import { type Found, findRoute, NOTHING } from "../../core/http/route.ts";
import { judgeTarget, type Target } from "../../core/http/target.ts";
import { asksForWebSocket, judgeHandshake } from "../../core/http/websocket.ts";
import { accept, type Judged, refuse } from "../../core/refusal.ts";
import type { Exchange } from "../exchange/exchange.ts";
import {
  type Backend,
  backendAt,
  type Gateway,
  loosestLimits,
  type Served,
  schemeOf,
} from "../exchange/served.ts";

export type Received = {
  readonly served: Served;
  readonly head: Head;
  readonly target: Target;
  readonly found: Found;
  /** The service that has the path, where one has. */
  readonly backend: Backend | undefined;
};

/**
 * Judges framing, target and size, and finds the route (docs/reference/http.md#order). The exchange
 * learns everything that is known so far, for its log line and for the fields of a refusal.
 */
export function receive(
  gateway: Gateway,
  serves: readonly Served[],
  exchange: Exchange,
): Judged<Received> {
  const received = judge(gateway, serves, exchange);
  if (!received.ok && exchange.found === undefined) findAnyway(serves, exchange);
  return received;
}

function judge(gateway: Gateway, serves: readonly Served[], exchange: Exchange): Judged<Received> {
  // If there is only one environment, even a head that cannot be read is answered for it.
  if (serves.length === 1) exchange.answerFor(undefined, serves[0]?.cors);
  if (gateway.draining === "closed") return refuse("draining");
  const { request } = exchange;
  const raw = {
    method: request.method,
    url: request.target,
    version: request.version,
    rawHeaders: request.rawHeaders,
  };
  const judged = judgeHead(raw, loosestLimits(serves));
  if (!judged.ok) return judged;
  const head = judged.value;
  exchange.readHead(head);
  // Judged above as strictly; whatever the two do not read alike is no request.
  if (request.framing === "unclear") return refuse("bad_request", "unclear framing");

  const upgrade = judgeUpgrade(head, exchange);
  if (!upgrade.ok) return upgrade;
  if (isLoop(head)) return refuse("loop_detected");
  const served = servedAt(serves, hostName(head.host));
  if (served === undefined) return refuse("misdirected", "a host that is not configured");
  exchange.answerFor(served, served.cors);
  // Which environment's limits hold is known only now that its host is.
  const sized = serves.length > 1 ? judgeSize(raw, served.limits) : judged;
  if (!sized.ok) return sized;

  const target = judgeTarget(head, schemeOf(served));
  if (!target.ok) return target;
  const { backend, found } = find(served, head.method, target.value.path);
  exchange.find(target.value.path, found, backend);

  const undescribed = backend?.routes.operations === undefined;
  const { bodyBytes } = (backend ?? served).limits;
  const deleteBody = undescribed || found.operation?.hasRequestBody === true;
  const body = judgeBody(head, { bodyBytes, deleteBody });
  if (!body.ok) return body;
  return accept({ served, head, target: target.value, found, backend });
}

/**
 * A WebSocket is opened on a connection that was handed over for it, or not at all. A request for
 * one that is malformed, or comes behind an unanswered one, is no plain request either
 * (docs/reference/edge.md#upgrade).
 */
function judgeUpgrade(head: Head, { arrival: { upgrade } }: Exchange): Judged<unknown> {
  if (upgrade !== undefined || head.upgrade === undefined) return accept(head);
  if (!asksForWebSocket(head)) return accept(head);
  const handshake = judgeHandshake(head);
  return handshake.ok
    ? refuse("bad_request", "an upgrade behind an unanswered request")
    : handshake;
}

/** The service that has the path, and the route in its description. */
function find(served: Served, method: string, path: string) {
  const backend = backendAt(served, path);
  const found = backend === undefined ? NOTHING : findRoute(backend.routes, method, path);
  return { backend, found };
}

/**
 * Finds the route of a request that was refused before its turn, where the host and the target can
 * be read at all: its refusal announces the end of the operation and lists the methods of the
 * target like any other (docs/reference/http.md#deprecation).
 */
function findAnyway(serves: readonly Served[], exchange: Exchange): void {
  const { method, target: url, rawHeaders } = exchange.request;
  const hosts = rawHeaders.filter((_, i) => rawHeaders[i - 1]?.toLowerCase() === "host" && i % 2);
  const [host = ""] = hosts;
  const served = hosts.length > 1 ? undefined : servedAt(serves, hostName(host));
  if (served === undefined) return;
  const target = judgeTarget({ method, url, host }, schemeOf(served));
  if (!target.ok) return;
  const { path } = target.value;
  exchange.answerFor(served, served.cors);
  const { backend, found } = find(served, method, path);
  exchange.find(path, found, backend);
}

/**
 * The environment that names the host, or else the one that answers to any
 * (docs/reference/http.md#environments).
 */
function servedAt(serves: readonly Served[], name: string): Served | undefined {
  const named = serves.find(({ hosts }) => hosts.includes(name));
  return named ?? serves.find(({ hosts }) => hosts.length === 0);
}
