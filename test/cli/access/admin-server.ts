import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";

export type Question = {
  readonly asked: string;
  readonly headers: IncomingMessage["headers"];
  readonly body: string;
};

/** An admin listener in this process that answers so, and what it was asked. */
export async function openAdmin(
  answer: (response: ServerResponse, question: Question) => unknown,
  host = "127.0.0.1",
  wantedPort = 0,
) {
  const questions: Question[] = [];
  const server = createServer(async (request, response) => {
    const { method, url, headers } = request;
    try {
      const question = { asked: `${method} ${url}`, headers, body: await text(request) };
      questions.push(question);
      await answer(response, question);
    } catch {
      // A client that has left, or an answer that fails, ends the connection and not the run.
      request.socket.destroy();
    }
  });
  await once(server.listen(wantedPort, host), "listening");
  const { port } = server.address() as AddressInfo;
  const close = async () => {
    server.close();
    server.closeAllConnections();
  };
  return {
    ...{ port, questions, origin: `http://${host.includes(":") ? `[${host}]` : host}:${port}` },
    config: { admin: { listen: { host, port }, token: "t".repeat(32), hosts: [] } },
    [Symbol.asyncDispose]: close,
  };
}

/** Sends this as JSON. */
export function send(response: ServerResponse, status: number, body: unknown, link = ""): void {
  response.writeHead(status, link === "" ? {} : { Link: link }).end(JSON.stringify(body));
}
