import assert from "node:assert/strict";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { Webhook } from "standardwebhooks";
import { each } from "./each.ts";
import { SECRET } from "./webhook-receiver.ts";

/** A usage event as it came (docs/reference/events.md#usage-events). */
export type UsageEvent = {
  readonly id: string;
  readonly source: string;
  readonly time: string;
  readonly subject: string;
  readonly data: {
    readonly environment: string;
    readonly account: string;
    readonly plan: string;
    readonly day: string;
    readonly admitted: number;
    readonly units: number;
    readonly refused: number;
    readonly overage?: number;
    readonly overageUnknown?: string;
    readonly meters?: Readonly<Record<string, number>>;
  };
};

/** `signedS` is when it was signed, in Unix seconds. */
type UsageMessage = {
  readonly id: string;
  readonly signedS: number;
  readonly events: readonly UsageEvent[];
};

/** The fate of a message: 2xx stores it; `dies` stores it and never answers. */
export type Verdict = number | "dies";

export type UsageReceiver = AsyncDisposable & {
  readonly url: string;
  /** Every message that was stored, in order, doubles too. */
  readonly messages: UsageMessage[];
  /** Messages that came, whatever became of them. */
  tries: number;
  verdict: Verdict | ((events: readonly UsageEvent[]) => Verdict);
  /** All stored events, doubles too. */
  all(): UsageEvent[];
  /** The events of a receiver that remembers ids: each counted once. */
  counted(): Map<string, UsageEvent>;
  /** The units of each account, each event counted once. */
  units(): Record<string, number>;
};

/**
 * A receiver of usage events that checks each signature by the library of Standard Webhooks and each
 * event by what CloudEvents 1.0 asks for.
 */
export async function startUsageReceiver(port = 0): Promise<UsageReceiver> {
  const wanted = new Webhook(SECRET);
  const messages: UsageReceiver["messages"] = [];
  const server = createServer((request: IncomingMessage, response: ServerResponse) => {
    let body = "";
    request.setEncoding("utf8").on("data", (piece) => {
      body += piece;
    });
    request.on("end", () => {
      receiver.tries += 1;
      const headers = request.headers as Record<string, string>;
      assert.equal(headers["content-type"], "application/cloudevents-batch+json");
      // `verify` takes only what was signed just now, and some senders have a clock of a test.
      const { "webhook-id": id = "", "webhook-timestamp": seconds } = headers;
      const signature = wanted.sign(id, new Date(Number(seconds) * 1000), body);
      assert.equal(headers["webhook-signature"], signature);
      const events = JSON.parse(body) as UsageEvent[];
      checkCloudEvents(events);
      const { verdict } = receiver;
      const fate = typeof verdict === "function" ? verdict(events) : verdict;
      if (fate === "dies" || fate < 300) messages.push({ id, signedS: Number(seconds), events });
      if (fate === "dies") request.socket.destroy();
      else response.writeHead(fate).end();
    });
  });
  await new Promise<void>((resolve) => server.listen(port, "127.0.0.1", () => resolve()));
  const counted = () => {
    const byId = new Map<string, UsageEvent>();
    for (const event of each(receiver.all())) {
      const known = byId.get(event.id);
      if (known !== undefined) assert.deepEqual(event, known, "the same id for another event");
      byId.set(event.id, event);
    }
    return byId;
  };
  const receiver: UsageReceiver = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/usage`,
    messages,
    tries: 0,
    verdict: 204,
    all: () => messages.flatMap(({ events }) => events),
    counted,
    units: () => {
      const sums: Record<string, number> = {};
      for (const { data } of counted().values()) {
        sums[data.account] = (sums[data.account] ?? 0) + data.units;
      }
      return sums;
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
  return receiver;
}

/** CloudEvents 1.0: the required attributes, and the formats of the optional ones. */
function checkCloudEvents(events: readonly UsageEvent[]): void {
  assert.ok(Array.isArray(events) && events.length >= 1 && events.length <= 100);
  for (const event of events as readonly (UsageEvent & Record<string, unknown>)[]) {
    assert.equal(event.specversion, "1.0");
    assert.equal(event.type, "tollgate.usage");
    assert.equal(event.datacontenttype, "application/json");
    for (const text of [event.id, event.source, event.subject]) assert.match(text, /./);
    for (const name of Object.keys(event)) assert.match(name, /^[a-z0-9]{1,20}$/);
    assert.equal(new Date(event.time).toISOString().slice(0, 10), event.data.day);
  }
}
