import assert from "node:assert/strict";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, it } from "vitest";
import { DEPRECATED_API as API } from "../../support/gateway/deprecated-api.ts";
import { startTestGateway, type TestGateway } from "../../support/gateway/house.ts";
import { eventually } from "../../support/poll.ts";
import { cells, focused, openTab } from "./browser.ts";

let house: TestGateway;
beforeAll(async () => {
  house = await startTestGateway();
});
afterAll(async () => {
  await house[Symbol.asyncDispose]();
});

const AWAY = { status: 503, json: { code: "store_unavailable", message: "The store is away" } };

async function openView(section: string): Promise<Page> {
  const { page } = await openTab("about:blank");
  await page.goto(`${house.adminUrl}/#/${section}`);
  return page;
}

/** Where something has failed for a moment, a button asks again; then all is as before. */
async function failsAndRecovers(page: Page, path: string, label: string): Promise<void> {
  await page.route(path, (route) => route.fulfill(AWAY));
  await page.getByRole("button", { name: "Refresh" }).click();
  await page.getByRole("alert").getByText("The store is away").waitFor();
  await page.unroute(path);
  await page.getByRole("button", { name: "Try again" }).click();
  await page.getByRole("region", { name: label, exact: true }).waitFor();
}

describe("what could not be read for a moment", () => {
  it("is read again by its button: the plans, and a list with the same entries as before", async () => {
    const { account } = await house.issue();
    const body = JSON.stringify({ id: account, for: "1h" });
    assert.equal((await house.admin("/api/bans", { method: "POST", body })).status, 201);
    const { page } = await openTab("about:blank");
    // A ban that is told has the list read again by itself, and the button goes.
    await page.route("**/api/events", () => {});
    await page.route("**/api/plans", (route) => route.fulfill(AWAY));
    await page.goto(`${house.adminUrl}/#/plans`);
    await page.getByRole("alert").getByText("The store is away").waitFor();
    await page.unroute("**/api/plans");
    await page.getByRole("button", { name: "Try again" }).click();
    await page.getByRole("region", { name: "Plans", exact: true }).waitFor();
    await page.route("**/api/config", (route) => route.fulfill(AWAY));
    await page.getByRole("link", { name: "Deprecations" }).click();
    await page.getByRole("alert").getByText("The store is away").waitFor();
    await page.unroute("**/api/config");
    await page.getByRole("button", { name: "Try again" }).click();
    await page.getByRole("region", { name: "Deprecated operations", exact: true }).waitFor();
    await page.getByRole("link", { name: "Bans" }).click();
    await page.getByRole("region", { name: "Bans", exact: true }).waitFor();
    await failsAndRecovers(page, "**/api/bans?*", "Bans");
  });

  it("comes back by itself where it is asked for now and then, though it is as before", async () => {
    const { account } = await house.issue();
    const day = { day: "2026-11-21", units: 5, admitted: 4, refused: 1, plan: "free" };
    const rows = [
      { ...day, meters: { tokens: 7 } },
      { ...day, day: "2026-11-22", units: 20 },
    ];
    const { page } = await openTab("about:blank");
    await page.clock.install();
    let isAway = false;
    await page.route("**/api/history?*", (route) => {
      return route.fulfill(isAway ? AWAY : { json: rows });
    });
    await page.goto(`${house.adminUrl}/#/accounts/${account}`);
    const table = page.getByRole("region", { name: "Usage by day", exact: true });
    await table.waitFor();
    assert.deepEqual(await cells(page, "Usage by day"), [
      ["2026-11-22", "20", "", "4", "1", "0", "free"],
      ["2026-11-21", "5", "", "4", "1", "7", "free"],
    ]);
    const bars = await table.locator("meter").evaluateAll((all) => {
      return all.map((bar) => [bar.getAttribute("value"), bar.getAttribute("max")]);
    });
    assert.deepEqual(bars, [
      ["20", "20"],
      ["5", "20"],
    ]);
    isAway = true;
    await page.clock.runFor(10_000);
    await page.getByRole("alert").getByText("The store is away").waitFor();
    isAway = false;
    await page.clock.runFor(10_000);
    await table.waitFor();
  });

  it("is told once above the account, which stays with its usage and the keyboard, until it can be read", async () => {
    const { account } = await house.issue();
    const { page } = await openTab("about:blank");
    await page.clock.install();
    await page.goto(`${house.adminUrl}/#/accounts/${account}`);
    const keys = page.getByRole("region", { name: "Keys", exact: true });
    await keys.waitFor();
    await page.locator("[data-window=minute]").waitFor();
    await page.getByText(/^Usage by day is not counted|^Nothing was used/).waitFor();
    await page.getByRole("button", { name: "Ban", exact: true }).focus();
    await page.evaluate(`globalThis.told = [];
      new MutationObserver((changes) => {
        const added = changes.flatMap((change) => [...change.addedNodes]);
        const alerts = added.filter((node) => node.matches?.("[role=alert]"));
        told.push(...alerts.map((one) => one.querySelector("p").textContent));
      }).observe(document.getElementById("main"), { childList: true, subtree: true });`);
    const path = `**/api/*/${account}`;
    const proxied = `**/api/accounts/${account}`;
    for (const [route, message, act] of [
      [path, "The gateway does not answer: is it running?", "abort"],
      [proxied, "The gateway answered 502", "fulfill"],
    ] as const) {
      await page.route(route, (one) => {
        return act === "abort" ? one.abort() : one.fulfill({ status: 502, body: "<html>Bad" });
      });
      await page.evaluate("told = []");
      await page.clock.runFor(10_000);
      await page.getByRole("alert").getByText(message, { exact: true }).waitFor();
      // Requests get their answers between two steps, as they do in seconds that pass.
      for (let i = 0; i < 6; i++) {
        await page.clock.runFor(2_000);
        await page.evaluate("fetch('/livez').then((response) => response.text())");
      }
      assert.deepEqual(await page.evaluate("told"), [message]);
      assert.equal(await keys.count(), 1);
      assert.equal(await page.locator("[data-window=minute]").count(), 1);
      assert.equal(await focused(page), "Ban");
      await page.unroute(route);
      await page.clock.runFor(10_000);
      await page.getByRole("alert").waitFor({ state: "detached" });
      assert.equal(await focused(page), "Ban");
    }
  });

  it("is the account by its button, also where its first read failed, and nothing of it is left once it is gone", async () => {
    const { account } = await house.issue();
    const { page } = await openTab("about:blank");
    // The page reads again by itself too, and then has no button any more.
    await page.clock.pauseAt(Date.now());
    const path = `**/api/accounts/${account}`;
    await page.route(path, (route) => route.fulfill(AWAY));
    await page.goto(`${house.adminUrl}/#/accounts/${account}`);
    await page.getByRole("alert").getByText("The store is away").waitFor();
    assert.equal(await page.getByText("Loading…").count(), 0);
    await page.unroute(path);
    await page.getByRole("button", { name: "Try again" }).click();
    const keys = page.getByRole("region", { name: "Keys", exact: true });
    await keys.waitFor();
    await page.getByRole("heading", { level: 1, name: account }).waitFor();
    await page.route(path, (route) => route.fulfill({ status: 404, json: {} }));
    await page.clock.runFor(10_000);
    await page.getByText("There is no such account.").waitFor();
    assert.deepEqual([await keys.count(), await page.getByRole("alert").count()], [0, 0]);
  });

  it("is no failure where there is no history of an account: the page says what the gateway says", async () => {
    const { account } = await house.issue();
    const { page } = await openTab("about:blank");
    const json = { code: "unknown_id", message: "No key of this account is left" };
    await page.route("**/api/history?*", (route) => route.fulfill({ status: 404, json }));
    await page.goto(`${house.adminUrl}/#/accounts/${account}`);
    await page.getByText(json.message).waitFor();
    assert.equal(await page.getByRole("alert").count(), 0);
  });

  it("leaves the answer to a later search as it is", async () => {
    const page = await openView("accounts");
    await page.getByRole("region", { name: "Accounts", exact: true }).waitFor();
    const held = Promise.withResolvers<() => Promise<void>>();
    await page.route("**/api/accounts?*q=early*", (route) => {
      held.resolve(() => route.fulfill(AWAY));
    });
    await page.getByLabel("Search").fill("early");
    const fail = await held.promise;
    await page.getByLabel("Search").fill("nobody");
    await page.getByText("Nothing fits this search.").waitFor();
    const answered = page.waitForResponse(/q=early/);
    await fail();
    await (await answered).finished();
    await page.evaluate("fetch('/livez').then((response) => response.text())");
    assert.equal(await page.getByRole("alert").count(), 0);
  });
});

/** Runs in the page: two requests to explain, of which the first is answered last. */
const EXPLAINED = `(async () => {
  const { explainView } = await import("/page/views/explain.js");
  const open = new Map();
  const get = (path) => new Promise((resolve, reject) => open.set(path, { resolve, reject }));
  const { element } = explainView({ api: { get }, id: "a" });
  document.getElementById("main").replaceChildren(element);
  element.querySelector("input").value = "b";
  element.querySelector("form").requestSubmit();
  open.get("/api/explain/b").reject(new Error("nothing of b"));
  await new Promise((resolve) => setTimeout(resolve));
  open.get("/api/explain/a").resolve({ rule: "of a", passesAt: null, windows: [] });
  await new Promise((resolve) => setTimeout(resolve));
  return ["status", "alert"].map((role) => element.querySelector("[role=" + role + "]").textContent);
})()`;

describe("an explanation", () => {
  it("is that of the request that was asked for last, whichever answer comes first", async () => {
    const page = await openView("explain");
    assert.deepEqual(await page.evaluate(EXPLAINED), ["", "nothing of b"]);
  });
});

/** Runs in the page: the colour of an event of each kind, and how its account keeps the keyboard. */
const COLOURED = `(async () => {
  const { eventsView } = await import("/page/views/events.js");
  const kinds = ["ban", "key_elsewhere", "upstream_down", "store_away", "config_refused", "keys_lost",
    "keys_unreadable", "keys_older", "state_file_unwritten", "ban_lifted", "upstream_up", "store_back",
    "config_reloaded", "sunset"];
  const events = kinds.map((kind, number) => ({ kind, number, time: 0, window: "day", account: "a" }));
  const { element } = eventsView({ live: { events, figures: {}, onChange: () => {} } });
  const told = { bad: [], good: [], plain: [] };
  for (const badge of element.querySelectorAll("td .badge")) told[badge.classList[1]].push(badge.textContent);
  const links = new Set([...element.querySelectorAll("td a")].map((one) => one.dataset.focus));
  return [told.bad.length, told.good, told.plain, links.size];
})()`;

describe("events", () => {
  it("are marked by what they mean, and each has a link of its own to its account", async () => {
    const page = await openView("explain");
    const good = ["ban lifted", "upstream up", "store back", "config reloaded"];
    assert.deepEqual(await page.evaluate(COLOURED), [9, good, ["sunset"], 14]);
  });
});

describe("the search for accounts", () => {
  it("is sent once for what is typed without a pause, and tells how many of all it has found", async () => {
    await using own = await startTestGateway();
    const { page } = await openTab("about:blank");
    await page.clock.install();
    await page.goto(`${own.adminUrl}/#/accounts`);
    await page.getByText("No account yet: create a key, and it gets one.").waitFor();
    for (const account of ["first-shop", "second-shop", "zoo"]) await own.issue({ account });
    await own.issue({ account: "zoo", plan: undefined, environment: undefined, name: "gate" });
    await own.issue({ account: "zoo", plan: undefined, environment: undefined, name: "till" });
    await own.admin("/api/accounts/zoo/suspend", { method: "POST", body: "{}" });
    await page.reload();
    await page.getByText("3 accounts", { exact: true }).waitFor();
    const [[zoo] = []] = await cells(page, "Accounts");
    assert.equal(zoo?.replaceAll(/\s+/g, " "), "zoo suspended gate, till");
    await page.locator("td .badge.bad").getByText("suspended", { exact: true }).waitFor();
    assert.equal(await page.getByLabel("Search").getAttribute("maxlength"), "200");
    const asked: string[] = [];
    page.on("request", (request) => asked.push(request.url()));
    const searches = () => asked.filter((url) => url.includes("q="));
    // A machine that is busy between two letters makes no pause.
    await page.clock.pauseAt(Date.now() + 60_000);
    await page.getByLabel("Search").pressSequentially(" -shop ");
    await page.clock.runFor(199);
    assert.deepEqual(searches(), []);
    await page.clock.runFor(1);
    const found = page.locator("#main").getByRole("status");
    await found.getByText("2 of 3 accounts", { exact: true }).waitFor();
    assert.deepEqual(
      searches().map((url) => new URL(url).searchParams.get("q")),
      ["-shop"],
    );
    await page.getByLabel("Search").fill("first-shop");
    await page.clock.runFor(1_000);
    await page.getByText("1 of 3 accounts", { exact: true }).waitFor();
    // It is in the address: the way back from an account, and a bookmark, lead to what was found.
    await page.getByRole("link", { name: "first-shop" }).click();
    await page.getByRole("heading", { level: 1, name: "first-shop" }).waitFor();
    await page.goBack();
    await page.getByText("1 account found", { exact: true }).waitFor();
    assert.equal(await page.getByLabel("Search").inputValue(), "first-shop");
    await page.getByLabel("Search").fill("");
    await page.clock.runFor(1_000);
    await page.getByText("3 accounts", { exact: true }).waitFor();
    assert.equal(await page.evaluate("location.hash"), "#/accounts");
  });
});

describe("a whole key in the search", () => {
  const FOREIGN = "sk_old_0123456789abcdefABCDEF-_";

  it("opens its account, or says that there is none, and is in no URL, not even its start", async () => {
    const foreignKeys = [{ prefix: "sk_old_", min: 24 }];
    await using own = await startTestGateway({ config: { foreignKeys } });
    const { account, key } = await own.issue();
    const { page } = await openTab("about:blank");
    const urls: string[] = [];
    page.on("request", (request) => urls.push(request.url()));
    const config = page.waitForResponse("**/api/config");
    await page.goto(`${own.adminUrl}/#/accounts`);
    await (await config).finished();
    await page.getByText("1 account", { exact: true }).waitFor();
    for (const none of [key.slice(0, -1), `${key}x`, FOREIGN]) {
      const answer = page.waitForResponse("**/api/keys/find");
      await page.getByLabel("Search").fill(none);
      assert.equal((await answer).status(), 404);
      await page.getByText("No account has this key: is it whole, and of this gateway?").waitFor();
      await page.getByLabel("Search").fill("sk_old_short");
      await page.getByText("0 of 1 account", { exact: true }).waitFor();
    }
    await page.getByLabel("Search").fill(` ${key} `);
    await page.getByRole("heading", { level: 1, name: account }).waitFor();
    const starts = [key.slice(-36, -30), FOREIGN.slice("sk_old_".length, -14)];
    const told = urls.filter((url) => starts.some((start) => url.includes(start)));
    assert.deepEqual(told, []);
    assert.ok(urls.some((url) => url.includes("q=sk_old_short")));
  });
});

describe("the accounts nearest to a limit", () => {
  it("are read by a click alone where there are more than 2,000, and are those that have used something", async () => {
    await house.issue();
    for (const [accounts, isAsked] of [
      [2_000, false],
      [2_001, true],
    ] as const) {
      const { page } = await openTab("about:blank");
      let reads = 0;
      page.on("request", (request) => {
        if (request.url().includes("/api/usage?")) reads += 1;
      });
      const plan = { plan: "free", accounts, environments: { production: accounts } };
      await page.route("**/api/plans", (route) => route.fulfill({ json: [plan] }));
      await page.goto(`${house.adminUrl}/#/plans`);
      const button = page.getByRole("button", { name: "Look at all 2,001 accounts" });
      if (isAsked) {
        await button.waitFor();
        assert.equal(reads, 0);
        await button.click();
      }
      await page.getByText("No account has used anything in a running window.").waitFor();
    }
  });
});

describe("a deprecated operation", () => {
  it("is that of its environment or service, with its own requests, and may have no date", async () => {
    const dateless = API.replace('      x-sunset: "2126-01-01"\n', "");
    const successor = '      x-successor: "https://example.org/new"\n';
    const shop = API.replaceAll(/^ {2}(?=\/)/gm, "  /shop").replace(/(?=^ +x-sunset)/m, successor);
    const staging = {
      ...{ listen: "127.0.0.1:0", keyTag: "test", api: "./dateless.yaml" },
      upstreams: ["http://127.0.0.1:9"],
    };
    const backends = [{ path: "/v1/shop", api: "./shop.yaml", upstreams: ["http://127.0.0.1:9"] }];
    const production = {
      ...{ listen: "127.0.0.1:0", keyTag: "live", api: "./api.yaml", basePath: "/v1", backends },
      upstreams: [house.backend.origin],
    };
    await using own = await startTestGateway({
      config: { environments: { production, staging: { ...staging, basePath: "/v1" } } },
      files: { "api.yaml": API, "dateless.yaml": dateless, "shop.yaml": shop },
    });
    const { key } = await own.issue();
    for (let i = 0; i < 3; i++) await (await own.ask(key, "/v1/old")).text();
    const { page } = await openTab(`${own.adminUrl}/#/deprecations`);
    const soon = "N days left, 2126-01-01 00:00:00 UTC";
    await eventually(async () => {
      const rows = await cells(page, "Deprecated operations");
      const old = rows.filter(([operation]) => operation?.endsWith("/old"));
      assert.deepEqual(
        old.map(([operation, environment, sunset, ...others]) => {
          return [operation, environment, sunset?.replace(/^[\d,]+/, "N"), ...others];
        }),
        [
          ["GET /v1/old", "production", soon, "3", "–"],
          ["GET /v1/shop/old", "production", soon, "0", "https://example.org/new"],
          ["GET /v1/old", "staging", "no date", "0", "–"],
        ],
      );
    });
  });
});
