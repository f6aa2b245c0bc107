import type { Page } from "playwright-core";
import type { TestGateway } from "../../support/gateway/house.ts";

export type Figures = { readonly atMs: number; readonly durations: object } & Readonly<
  Record<string, unknown>
>;

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
export async function streamTo(
  page: Page,
  messages: readonly (readonly [event: string, data: object])[],
): Promise<void> {
  const body = messages
    .map(([event, data]) => `event: ${event}\ndata: ${JSON.stringify(data)}\n\n`)
    .join("");
  await page.route("**/api/events", (route) => {
    return route.fulfill({ contentType: "text/event-stream", body });
  });
}
