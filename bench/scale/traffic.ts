import { once } from "node:events";
import { Agent, createServer, request } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { WebSocket, WebSocketServer } from "ws";

/** A backend that keeps nothing of what it serves: bodies are read, sockets are echoed. */
export async function openForgetfulBackend() {
  const server = createServer((incoming, response) => {
    incoming.resume().once("end", () => response.end(`{"ok":true,"pad":"${"x".repeat(200)}"}`));
  });
  const sockets = new WebSocketServer({ server });
  sockets.on("connection", (socket) => socket.on("message", (data) => socket.send(data)));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close: () => {
      for (const socket of sockets.clients) socket.terminate();
      server.close();
      server.closeAllConnections();
    },
  };
}

export type Tally = Record<string, number>;

/** Counts answers by status, and connections that failed as such. */
function count(tally: Tally, what: string): void {
  tally[what] = (tally[what] ?? 0) + 1;
}

type Asked = { readonly body?: Buffer; readonly leaves?: boolean; readonly agent: Agent };

function askOnce(url: string, key: string, { body, leaves, agent }: Asked): Promise<string> {
  return new Promise((resolve) => {
    const headers = { Authorization: `Bearer ${key}` };
    const method = body === undefined ? "GET" : "POST";
    const sent = request(url, { method, agent, headers }, (response) => {
      response.resume();
      response.once("end", () => resolve(String(response.statusCode)));
      response.once("error", () => resolve("cut"));
    });
    sent.once("error", () => resolve(leaves ? "left" : "failed"));
    sent.end(body);
    if (leaves) setTimeout(() => sent.destroy(), 3);
  });
}

async function tunnelOnce(url: string, key: string): Promise<string> {
  const socket = new WebSocket(url.replace("http", "ws"), {
    headers: { Authorization: `Bearer ${key}` },
  });
  try {
    await once(socket, "open");
    socket.send("x".repeat(1_000));
    await once(socket, "message");
    await sleep(500);
    return "tunnel";
  } catch {
    return "no tunnel";
  } finally {
    socket.terminate();
  }
}

/** A bit of everything, at so many requests a second, until it is stopped. */
export function startTraffic(url: string, keys: readonly string[], perSecond: number) {
  const kept = new Agent({ keepAlive: true, maxSockets: 32 });
  const fresh = new Agent({ keepAlive: false });
  const body = Buffer.alloc(20_000, "x");
  const tally: Tally = {};
  let running = true;
  const one = async (i: number) => {
    const key = keys[i % keys.length] as string;
    const agent = i % 17 === 0 ? fresh : kept;
    if (i % 97 === 0) return tunnelOnce(url, key);
    if (i % 23 === 0) return askOnce(url, `${key.slice(0, -1)}!`, { agent });
    if (i % 31 === 0) return askOnce(url, key, { agent, leaves: true });
    return askOnce(url, key, i % 13 === 0 ? { agent, body } : { agent });
  };
  const runs = (async () => {
    const startMs = performance.now();
    for (let i = 1; running; await sleep(10)) {
      const due = Math.min(i + 50, ((performance.now() - startMs) / 1_000) * perSecond);
      for (; i < due; i++) void one(i).then((what) => count(tally, what));
    }
  })();
  return {
    tally,
    stop: async () => {
      running = false;
      await runs;
      kept.destroy();
      fresh.destroy();
    },
  };
}
