import assert from "node:assert/strict";
import { it } from "vitest";
import { DAY_MS } from "../../src/core/quota/days.ts";
import { startTestGateway } from "../support/gateway/house.ts";
import { KEY } from "../support/gateway/served.ts";
import { eventually } from "../support/poll.ts";
import { startUsageReceiver } from "../support/usage-receiver.ts";
import { SECRET } from "../support/webhook-receiver.ts";

/** The kinds of the events that the admin page shows, once a reload is one of them. */
async function shownKinds(adminUrl: string): Promise<string[]> {
  const { body } = await fetch(`${adminUrl}/api/events`);
  const decoder = new TextDecoder();
  let text = "";
  for await (const piece of body as unknown as AsyncIterable<Uint8Array>) {
    text += decoder.decode(piece, { stream: true });
    if (text.includes("config_reloaded")) break;
  }
  return [...text.matchAll(/"kind":"(\w+)"/g)].map(([, kind]) => String(kind));
}

it("a day that was acknowledged is in the log, and neither among the last events nor sent as one", async () => {
  await using receiver = await startUsageReceiver();
  let nowMs = Date.UTC(2026, 9, 14, 12);
  const events = { url: receiver.url, secret: SECRET, kinds: ["usage"] };
  const config = { history: "400d", events };
  await using house = await startTestGateway({ now: () => nowMs, config, keys: { [KEY]: {} } });
  assert.equal((await house.ask(KEY)).status, 200);
  nowMs += DAY_MS;
  const { time: _, ...told } = await eventually(() => {
    return house.said.find(({ kind }) => kind === "usage") ?? assert.fail();
  });
  const [{ account, plan } = assert.fail()] = house.lines;
  assert.deepEqual(told, {
    ...{ level: "info", msg: "event", kind: "usage", env: "production", account, plan },
    ...{ day: "2026-10-14", admitted: 1, units: 1, refused: 0 },
  });
  const reloaded = await house.gateway.reload();
  assert.ok(reloaded.ok, JSON.stringify(reloaded));
  const kinds = await shownKinds(house.adminUrl);
  assert.ok(!kinds.includes("usage"), `people are shown ${kinds}`);
  assert.equal(receiver.tries, 1);
});
