import assert from "node:assert/strict";
import { connect, type Socket } from "node:net";
import { parseList } from "structured-headers";
import { eventually } from "../poll.ts";
import { onlyValue, parseResponses, type RawResponse, valuesOf } from "./response.ts";

/** A request in parts; everything has a default: GET /v1/pets without a key. */
export type RequestOptions = {
  readonly method?: string;
  readonly path?: string;
  readonly version?: string;
  /** Sent as a bearer token. */
  readonly key?: string;
  /** Default: `gw.test`; `null` sends none. */
  readonly host?: string | null;
  /** Fields in order, as they are on the wire. */
  readonly fields?: readonly (readonly [name: string, value: string])[];
  /** Sent with Content-Length, as JSON unless `fields` say otherwise. */
  readonly body?: string | Uint8Array;
};

/** One connection to a gateway. Requests go one after the other; answers are parsed strictly. */
export type Client = AsyncDisposable & {
  readonly socket: Socket;
  /** Sends a request and gives its final response; rejects when the connection ends first. */
  ask(wanted?: RequestOptions): Promise<RawResponse>;
  /** Writes bytes as they are. */
  write(bytes: string | Uint8Array): void;
  /** The responses to so many requests, whose bytes were written before. */
  responses(methods: readonly string[], withinMs?: number): Promise<readonly RawResponse[]>;
  /** Bytes that came and are not yet part of a response that was given. */
  readonly waiting: () => Buffer;
  /** How the other side ended the connection; resolves when it has. */
  readonly ended: Promise<"closed" | "reset">;
  readonly open: () => boolean;
};

/** Resolves once connected; rejects when the connection is refused. */
export async function openClient(port: number): Promise<Client> {
  const socket = connect({ port, host: "127.0.0.1", allowHalfOpen: true });
  socket.setNoDelay(true);
  await new Promise<void>((resolve, reject) => {
    socket.once("connect", resolve).once("error", reject);
  });
  return new Connected(socket);
}

class Connected implements Client {
  readonly socket: Socket;
  readonly ended: Promise<"closed" | "reset">;
  #bytes: Buffer = Buffer.alloc(0);
  #closed = false;
  /** Wakes whoever waits for more to come. */
  #wake: () => void = () => {};

  constructor(socket: Socket) {
    this.socket = socket;
    this.ended = new Promise((resolve) => {
      const end = (how: "closed" | "reset") => {
        this.#closed = true;
        resolve(how);
        this.#wake();
      };
      socket.once("end", () => end("closed"));
      socket.on("error", () => end("reset"));
      socket.once("close", () => end("closed"));
    });
    socket.on("data", (chunk: Buffer) => {
      this.#bytes = this.#bytes.length === 0 ? chunk : Buffer.concat([this.#bytes, chunk]);
      this.#wake();
    });
  }

  waiting = () => this.#bytes;
  open = () => !this.#closed;

  async ask(wanted: RequestOptions = {}): Promise<RawResponse> {
    this.socket.write(requestBytes(wanted));
    const [response] = await this.responses([wanted.method ?? "GET"]);
    return response as RawResponse;
  }

  write(data: string | Uint8Array): void {
    this.socket.write(typeof data === "string" ? Buffer.from(data, "latin1") : data);
  }

  async responses(methods: readonly string[], withinMs = 60_000): Promise<readonly RawResponse[]> {
    const endMs = performance.now() + withinMs;
    for (;;) {
      const parsed = parseResponses(this.#bytes, { methods, closed: this.#closed });
      if (parsed.problem !== undefined) throw new Error(parsed.problem);
      if (parsed.responses.length >= methods.length) {
        this.#bytes = parsed.rest;
        return parsed.responses;
      }
      const leftMs = endMs - performance.now();
      if (this.#closed || leftMs <= 0) {
        const why = this.#closed ? "the connection ended" : `nothing more came in ${withinMs} ms`;
        throw new Error(`${parsed.responses.length} of ${methods.length} responses: ${why}`);
      }
      await this.#more(leftMs);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.socket.destroy();
  }

  /** Resolves when something came or the connection ended; at the latest after `withinMs`. */
  #more(withinMs: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, withinMs);
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}

/** The same over a connection of its own. */
export async function sendRequest(port: number, wanted: RequestOptions = {}): Promise<RawResponse> {
  await using client = await openClient(port);
  return await client.ask(wanted);
}

export function requestBytes(wanted: RequestOptions): Buffer {
  const { method = "GET", path = "/v1/pets", version = "1.1", key, host = "gw.test" } = wanted;
  const { fields = [], body } = wanted;
  const lines = [`${method} ${path} HTTP/${version}`];
  if (host !== null) lines.push(`Host: ${host}`);
  if (key !== undefined) lines.push(`Authorization: Bearer ${key}`);
  for (const [name, value] of fields) lines.push(`${name}: ${value}`);
  const head = (all: readonly string[]) => Buffer.from(`${all.join("\r\n")}\r\n\r\n`, "latin1");
  if (body === undefined) return head(lines);
  const content = Buffer.from(body);
  if (!fields.some(([name]) => name.toLowerCase() === "content-type")) {
    lines.push("Content-Type: application/json");
  }
  return Buffer.concat([head([...lines, `Content-Length: ${content.length}`]), content]);
}

/** Resolves once no more connections are taken; sends nothing on those that still are. */
export async function untilRefused(port: number): Promise<void> {
  await eventually(async () => {
    const client = await openClient(port).catch(() => undefined);
    await client?.[Symbol.asyncDispose]();
    return client === undefined;
  });
}

/** The three rate limit fields; fails where one is not there exactly once, as a whole number. */
export function rateLimitFieldsOf(response: RawResponse) {
  const whole = (name: string) => {
    const value = onlyValue(response, name);
    if (!/^\d+$/.test(value)) throw new Error(`${name} is not a whole number: ${value}`);
    return Number(value);
  };
  const told = {
    limit: whole("X-RateLimit-Limit"),
    remaining: whole("X-RateLimit-Remaining"),
    reset: whole("X-RateLimit-Reset"),
  };
  checkStandardFields(response, told);
  return told;
}

/** RateLimit and RateLimit-Policy say of each window what the other says, and what X-RateLimit says of one. */
function checkStandardFields(
  response: RawResponse,
  { limit, remaining }: { readonly limit: number; readonly remaining: number },
): void {
  const [states, policies] = [
    standardItems(response, "RateLimit"),
    standardItems(response, "RateLimit-Policy"),
  ];
  if (states.size === 0 && policies.size === 0) return;
  assert.deepEqual([...states.keys()], [...policies.keys()]);
  for (const [name, { r, t, ...others }] of states) {
    const { q, w = 1, ...rest } = policies.get(name) ?? {};
    for (const value of [r, t, q, w])
      assert.ok(Number.isInteger(value) && Number(value) >= 0, name);
    assert.deepEqual([others, rest], [{}, {}]);
    assert.ok(Number(r) <= Number(q) && (Number(w) > 0 || name === "ban"), name);
  }
  const shown = valuesOf(response, "X-RateLimit-Window")[0] ?? "unauthenticated";
  assert.equal(states.get(shown)?.r, remaining);
  if (shown !== "ban") assert.equal(policies.get(shown)?.q, limit);
}

type Parameters = Readonly<Record<string, unknown>>;

/** A structured field that is a list of strings with parameters, by a parser of another hand. */
export function standardItems(response: RawResponse, field: string): Map<string, Parameters> {
  const values = valuesOf(response, field);
  return new Map(
    parseList(values.join(", ")).map(([name, parameters]) => {
      assert.equal(typeof name, "string");
      return [String(name), Object.fromEntries(parameters)];
    }),
  );
}

/** A body in the Error shape; fails where it is anything else or repeats another status. */
export function errorOf(response: RawResponse) {
  const error = JSON.parse(response.body.toString()) as Record<string, unknown>;
  const { code, message, status, ...others } = error;
  if (typeof code !== "string" || typeof message !== "string" || message === "") {
    throw new Error(`Not an Error: ${response.body}`);
  }
  if (status !== response.status || Object.keys(others).length > 0) {
    throw new Error(`Not the Error of a ${response.status}: ${response.body}`);
  }
  return { code, message, status };
}

/** Waits until at least `leftMs` of the present UTC minute are left, by the machine's clock. */
export function awayFromMinuteEdge(leftMs = 5_000): Promise<void> {
  return awayFromEdge(60_000, leftMs);
}

/** The same for an hour: the longest window that a public operation may have. */
export function awayFromHourEdge(leftMs = 30_000): Promise<void> {
  return awayFromEdge(3_600_000, leftMs);
}

async function awayFromEdge(windowMs: number, leftMs: number): Promise<void> {
  await eventually(() => windowMs - (Date.now() % windowMs) >= leftMs, {
    withinMs: leftMs + 5_000,
    everyMs: 50,
  });
}
