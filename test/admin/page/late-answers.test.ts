import assert from "node:assert/strict";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, it } from "vitest";
import { startTestGateway, type TestGateway } from "../../support/gateway/house.ts";
import { sharedBrowser } from "./browser.ts";

let house: TestGateway;
let page: Page;
beforeAll(async () => {
  house = await startTestGateway();
  page = await (await sharedBrowser()).newPage();
  await page.goto(`${house.adminUrl}/#/backends`);
});
afterAll(async () => {
  await page.close();
  await house[Symbol.asyncDispose]();
});

/** Runs in the page before each script: requests that the script answers, and stand-ins of a view. */
const BY_HAND = `
  const moment = () => new Promise((resolve) => setTimeout(resolve));
  const asked = [];
  const hold = (path) => new Promise((resolve, reject) => asked.push({ path, resolve, reject }));
  const answer = async (path, value, nth = 0) => {
    const open = asked.filter((one) => one.path === path && !one.done)[nth];
    open.done = true;
    if (value instanceof Error) open.reject(value);
    else open.resolve(value);
    await moment();
  };
  const paths = () => asked.map(({ path }) => path);
  const mount = ({ element }) => document.getElementById("main").replaceChildren(element);
  const live = { listeners: {} };
  const listen = (kind) => (listener) => ((live.listeners[kind] = listener), () => {});
  Object.assign(live, { onChange: listen("figures"), onRoutes: listen("routes") });
`;

function runs<T>(script: string): Promise<T> {
  return page.evaluate<T>(`(async () => {history.replaceState(null, "");${BY_HAND}${script}})()`);
}

/** A list of one entry a page. What the last answers to its first two paths were is known to each act. */
const LIST = `
  const { pagedList } = await import("/page/parts/lists.js");
  let told = "";
  const draw = (items) => document.createTextNode(items.join() + told);
  const list = pagedList({ api: { page: hold }, path: "/a", draw, rows: 1 });
  mount(list);
  const one = (item, next, total = 3) => ({ items: [item], total, missing: null, next });
  const press = (step) => list.element.querySelector("." + step).click();
  const state = () => [list.element.textContent, list.element.querySelector(".next")?.disabled];
`;

describe("a list", () => {
  it("is turned by one page however often its button is pressed before the answer", async () => {
    const turned = await runs(`${LIST}
      await answer("/a?limit=1", one("x", "/a?1"));
      press("next");
      press("next");
      await answer("/a?1", one("y", "/a?2"), 1);
      press("previous");
      press("previous");
      return paths();
    `);
    assert.deepEqual(turned, ["/a?limit=1", "/a?1", "/a?1", "/a?limit=1", "/a?limit=1"]);
  });

  it("of another search is turned by its own way and has its own words, though it has the same entries", async () => {
    const searched = await runs(`${LIST}
      await answer("/a?limit=1", one("x", "/a?1"));
      void list.show("/b");
      told = " of b";
      await answer("/b?limit=1", one("x", "/b?1"));
      press("next");
      return [list.element.firstChild.textContent, paths().at(-1)];
    `);
    assert.deepEqual(searched, ["x of b", "/b?1"]);
  });

  it("has a next page if its last answer says so, however many entries came and went before this page", async () => {
    const known = await runs(`${LIST}
      await answer("/a?limit=1", one("x", "/a?1"));
      press("next");
      await answer("/a?1", one("y", undefined, 5));
      const more = state();
      void list.reload();
      await answer("/a?1", one("y", "/a?2", 2));
      const fewer = state();
      void list.reload();
      await answer("/a?1", one("y", undefined, 2));
      return [more, fewer, state()];
    `);
    assert.deepEqual(known, [
      ["yPreviousabout 2 to 2 of 5Next", true],
      ["yPreviousabout 2 to 2 of 2Next", false],
      ["yPreviousabout 2 to 2 of 2Next", true],
    ]);
  });

  it("that is read again leaves the keyboard at the button that turns it", async () => {
    const at = await runs(`${LIST}
      await answer("/a?limit=1", one("x", "/a?1"));
      list.element.querySelector(".next").focus();
      void list.reload();
      await answer("/a?limit=1", one("z", "/a?1"));
      return document.activeElement.textContent;
    `);
    assert.equal(at, "Next");
  });
});

const DIALOGS = `
  const { createKey } = await import("/page/views/issue.js");
  const send = async (method, path) => ({ value: await hold(method + " " + path), missing: null });
  const api = { get: hold, send };
  const config = { environments: { e: {} }, plans: { free: {} } };
  const titles = () => [...document.querySelectorAll("dialog h2")].map((one) => one.textContent);
  const press = async (text) => {
    [...document.querySelectorAll("dialog button")].find((one) => one.textContent === text).click();
    await moment();
    while (document.querySelector("dialog:not([open])") !== null) await moment();
  };
`;

describe("a dialog", () => {
  it("that was left while it was sent still shows the key that was made, or tells why there is none", async () => {
    const left = await runs(`${DIALOGS}
      const ends = [];
      for (const result of [{ id: "k_1", key: "secret", account: "a" }, new Error("not so")]) {
        const done = createKey(api);
        await answer("/api/config", config);
        await press("Create");
        await press("Cancel");
        await answer("POST /api/keys", result);
        const notes = [...document.querySelectorAll(".note")].map((one) => one.textContent);
        ends.push([titles(), document.querySelector("dialog input")?.value, notes]);
        if (titles().length > 0) await press("I have stored it");
        ends.push((await done)?.value.id);
      }
      void createKey(api);
      await answer("/api/config", config).then(() => press("Create"));
      await answer("POST /api/keys", new Error("told in the dialog")).then(() => press("Cancel"));
      return [...ends, document.querySelectorAll(".note").length];
    `);
    const failed = [[], undefined, ["Create a key: not so"]];
    assert.deepEqual(left, [[["The new key"], "secret", []], "k_1", failed, undefined, 1]);
  });

  it("opens once, that which was asked for last, also while a search is typed, and not over the view after it", async () => {
    const opened = await runs(`${DIALOGS}
      void createKey(api);
      void createKey(api, "b"); history.replaceState(null, "", location.hash + "?q=typed");
      await answer("/api/config", config, 1);
      await answer("/api/config", config);
      const both = titles();
      await press("Cancel");
      void createKey(api);
      void createKey(api, "b");
      await answer("/api/config", new Error("no"));
      await answer("/api/config", config);
      const afterError = titles();
      await press("Cancel");
      void createKey(api);
      location.hash = "#/plans";
      await answer("/api/config", config);
      return { both, afterError, elsewhere: titles() };
    `);
    const one = ["Add a key for b"];
    assert.deepEqual(opened, { both: one, afterError: one, elsewhere: [] });
  });
});

/** The view of an account: the values of each of its requests in turn, and what is shown of them. */
const ACCOUNT = `
  const { accountView } = await import("/page/views/account.js");
  const view = accountView({ api: { get: hold, page: hold, has: () => true }, live, id: "a" });
  mount(view);
  const dates = { anchor: 1, anchorFrom: null, state: "active", suspended: null };
  const account = { account: "a", environment: "e", limits: {}, meta: {}, ...dates };
  const day = { day: "2026-11-01", units: 0, admitted: 0, refused: 0 };
  const values = {
    "/api/accounts/a": (plan) => ({ ...account, plan }),
    "/api/usage/a": (plan) => ({ windows: [{ window: plan, reset: 0 }], strikes: 0, ban: null }),
    "/api/history?account=a": (plan) => ({ items: [{ ...day, plan }], missing: null }),
    "/api/bans/a": (reason) => ({ bans: [{ at: 1, until: 2, imposed: true, reason }], ban: null }),
    "/api/keys?account=a&order=newest&limit=50": () => ({ items: [], total: 0, missing: null }),
  };
  const all = async (word, under = Object.keys(values)) => {
    const open = () => asked.find(({ path, done }) => !done && under.includes(path));
    while (open() !== undefined) await answer(open().path, values[open().path](word));
  };
  const shown = () => view.element.textContent.match(/first|old|new|away/g);
`;

describe("an account", () => {
  it("shows the answers to its last requests, though those to earlier ones come later", async () => {
    const told = await runs<Record<string, string[]>>(`${ACCOUNT}
      await all("first");
      const told = {};
      for (const [i, path] of Object.keys(values).slice(0, 4).entries()) {
        live.listeners.routes();
        live.listeners.routes();
        await all("new", Object.keys(values).slice(0, i));
        await answer(path, values[path]("new"), 1);
        await answer(path, i % 2 === 0 ? values[path]("old") : new Error("away"));
        told[path] = shown();
        await all("new");
      }
      view.close();
      return told;
    `);
    // The account, its windows, its days and its bans.
    assert.deepEqual(told, {
      "/api/accounts/a": ["new", "first", "first", "first"],
      "/api/usage/a": Array(4).fill("new"),
      "/api/history?account=a": Array(4).fill("new"),
      "/api/bans/a": Array(4).fill("new"),
    });
  });

  it("tells once what cannot be read, for as long as it is the same", async () => {
    const told = await runs(`${ACCOUNT}
      await all("first");
      const failing = Object.keys(values).slice(1, 4);
      const alerts = [];
      for (const why of ["away", "away", "gone"]) {
        live.listeners.routes();
        await all("first", ["/api/accounts/a"]);
        for (const path of failing) await answer(path, new Error(why));
        alerts.push([...view.element.querySelectorAll(".failure")]);
      }
      await all("first");
      view.close();
      const [first, second, third] = alerts;
      return [first.length, first.map((one, i) => one === second[i]), third.map((one) => one.textContent)];
    `);
    assert.deepEqual(told, [3, Array(3).fill(true), Array(3).fill("gone")]);
  });

  it("is shown though its bans cannot be read, which come back as they were", async () => {
    const told = await runs(`${ACCOUNT}
      await all("first");
      const path = "/api/bans/a";
      live.listeners.routes();
      await all("first", Object.keys(values).slice(0, 3));
      await answer(path, new Error("away"));
      const away = [...shown(), view.element.querySelectorAll("h2").length];
      live.listeners.routes();
      await all("first");
      view.close();
      return [away, shown()];
    `);
    assert.deepEqual(told, [
      ["first", "first", "away", "first", 4],
      ["first", "first", "first", "first"],
    ]);
  });
});

const VIEWS = `
  const viewOf = async (name, more = {}) => {
    const { [name + "View"]: view } = await import("/page/views/" + name + ".js");
    const made = view({ api: { get: hold, page: hold, has: () => true }, live: { ...live, ...more } });
    mount(made);
    return made;
  };
  const text = () => document.getElementById("main").textContent;
`;

describe("a view of the configuration", () => {
  it("has the accounts nearest to a limit of its last request", async () => {
    const told = await runs(`${VIEWS}
      await viewOf("plans");
      live.listeners.routes();
      const path = "/api/usage?top=10";
      for (const one of ["/api/config", "/api/plans"]) {
        for (let i = 0; i < 2; i++) await answer(one, one === "/api/plans" ? [] : { environments: {}, plans: {} });
      }
      const windows = [{ window: "day", used: 1, limit: 2 }];
      const use = (account) => ({ items: [{ account, plan: "p", windows }], missing: null });
      await answer(path, use("latest"), 1);
      await answer(path, use("earlier"));
      return text().match(/latest|earlier/g);
    `);
    assert.deepEqual(told, ["latest"]);
  });

  it("shows the answer to its last request, though one to an earlier request comes later", async () => {
    const told = await runs(`${VIEWS}
      const told = [];
      const operation = (template) => {
        return { environments: { e: { operations: [{ template, lifecycle: { deprecated: true } }] } } };
      };
      for (const [name, path, value] of [
        ["configuration", "/api/config", (word) => ({ word })],
        ["plans", "/api/plans", (plan) => [{ plan, accounts: 1, environments: {} }]],
        ["deprecations", "/api/config", operation],
      ]) {
        await viewOf(name);
        live.listeners.routes();
        if (name === "plans") {
          await answer("/api/config", { environments: { e: {} }, plans: {} });
          await answer("/api/config", { environments: { e: {} }, plans: {} });
        }
        await answer(path, value("latest"), 1);
        if (name === "deprecations") await answer("/api/deprecations", { items: [] });
        const before = text();
        await answer(path, name === "plans" ? new Error("away") : value("earlier"));
        told.push([/latest/.test(before), text() === before]);
      }
      return told;
    `);
    assert.deepEqual(told, Array(3).fill([true, true]));
  });

  it("keeps the callers of what is deprecated until others are known", async () => {
    const told = await runs(`${VIEWS}
      await viewOf("deprecations");
      const config = { environments: {} };
      const caller = { account: "somebody", last: 0, requests: 1 };
      const operation = { environment: "e", method: "GET", route: "/r", accounts: [caller] };
      await answer("/api/config", config);
      await answer("/api/deprecations", { items: [operation] });
      live.listeners.routes();
      await answer("/api/config", config);
      live.listeners.figures();
      const told = [text().includes("somebody")];
      await answer("/api/deprecations", { items: [] });
      return [...told, text().includes("somebody")];
    `);
    assert.deepEqual(told, [true, false]);
  });

  it("keeps what was opened in it while it is as it was, and comes back after a failure", async () => {
    const told = await runs(`${VIEWS}
      const { element } = await viewOf("configuration");
      const opened = () => element.querySelector("details")?.open;
      const read = async (value) => {
        await answer("/api/config", value);
        const before = opened();
        if (before === false) element.querySelector("summary").click();
        live.listeners.routes();
        return before;
      };
      const config = { hash: "1", plans: { free: {} } };
      return [await read(config), await read(config), await read({ ...config, hash: "2" }),
        await read({ ...config, more: 1 }), await read(new Error("away")), await read(config)];
    `);
    assert.deepEqual(told, [false, true, true, false, undefined, false]);
  });
});

describe("the accounts", () => {
  it("are read again when the gateway is another one, and say how many there are only if that is known", async () => {
    const told = await runs(`${VIEWS}
      const view = await viewOf("accounts");
      const entry = (account) => {
        const key = { keys: [], names: [], state: "active" };
        return { account, environment: "e", plan: "p", created: 0, ...key };
      };
      const page = (total) => ({ items: [entry("a")], total, missing: null });
      const found = () => view.element.querySelector("[role=status]").textContent;
      const search = async (words) => {
        const input = view.element.querySelector("input");
        input.value = words;
        input.dispatchEvent(new Event("input"));
        while (!asked.some(({ path, done }) => !done && path.includes("q=" + words))) await moment();
      };
      const [whole, some] = ["", "q=x&"].map((q) => "/api/accounts?order=newest&" + q + "limit=50");
      await answer(whole, new Error("away"));
      await search("x");
      await answer(some, page(1));
      const told = [found()];
      live.listeners.routes();
      await answer(some, page(2));
      told.push(found());
      view.close();
      return told;
    `);
    assert.deepEqual(told, ["1 account found", "2 accounts found"]);
  });
});

describe("the bans", () => {
  it("are read again once the gateway is another one, though it tells as many of them and of their changes", async () => {
    await page.clock.install();
    await runs(`${VIEWS}
      const figures = { bans: { inForce: 0, edition: 1 } };
      globalThis.bansView = await viewOf("bans", { figures });
      globalThis.bansAsked = asked;
      live.listeners.routes();
      live.listeners.figures();
    `);
    const reads = () => page.evaluate<number>("bansAsked.length");
    assert.equal(await reads(), 1);
    await page.clock.runFor(2_500);
    assert.equal(await reads(), 2);
    await page.evaluate("bansView.close()");
  });
});
