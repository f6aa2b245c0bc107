import assert from "node:assert/strict";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, it } from "vitest";
import { startTestGateway, type TestGateway } from "../../support/gateway/house.ts";
import { eventually } from "../../support/poll.ts";
import { openTab } from "./browser.ts";
import { firstMessages } from "./live-stream.ts";

let house: TestGateway;
beforeAll(async () => {
  house = await startTestGateway();
});
afterAll(async () => {
  await house[Symbol.asyncDispose]();
});

/** Counts what listens to the window and its colour scheme, and what watches sizes. */
const COUNT = `globalThis.held = 0;
const counts = (prototype, name, by, is = () => true) => {
  const real = prototype[name];
  prototype[name] = function (...given) {
    if (is(this)) held += by;
    return real.apply(this, given);
  };
};
const isGlobal = (target) => target === window || target instanceof MediaQueryList;
counts(EventTarget.prototype, "addEventListener", 1, isGlobal);
counts(EventTarget.prototype, "removeEventListener", -1, isGlobal);
counts(ResizeObserver.prototype, "observe", 1);
counts(ResizeObserver.prototype, "disconnect", -1);`;

/** A gateway whose stream ends after each message: its routes, bans and configuration are others then. */
async function restlessPage(): Promise<{ readonly page: Page; readonly streams: () => number }> {
  const { hello, figures } = await firstMessages(house);
  const { page } = await openTab("about:blank");
  let streams = 0;
  await page.route("**/api/events", (route) => {
    streams += 1;
    const bans = { imposed: streams, inForce: 1, edition: streams };
    const config = { hash: `${streams}`.repeat(8), configuredMs: figures.atMs + streams };
    const told = { ...figures, bans, config, upstreams: [] };
    const messages = Object.entries({ hello, figures: told }).map(([event, data]) => {
      return `event: ${event}\ndata: ${JSON.stringify(data)}\n\n`;
    });
    return route.fulfill({ contentType: "text/event-stream", body: messages.join("") });
  });
  return { page, streams: () => streams };
}

/** Each view with stand-ins for the API and the figures: what still listens or asks once it was closed. */
const CLOSED = `(async () => {
  const names = ["account", "accounts", "backends", "bans", "configuration", "deprecations",
    "events", "explain", "gateways", "overview", "plans"];
  const left = {};
  for (const name of names) {
    let listeners = 0;
    let asked = 0;
    const listen = () => {
      listeners += 1;
      return () => { listeners -= 1; };
    };
    const live = { state: "connecting", samples: [], events: [], onChange: listen, onRoutes: listen };
    const never = () => {
      asked += 1;
      return new Promise(() => {});
    };
    const { [name + "View"]: view } = await import("/page/views/" + name + ".js");
    const { element, close } = view({ live, id: "a", api: { get: never, page: never, has: () => true } });
    element.querySelector("#search")?.dispatchEvent(new Event("input"));
    const [open, before] = [listeners, asked];
    close?.();
    await new Promise((resolve) => setTimeout(resolve, name === "accounts" ? 300 : 0));
    left[name] = [open > 0, listeners, asked - before];
  }
  return left;
})()`;

describe("a view that was left", () => {
  it("listens to no figures any more, and asks for nothing that was typed into it", async () => {
    const { page } = await openTab(`${house.adminUrl}/`);
    const left = await page.evaluate<Record<string, [boolean, number, number]>>(CLOSED);
    const { explain, ...live } = left;
    assert.deepEqual(explain, [false, 0, 0]);
    for (const [name, told] of Object.entries(live)) assert.deepEqual(told, [true, 0, 0], name);
    assert.equal(Object.keys(live).length, 10);
  });

  it("asks for nothing any more, whatever changes at the gateway", {
    timeout: 60_000,
  }, async () => {
    const { account } = await house.issue();
    const { page, streams } = await restlessPage();
    await page.goto(`${house.adminUrl}/#/`);
    await page.locator("[data-tile=requests]").waitFor();
    const tiles = await page.locator(".tiles").elementHandle();
    await page.evaluate(`location.hash = "#/bans"`);
    await page.getByRole("heading", { level: 1, name: "Bans" }).waitFor();
    await tiles?.evaluate((one) => one.replaceChildren());
    for (const section of [`accounts/${account}`, "plans", "deprecations", "configuration"]) {
      const before = streams();
      // Each has been told of a change, and has one of which it knows nothing yet.
      await eventually(() => assert.ok(streams() > before));
      await page.evaluate(`location.hash = "#/${section}"`);
      await page.locator("#main h1, #main .failure").first().waitFor();
    }
    await page.evaluate(`location.hash = "#/backends"`);
    await page.getByText("There is no backend.").waitFor();
    assert.equal(await tiles?.evaluate((one) => one.childElementCount), 0);
    const asked: string[] = [];
    page.on("request", (request) => asked.push(new URL(request.url()).pathname));
    const before = streams();
    await eventually(() => assert.ok(streams() > before + 3));
    assert.deepEqual([...new Set(asked)], ["/api/events"]);
  });

  it("holds nothing of the browser any more: its plots listen to no window", async () => {
    const { page } = await openTab("about:blank");
    await page.addInitScript(COUNT);
    await page.goto(`${house.adminUrl}/#/backends`);
    const held: number[] = [];
    for (let i = 0; i < 3; i++) {
      await page.getByRole("link", { name: "Overview" }).click();
      await eventually(async () => assert.equal(await page.locator(".u-over").count(), 4));
      // Each plot is made again in the colours of the other scheme.
      await page.emulateMedia({ colorScheme: i % 2 === 0 ? "dark" : "light" });
      held.push(await page.evaluate<number>("held"));
      await page.getByRole("link", { name: "Backends" }).click();
      await page.getByRole("region", { name: "Backends", exact: true }).waitFor();
      held.push(await page.evaluate<number>("held"));
    }
    const [open = 0, left = 0] = held.slice(2);
    assert.deepEqual(held.slice(2), [open, left, open, left]);
    assert.ok(open > left, `${held}`);
  });
});
