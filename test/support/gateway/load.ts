import { Agent, request } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";

/** How one request went: its status and whole answer, or at which point its connection failed. */
export type RequestOutcome =
  | { readonly status: number; readonly remaining: number; readonly tookMs: number }
  /** `unsent`: no connection. `unanswered`: no byte came back. `cut`: an answer began, and broke. */
  | { readonly failed: "unsent" | "unanswered" | "cut"; readonly why: string };

export type TestLoad = {
  readonly went: readonly RequestOutcome[];
  /** Asks no more; gives all once the last is over. */
  stop(): Promise<readonly RequestOutcome[]>;
};

/** One GET with a key. Never rejects. */
export function askOnce(url: string, key: string, agent: Agent): Promise<RequestOutcome> {
  const startMs = performance.now();
  return new Promise((resolve) => {
    let began = false;
    let connected = true;
    const failed = (error: Error) => {
      const at = began ? "cut" : connected ? "unanswered" : "unsent";
      resolve({ failed: at, why: error.message });
    };
    const sent = request(url, { agent, headers: { Authorization: `Bearer ${key}` } });
    sent.once("socket", (socket) => {
      if (!socket.connecting) return;
      connected = false;
      socket.once("connect", () => {
        connected = true;
      });
    });
    sent.once("response", (response) => {
      began = true;
      response.resume().once("error", failed);
      response.once("end", () => {
        const status = response.statusCode ?? 0;
        const remaining = Number(response.headers["x-ratelimit-remaining"] ?? Number.NaN);
        if (!response.complete) return;
        resolve({ status, remaining, tookMs: performance.now() - startMs });
      });
    });
    sent.once("error", failed).end();
  });
}

/** So many requests a second over kept connections, whether or not earlier ones were answered. */
export function startLoad(url: string, key: string, perSecond: number): TestLoad {
  const agent = new Agent({ keepAlive: true, maxSockets: 64 });
  const went: RequestOutcome[] = [];
  const asked: Promise<unknown>[] = [];
  const startMs = performance.now();
  let running = true;
  const runs = (async () => {
    for (let sent = 0; running; await sleep(4)) {
      // Requests that a stalled machine owes are not all sent at once.
      const due = Math.min(sent + 50, ((performance.now() - startMs) / 1_000) * perSecond);
      for (; sent < due; sent++) {
        asked.push(askOnce(url, key, agent).then((one) => went.push(one)));
      }
    }
  })();
  return {
    went,
    stop: async () => {
      running = false;
      await runs;
      await Promise.all(asked);
      agent.destroy();
      return went;
    },
  };
}
