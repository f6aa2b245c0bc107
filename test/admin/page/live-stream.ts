import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import type { Page } from "playwright-core";
import { onTestFinished } from "vitest";
import type { TestGateway } from "../../support/gateway/house.ts";

export type Figures = { readonly atMs: number; readonly durations: object } & Readonly<
  Record<string, unknown>
>;

type Messages = readonly (readonly [event: string, data: object])[];

/** The first two messages of the stream, as the page gets them. */
export async function firstMessages(house: TestGateway) {
  const reader = (await house.admin("/api/events")).body
    ?.pipeThrough(new TextDecoderStream())
    .getReader();
  let text = "";
  while (text.split("\n\n").length < 3) text += (await reader?.read())?.value ?? "";
  await reader?.cancel();
  const [hello, figures] = text
    .split("\n\n")
    .map((message) => JSON.parse(message.slice(message.indexOf("data: ") + 6) || "{}") as object);
  return { hello: hello as object, figures: figures as Figures };
}

/** Sends these messages to the page instead of the gateway's, each time that it asks for the stream. */
export async function streamTo(page: Page, messages: Messages): Promise<void> {
  const body = textOf(messages);
  await page.route("**/api/events", (route) => {
    return route.fulfill({ contentType: "text/event-stream", body });
  });
}

/**
 * The same over a stream that stays open, so that the page takes them for news. Gives what sends it
 * further ones.
 */
export async function holdStream(page: Page, messages: Messages) {
  let send: (more: Messages) => void = () => {};
  const server = createServer((_request, response) => {
    send = (more) => void response.write(textOf(more));
    response.writeHead(200, { "Content-Type": "text/event-stream" });
    send(messages);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.close();
    server.closeAllConnections();
  });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  await page.route("**/api/events", (route) => route.continue({ url }));
  return (more: Messages) => send(more);
}

function textOf(messages: Messages): string {
  return messages
    .map(([event, data]) => `event: ${event}\ndata: ${JSON.stringify(data)}\n\n`)
    .join("");
}
