import type { IncomingHttpHeaders } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { Agent, request } from "../../base/node-http.ts";
import type { PromiseChecker } from "./judge/checker.ts";
import type { ObservedResponse, SentRequest } from "./trial/promises.ts";
import type { OperationName } from "./trial/workload.ts";

export type LoadClient = { readonly account: string; readonly key: string };

/** The part of the requests that use an operation other than the plain one. */
const SPECIAL = 0.3;
/** The part that uses the account whose turn the second is: even few requests reach its limits. */
const OF_TURN = 0.5;

/** With the planted fault, the client sees a `Retry-After` that is one second too small. */
export type LoadOptions = {
  readonly checker: Pick<PromiseChecker, "take" | "deniedAfterWaiting">;
  /** Origins of the gateways that accept requests now. */
  readonly origins: () => readonly string[];
  readonly isRetryAfterLess: boolean;
};

/** This many clients send at once and ignore refusals; each pauses for up to this time. */
const HEEDLESS = 8;
const PAUSE_MS = 12;

/** Sends requests until stopped. Some clients ignore every refusal, the others obey Retry-After. */
export class LoadGenerator {
  readonly #options: LoadOptions;
  readonly #agent = new Agent({ keepAlive: true, maxSockets: 64 });
  readonly #abandoned = new AbortController();
  #running = true;
  #under: readonly Promise<void>[] = [];

  constructor(options: LoadOptions) {
    this.#options = options;
  }

  start(heedless: readonly LoadClient[], polite: readonly LoadClient[]): void {
    this.#under = [
      ...Array.from({ length: HEEDLESS }, () => this.#askOn(heedless)),
      ...polite.map((client) => this.#askAsTold(client)),
    ];
  }

  /** Resolves when all answers have come. Clients that wait go on, unless they are `abandoned`. */
  async stop({ abandoned = false } = {}): Promise<void> {
    this.#running = false;
    if (abandoned) this.#abandoned.abort();
    await Promise.all(this.#under);
    this.#agent.destroy();
  }

  async #askOn(clients: readonly LoadClient[]): Promise<void> {
    while (this.#running) {
      const special = Math.random() < SPECIAL;
      const turn = clients[Math.floor(Date.now() / 1_000) % clients.length] as LoadClient;
      const client = Math.random() < OF_TURN ? turn : oneOf(clients);
      await this.#ask(client, special ? oneOf(["dear", "few"] as const) : "pets");
      await sleep(Math.random() * PAUSE_MS);
    }
  }

  /** Sends until refused, waits the seconds of Retry-After, and must be admitted then. */
  async #askAsTold(client: LoadClient): Promise<void> {
    const { signal } = this.#abandoned;
    while (this.#running) {
      const { response, endedMs } = await this.#ask(client);
      if (response?.status !== 429) {
        await sleep(PAUSE_MS);
        continue;
      }
      const seconds = response.retryAfterSeconds;
      if (!(seconds >= 0 && seconds < 60)) return;
      // A timer may end a millisecond early. The promise is about whole seconds, not about those.
      const untilMs = endedMs + seconds * 1_000;
      while (Date.now() < untilMs) {
        await sleep(untilMs - Date.now(), undefined, { signal }).catch(() => {});
        if (signal.aborted) return;
      }
      const { response: next } = await this.#ask(client);
      if (next?.status === 429) this.#options.checker.deniedAfterWaiting(client.account, seconds);
    }
  }

  async #ask(
    { account, key }: LoadClient,
    operation: OperationName = "pets",
  ): Promise<SentRequest> {
    const origin = oneOf(this.#options.origins());
    const url = `${origin}/v1/${operation}`;
    const sentMs = Date.now();
    const response = await this.#answerOf(url, key);
    const endedMs = Date.now();
    const shot = { origin, account, operation, sentMs, endedMs, response: response ?? undefined };
    // If nothing listened any more, nothing was sent.
    if (response !== null) this.#options.checker.take(shot);
    return shot;
  }

  /** Null if the request was not sent, undefined if no complete response arrived. */
  #answerOf(url: string, key: string): Promise<ObservedResponse | undefined | null> {
    return new Promise((resolve) => {
      const headers = { Authorization: `Bearer ${key}` };
      const sent = request(url, { agent: this.#agent, headers }, (response) => {
        response.on("error", () => resolve(undefined));
        response.on("end", () => resolve(this.#read(response.statusCode ?? 0, response.headers)));
        response.resume();
      });
      sent.on("error", (error: Error & { code?: string }) => {
        resolve(error.code === "ECONNREFUSED" ? null : undefined);
      });
      sent.end();
    });
  }

  #read(status: number, headers: IncomingHttpHeaders): ObservedResponse {
    const number = (name: string, absent = Number.NaN) => Number(headers[name] ?? absent);
    const less = this.#options.isRetryAfterLess ? 1 : 0;
    return {
      status,
      window: String(headers["x-ratelimit-window"]),
      limit: number("x-ratelimit-limit"),
      remaining: number("x-ratelimit-remaining"),
      resetSeconds: number("x-ratelimit-reset"),
      retryAfterSeconds: number("retry-after") - less,
      cost: number("x-ratelimit-cost", 1),
    };
  }
}

function oneOf<T>(list: readonly T[]): T {
  return list[Math.floor(Math.random() * list.length)] as T;
}
