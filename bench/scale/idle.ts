import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { WebSocket } from "ws";
import { residentBytes } from "../stage/cpu.ts";
import { type Gateway, makeKeys, say, startGateway } from "./house.ts";
import { openForgetfulBackend } from "./traffic.ts";

export type IdleOptions = { readonly connections: number; readonly tunnels: number };

const AT_ONCE = 200;
const HOLDERS = 20;
/** Kilobytes that a waiting connection may hold in the gateway, and a tunnel with both its ends. */
const CONNECTION_KB_MAX = 20;
const TUNNEL_KB_MAX = 100;

async function inTurns(count: number, one: (i: number) => Promise<unknown>): Promise<void> {
  for (let from = 0; from < count; from += AT_ONCE) {
    const to = Math.min(count, from + AT_ONCE);
    await Promise.all(Array.from({ length: to - from }, (_, i) => one(from + i)));
  }
}

/** A connection that has had an answer, and now waits for its next request. */
async function openIdle(port: number, key: string): Promise<Socket> {
  const socket = connect({ port, host: "127.0.0.1" });
  await once(socket, "connect");
  socket.write(`GET /v1/pets HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\n\r\n`);
  const [answer] = (await once(socket, "data")) as [Buffer];
  if (!answer.toString("latin1").startsWith("HTTP/1.1 200")) throw new Error(String(answer));
  return socket;
}

async function openTunnel({ url }: Gateway, key: string): Promise<WebSocket> {
  const headers = { Authorization: `Bearer ${key}` };
  const socket = new WebSocket(`${url.replace("http", "ws")}/v1/pets`, { headers });
  await once(socket, "open");
  return socket;
}

async function halfOf(gateway: Gateway, key: string): Promise<number> {
  const took: number[] = [];
  for (let i = 0; i < 200; i++) {
    const startMs = performance.now();
    const headers = { Authorization: `Bearer ${key}` };
    const { status } = await fetch(`${gateway.url}/v1/pets`, { headers });
    if (status !== 200) throw new Error(`a request beside them got ${status}`);
    took.push(performance.now() - startMs);
  }
  return took.sort((a, b) => a - b)[100] as number;
}

/** Connections that wait and tunnels that are silent: what they hold, and whether requests pass. */
export async function measureIdle({ connections, tunnels }: IdleOptions): Promise<string[]> {
  await using closing = new AsyncDisposableStack();
  const backend = await openForgetfulBackend();
  closing.defer(() => backend.close());
  const keys = makeKeys([{ plan: "big", count: HOLDERS }]);
  const limits = { drain: "1s", idleTimeout: "10m", tunnelIdle: "10m", tunnelsPerKey: tunnels };
  const gateway = await startGateway({
    upstream: backend.origin,
    keysText: keys.text,
    config: { plans: { big: { month: 10 ** 9 } }, limits },
  });
  closing.use(gateway);
  const held = keys.of("big");
  const keyOf = (i: number) => held[i % HOLDERS] as string;
  const resident = () => residentBytes([gateway.running.pid]);
  await inTurns(AT_ONCE * 5, async (i) => (await openIdle(gateway.port, keyOf(i))).destroy());
  const halfBefore = await halfOf(gateway, keyOf(0));
  const atRest = resident();

  const sockets: Socket[] = [];
  closing.defer(() => sockets.forEach((socket) => void socket.destroy()));
  await inTurns(connections, async (i) => sockets.push(await openIdle(gateway.port, keyOf(i))));
  const connectionKb = (resident() - atRest) / 1_000 / connections;
  const withIdle = resident();
  const open: WebSocket[] = [];
  closing.defer(() => open.forEach((socket) => void socket.terminate()));
  await inTurns(tunnels, async (i) => open.push(await openTunnel(gateway, keyOf(i))));
  const tunnelKb = (resident() - withIdle) / 1_000 / tunnels;
  const half = await halfOf(gateway, keyOf(0));
  const left = sockets.filter((socket) => !socket.destroyed).length;
  const alive = open.filter((socket) => socket.readyState === WebSocket.OPEN).length;

  say(`${left} of ${connections} connections and ${alive} of ${tunnels} tunnels are open`);
  say(
    `${(resident() / 1e6).toFixed(0)} MB resident, ${(atRest / 1e6).toFixed(0)} MB without them: ${connectionKb.toFixed(1)} KB a connection, ${tunnelKb.toFixed(1)} KB a tunnel`,
  );
  say(
    `half of the requests beside them took ${half.toFixed(1)} ms, ${halfBefore.toFixed(1)} ms without them`,
  );
  return [
    ...(left === connections && alive === tunnels ? [] : ["not all stayed open"]),
    ...(connectionKb <= CONNECTION_KB_MAX ? [] : [`${connectionKb.toFixed(1)} KB a connection`]),
    ...(tunnelKb <= TUNNEL_KB_MAX ? [] : [`${tunnelKb.toFixed(1)} KB a tunnel`]),
  ];
}
