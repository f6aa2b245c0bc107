import type { IncomingMessage, ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { Agent, createServer, request } from "../../../base/node-http.ts";
import { METER } from "./workload.ts";

/** A proxy between the gateways and the pets that counts each request by its ID. */
export type CountingProxy = {
  readonly origin: string;
  /** Requests that reached the backend, and those that reached it more than once. */
  seen(): { readonly requests: number; readonly twice: number };
  /** Units of the meter that the account was told to have used. */
  usedBy(account: string): number;
  close(): Promise<void>;
};

/** With the planted fault, one of this many requests is forwarded twice. */
const DOUBLED_EVERY = 10;

export async function startCountingProxy(
  pets: string,
  isDoubling: boolean,
): Promise<CountingProxy> {
  const agent = new Agent({ keepAlive: true, maxSockets: 64 });
  const counts = new Map<string, number>();
  const used = new Map<string, number>();
  let requests = 0;
  const pass = (asked: IncomingMessage, response: ServerResponse | undefined) => {
    requests += 1;
    const id = String(asked.headers["x-request-id"]);
    counts.set(id, (counts.get(id) ?? 0) + 1);
    const isMetered = asked.url?.endsWith(`/${METER.operation}`) === true;
    const units = isMetered ? (requests * 37) % (METER.max + 1) : 0;
    if (isMetered && response !== undefined) {
      const account = String(asked.headers["x-consumer-id"]);
      used.set(account, (used.get(account) ?? 0) + units);
    }
    // The operations of the load differ in cost, but the pets respond alike to all of them.
    const url = new URL("/v1/pets?limit=1", pets);
    const sent = request(url, { method: asked.method, agent }, (answer) => {
      if (response === undefined) return void answer.resume();
      response.writeHead(answer.statusCode ?? 502, {
        "Content-Type": answer.headers["content-type"] ?? "application/json",
        ...(isMetered && { [METER.field]: String(units) }),
      });
      answer.pipe(response);
    });
    sent.on("error", () => response?.destroy());
    sent.end();
  };
  const server = createServer({ keepAliveTimeout: 60_000 }, (asked, response) => {
    pass(asked, response);
    if (isDoubling && requests % DOUBLED_EVERY === 0) pass(asked, undefined);
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject).listen(0, "127.0.0.1", resolve);
  });
  const { port } = server.address() as AddressInfo;
  return {
    origin: `http://127.0.0.1:${port}`,
    seen: () => ({ requests, twice: [...counts.values()].filter((count) => count > 1).length }),
    usedBy: (account) => used.get(account) ?? 0,
    close: () =>
      new Promise((resolve) => {
        agent.destroy();
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}
