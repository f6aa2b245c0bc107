import { once } from "node:events";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import {
  ClientConnection,
  type ClientConnectionOptions,
  type ResponseHandler,
} from "../../src/http1/client/client-connection.ts";
import type { OutgoingRequest, RequestFailure } from "../../src/http1/client/outgoing-request.ts";
import type { ResponseHead } from "../../src/http1/client/response-parser.ts";
import { HEAD_BYTES_MAX } from "./backend-bytes.ts";

export type Script = (socket: Socket, connection: number) => void;

/** A backend that does with each connection what the script says. */
export async function startBackend(script: Script) {
  const sockets: Socket[] = [];
  const server = createServer({ noDelay: true, allowHalfOpen: true }, (socket) => {
    socket.on("error", () => undefined);
    script(socket, sockets.push(socket));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return {
    port,
    sockets,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, "close");
    },
  };
}

/** Answers each read, which is taken for a whole request, with the next of the answers. */
export function answering(...answers: readonly string[]): Script {
  let next = 0;
  return (socket) => {
    socket.on("data", () => socket.write(answers[next++ % answers.length] as string, "latin1"));
    socket.on("end", () => socket.end());
  };
}

export const OK = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

export function connectionTo(
  port: number,
  options: Partial<ClientConnectionOptions> = {},
): ClientConnection {
  return new ClientConnection({
    destination: { host: "127.0.0.1", port, tls: undefined },
    headBytesMax: HEAD_BYTES_MAX,
    connectTimeoutMs: 2_000,
    idleMsMax: 4_000,
    elapsed: () => performance.now(),
    ...options,
  });
}

const GET: OutgoingRequest = {
  method: "GET",
  target: "/",
  host: "backend.test",
  fields: ["X-A", "b"],
  body: undefined,
};

/** A handler that notes the events it is told, in order. */
export class Told implements ResponseHandler {
  readonly events: string[] = [];
  head: ResponseHead | undefined;
  body = "";
  bytes = 0;
  pieces = 0;
  failure: RequestFailure | undefined;
  reused: boolean | undefined;
  readonly over: Promise<this>;
  /** Called with each event, by its name. */
  onEvent: (event: string, connection: ClientConnection) => void = () => {};
  #connection: ClientConnection | undefined;
  #settle: (told: this) => void = () => {};

  constructor() {
    this.over = new Promise((resolve) => {
      this.#settle = resolve;
    });
  }

  onStart(connection: ClientConnection): void {
    this.#connection = connection;
    this.reused = connection.reused;
    this.#tell("start");
  }

  onSending(): void {
    this.#tell("sending");
  }

  onDrain(): void {
    this.#tell("drain");
  }

  onSent(): void {
    this.#tell("sent");
  }

  onInterim({ status }: { status: number }): void {
    this.#tell(`interim ${status}`);
  }

  onHead(head: ResponseHead): void {
    this.head = head;
    this.#tell(`head ${head.status}`);
  }

  onData(piece: Buffer): void {
    this.bytes += piece.length;
    this.pieces += 1;
    if (this.bytes <= 65_536) this.body += piece.toString("latin1");
    this.#tell("data");
  }

  onReadEnd(): void {
    this.#tell("read end");
  }

  onEnd(): void {
    this.#tell("end");
    this.#settle(this);
  }

  onFailure(failure: RequestFailure): void {
    this.failure = failure;
    this.#tell("lost");
    this.#settle(this);
  }

  #tell(event: string): void {
    this.events.push(event);
    this.onEvent(event, this.#connection as ClientConnection);
  }
}

/** Sends a request and waits for its end, or for its loss. */
export function send(
  connection: ClientConnection,
  request: Partial<OutgoingRequest> = {},
  told = new Told(),
) {
  connection.send({ ...GET, ...request }, told);
  return told.over;
}

/** Until what the other side did has come here. */
export async function until(holds: () => boolean): Promise<void> {
  for (let turns = 0; turns < 1_000 && !holds(); turns++) await sleep(2);
}

/** Sends a GET to a backend that does this, and tells how it went. */
export async function get(script: Script) {
  await using backend = await startBackend(script);
  const connection = connectionTo(backend.port);
  const told = await send(connection);
  connection.close();
  return told;
}

/** A backend that answers with these bytes and then ends, resets or waits. */
export function saying(bytes: string, then: "end" | "reset" | "wait" = "wait"): Script {
  return (socket) => {
    socket.once("data", () => {
      socket.write(bytes, "latin1", () => {
        if (then === "end") socket.end();
        // Behind its bytes: a reset that overtakes them takes them along.
        else if (then === "reset") setTimeout(() => socket.resetAndDestroy(), 30);
      });
    });
  };
}
