import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { Webhook } from "standardwebhooks";

export const SECRET = `whsec_${Buffer.from("0123456789abcdef0123456789abcdef").toString("base64")}`;

type Event = Readonly<Record<string, unknown>> & { readonly kind: string };

export type Received = {
  readonly id: string;
  readonly mediaType: string | undefined;
  readonly type: string;
  readonly timestamp: string;
  readonly events: readonly Event[];
};

type Message = {
  readonly type: string;
  readonly timestamp: string;
  readonly data: { readonly events: Event[] };
};

export type WebhookReceiver = AsyncDisposable & {
  readonly url: string;
  /** Messages whose signature the library of Standard Webhooks took, in their order. */
  readonly received: Received[];
  /** Answers every message with this status; 0 leaves it unanswered. */
  status: number;
  /** Messages that came, whatever became of them. */
  tries: number;
  /** The ids of those messages. */
  readonly ids: Set<unknown>;
  /** Cuts every connection, also those that wait for an answer. */
  drop(): void;
};

/** A receiver of webhooks that checks each signature by the library of the specification. */
export async function startWebhookReceiver(): Promise<WebhookReceiver> {
  const wanted = new Webhook(SECRET);
  const received: Received[] = [];
  const server = createServer((request: IncomingMessage, response: ServerResponse) => {
    let body = "";
    request.setEncoding("utf8").on("data", (piece) => {
      body += piece;
    });
    request.on("end", () => {
      receiver.tries += 1;
      receiver.ids.add(request.headers["webhook-id"]);
      if (receiver.status === 0) return;
      if (receiver.status < 300) {
        const headers = request.headers as Record<string, string>;
        const { type, timestamp, data } = wanted.verify(body, headers) as Message;
        const [id = "", mediaType] = [headers["webhook-id"], headers["content-type"]];
        received.push({ id, mediaType, type, timestamp, events: data.events });
      }
      response.writeHead(receiver.status).end();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", () => resolve()));
  const receiver: WebhookReceiver = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/events`,
    received,
    status: 204,
    tries: 0,
    ids: new Set(),
    drop: () => server.closeAllConnections(),
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
  return receiver;
}
