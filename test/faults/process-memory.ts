import { readFileSync } from "node:fs";
import { connect, type Socket } from "node:net";
import type { SpawnedGateway } from "../support/gateway/served.ts";

/** Bytes of memory that the process of a gateway has resident. */
export function rssBytes({ running }: SpawnedGateway): number {
  const status = readFileSync(`/proc/${running.pid}/status`, "utf8");
  return Number(/^VmRSS:\s+(\d+) kB/m.exec(status)?.[1]) * 1024;
}

/** A connection that forgives its end. */
export function openSocket(port: number): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, "127.0.0.1");
    socket.once("error", reject);
    socket.once("connect", () => {
      socket.off("error", reject);
      socket.on("error", () => undefined);
      resolve(socket);
    });
  });
}
