import assert from "node:assert/strict";
import { afterAll, beforeAll, it } from "vitest";
import { startTestGateway, type TestGateway } from "../../support/gateway/house.ts";
import { openTab } from "./browser.ts";

let house: TestGateway;
beforeAll(async () => {
  house = await startTestGateway();
});
/** Runs the script on a page of the gateway and returns its value. */
async function runs<T>(script: string): Promise<T> {
  const { page } = await openTab(`${house.adminUrl}/`);
  return page.evaluate<T>(script);
}

afterAll(async () => {
  await house[Symbol.asyncDispose]();
});

/** Runs in the page: a list whose requests are answered by hand, and what it showed after each. */
const ANSWERED = `(async () => {
  const { pagedList } = await import("/page/parts/lists.js");
  const asked = [];
  const page = (path) => new Promise((resolve, reject) => asked.push({ path, resolve, reject }));
  let drawn = 0;
  const draw = (items) => {
    drawn += 1;
    return document.createTextNode(items.join());
  };
  const list = pagedList({ api: { page }, path: "/a", draw });
  const shown = [];
  const after = async (number, how, value) => {
    asked[number][how](value);
    await new Promise((resolve) => setTimeout(resolve));
    shown.push([list.element.textContent, drawn]);
  };
  const one = (name, missing = null) => ({ items: [name], total: 1, missing });
  void list.show("/b");
  await after(1, "resolve", one("b"));
  await after(0, "resolve", one("a"));
  void list.reload();
  void list.reload();
  await after(3, "resolve", one("b"));
  await after(2, "reject", new Error("late"));
  void list.reload();
  await after(4, "resolve", one("b", "bucket 1"));
  void list.reload();
  await after(5, "reject", new Error("no"));
  void list.reload();
  await after(6, "resolve", one("b", "bucket 1"));
  return { shown, paths: asked.map(({ path }) => path) };
})()`;

it("a list shows the answer to its last request, whichever comes first, and draws what it shows once", async () => {
  const { shown, paths } = await runs<{ shown: unknown; paths: string[] }>(ANSWERED);
  const partly = "bIncomplete, without bucket 1";
  assert.deepEqual(shown, [
    ["b", 1],
    ["b", 1],
    ["b", 1],
    ["b", 1],
    [partly, 2],
    ["noTry again", 2],
    [partly, 3],
  ]);
  assert.deepEqual(paths.slice(0, 3), ["/a?limit=50", "/b?limit=50", "/b?limit=50"]);
});

/**
 * Runs in the page: a list of two pages, turned there and back, whose second page is another then. It
 * has one entry more when it is read again, and then another list takes its place.
 */
const TURNED = `(async () => {
  const { pagedList } = await import("/page/parts/lists.js");
  const paths = [];
  const answers = ["/a?1", undefined, "/a?2", undefined, "/a?3", "/b?1"].map((next, i) => {
    return { items: [String(Math.min(i, 3))], total: i < 4 ? 2 : 3, missing: null, next };
  });
  const page = async (path) => answers[paths.push(path) - 1];
  const list = pagedList({ api: { page }, path: "/a", draw: () => "", rows: 1 });
  const states = [];
  for (const turned of [".next", ".previous", ".next", undefined]) {
    await new Promise((resolve) => setTimeout(resolve));
    const [previous, text, next] = list.element.querySelector(".pager").children;
    states.push([previous.disabled, text.textContent, next.disabled]);
    if (turned !== undefined) list.element.querySelector(turned).click();
  }
  const told = () => list.element.querySelector(".pager span").textContent;
  await list.reload();
  const longer = told();
  await list.show("/b");
  return { paths, states, after: [longer, told()] };
})()`;

it("a list is turned no further than it goes, by the way that its last answer told, and says how many there are now", async () => {
  const [first, second] = [
    [true, "1 to 1 of 2", false],
    [false, "2 to 2 of 2", true],
  ];
  assert.deepEqual(await runs(TURNED), {
    paths: ["/a?limit=1", "/a?1", "/a?limit=1", "/a?2", "/a?2", "/b?limit=1"],
    states: [first, second, first, second],
    after: ["about 2 to 2 of 3", "1 to 1 of 3"],
  });
});

/** Runs in the page: a dialog of one field and one choice, whose first attempt fails. */
const ASKED = `(async () => {
  const { ask } = await import("/page/parts/dialogs.js");
  const moment = () => new Promise((resolve) => setTimeout(resolve));
  const opener = document.createElement("button");
  document.getElementById("main").append(opener);
  opener.focus();
  const values = [];
  const release = [];
  const run = (given) => {
    values.push(given);
    return new Promise((resolve, reject) => release.push({ resolve, reject }));
  };
  const fields = [
    { name: "name", label: "Name", value: "" },
    { name: "plan", label: "Plan", options: ["free", "pro"], value: "pro" },
  ];
  const done = ask({ title: "T", fields, verb: "Go", danger: true, run });
  const dialog = document.querySelector("dialog");
  const go = dialog.querySelector("[type=submit]");
  const error = dialog.querySelector(".error");
  const name = dialog.querySelector("input");
  const seen = [[go.className, name.autocomplete]];
  const state = () => seen.push([go.ariaDisabled, error.textContent, document.activeElement === go]);
  name.value = "  web ";
  go.click();
  state();
  release[0].reject(new Error("refused"));
  await moment();
  state();
  for (const _ of "12") go.click();
  state();
  release[1].resolve("made");
  const result = await done;
  const isBack = document.activeElement === opener;
  const second = ask({ title: "T", verb: "Go", run });
  opener.remove();
  document.querySelector("dialog .buttons button").click();
  return { seen, values, result, isBack, second: await second, at: document.activeElement.id };
})()`;

it("a dialog sends once, tells why it failed, stays usable, and gives the keyboard back", async () => {
  const told = await runs<Record<string, unknown>>(ASKED);
  const values = { name: "web", plan: "pro" };
  assert.deepEqual(told, {
    seen: [
      ["danger", "off"],
      ["true", "", false],
      [null, "refused", true],
      ["true", "", true],
    ],
    values: [values, values],
    result: "made",
    isBack: true,
    second: undefined,
    at: "main",
  });
});

/** Runs in the page: the details of events, by their rows, and whether the view still listens. */
const HAPPENED = `(async () => {
  const { eventsView } = await import("/page/views/events.js");
  const listeners = new Set();
  const onChange = (listener) => (listeners.add(listener), () => listeners.delete(listener));
  const own = { account: "a_1", plan: "free", env: "production" };
  const events = [
    { kind: "quota", ...own, window: "day", percent: 80, used: 80, limit: 100, key: "k_1", reset: 60 },
    { kind: "ban", ...own, window: "minute", offences: 2, strikes: 20, decidedAt: 5, until: 60 },
    { kind: "ban", ...own, window: "minute", offences: 1, observed: true, until: 60 },
    { kind: "config_reloaded", hash: "abc" },
    { kind: "account_changed", ...own, newWindows: [] },
    { kind: "account_changed", ...own, newWindows: ["minute", "day"] },
  ].map((event, i) => ({ ...event, number: 6 - i, time: 0 }));
  const live = { events, figures: {}, onChange };
  const view = eventsView({ live });
  const textOf = (selector) => [...view.element.querySelectorAll(selector)].map((one) => one.textContent);
  const rows = textOf("td .names").map((text) => text.replace(/(ends|resets) .*/, "$1"));
  const colours = [...view.element.querySelectorAll(".badge")].map((one) => one.classList[1]);
  const kinds = textOf("option");
  live.events = [{ ...events[0], time: 1 }];
  for (const listener of listeners) listener();
  const anew = textOf("td .badge");
  const before = listeners.size;
  view.close();
  return { rows, colours, kinds, anew, listeners: [before, listeners.size] };
})()`;

it("events tell their cause and end in words, those of a gateway that began again too, and a closed view listens no more", async () => {
  const told = await runs<Record<string, unknown>>(HAPPENED);
  const where = "free in production";
  assert.deepEqual(told, {
    rows: [
      `80 % of the limit of a day: 80 of 100 · key k_1 · ${where} · resets`,
      `limit of a minute, offences 2 · ${where} · ends`,
      `only observed: limit of a minute, offences 1 · ${where}`,
      "hash abc",
      where,
      `new windows: minute, day · ${where}`,
    ],
    colours: ["plain", "bad", "plain", "good", "plain", "plain"],
    kinds: ["all (6)", "account changed (2)", "ban (2)", "config reloaded (1)", "quota (1)"],
    anew: ["quota"],
    listeners: [1, 0],
  });
});

/** Runs in the page: the days of an account as they are read one after the other, or refused. */
const DAYS = `(async () => {
  const { drawDays } = await import("/page/views/days.js");
  const days = document.createElement("div");
  const row = (day, units, meters) => ({ day, units, admitted: units, refused: 1, plan: "free", meters });
  const items = [row("2026-11-01", 5), row("2026-11-02", 10, { tokens: 7 })];
  const seen = [];
  const read = async (page) => {
    await drawDays({ page, id: "a_1", days });
    const table = days.querySelector("table");
    if (!seen.includes(table)) seen.push(table);
    return days.textContent;
  };
  const refusal = (status) => async () => {
    throw Object.assign(new Error("no " + status), { status });
  };
  await read(async () => ({ items, missing: null }));
  await read(async () => ({ items, missing: null }));
  const cells = [...days.querySelectorAll("tbody tr")].map((one) => [...one.cells].map((cell) => cell.textContent));
  const meter = days.querySelector("meter");
  const texts = [];
  for (const status of [404, 409, 503]) {
    const text = await read(refusal(status));
    texts.push([text, days.querySelector("[role=alert]") !== null]);
  }
  await read(async () => ({ items, missing: null }));
  const tables = seen.filter((table) => table !== null).length;
  return { cells, bar: [meter.max, meter.value, meter.getAttribute("aria-label")], texts, tables };
})()`;

it("days come newest first, are drawn once, and come back after a refusal", async () => {
  const told = await runs<Record<string, unknown>>(DAYS);
  assert.deepEqual(told, {
    cells: [
      ["2026-11-02", "10", "", "10", "1", "7", "free"],
      ["2026-11-01", "5", "", "5", "1", "0", "free"],
    ],
    bar: [10, 10, "10 units on 2026-11-02"],
    texts: [
      ["no 404", false],
      ["no 409", false],
      ["no 503", true],
    ],
    tables: 2,
  });
});

/** Runs in the page: a narrow table that was scrolled, drawn again beside one that was not. */
const SCROLLED = `(async () => {
  const { el, fill, table } = await import("/page/parts/elements.js");
  const narrow = el("div", { style: "width: 100px" });
  document.body.append(narrow);
  const draw = (cell) => {
    const columns = [{ name: "A" }];
    fill(narrow, ...["one", "two"].map((label) => table({ label, columns, rows: [[cell]] })));
    return [...narrow.querySelectorAll(".scroll")];
  };
  draw("a".repeat(100))[1].scrollLeft = 40;
  return draw("b".repeat(100)).map(({ scrollLeft }) => scrollLeft);
})()`;

it("a table that was scrolled sideways stays so when its content is drawn again", async () => {
  assert.deepEqual(await runs(SCROLLED), [0, 40]);
});

/** Runs in the page: the headings below a deprecated operation, before and after it was called. */
const CALLED = `(async () => {
  const { deprecationsView } = await import("/page/views/deprecations.js");
  const operations = [{ method: "GET", template: "/a", lifecycle: { deprecated: true } }];
  const live = { onChange: () => () => {}, onRoutes: () => () => {} };
  const headings = async (items) => {
    const get = async () => ({ environments: { e: { operations } } });
    const api = { get, has: () => true, page: async () => ({ items, missing: null }) };
    const { element } = deprecationsView({ api, live });
    await new Promise((resolve) => setTimeout(resolve));
    return [...element.querySelectorAll("section .empty")].map((one) => one.textContent);
  };
  const called = { environment: "e", method: "GET", route: "/a", accounts: [] };
  return [await headings([]), await headings([called]), await headings([{ ...called, accounts: undefined }])];
})()`;

it("callers of a deprecated operation are shown where it is the only one, and said to be unknown if the store is away", async () => {
  const told = ["No account is known to call them.", "Unknown: the store cannot be reached."];
  assert.deepEqual(await runs(CALLED), [[], ...told.map((one) => [one])]);
});

/** Runs in the page: sections that are read again when the gateway comes back, once in vain. */
const REREAD = `(async () => {
  const operations = [{ method: "GET", template: "/a", lifecycle: { deprecated: true } }];
  const answers = {
    "/api/config": { environments: { e: { operations } }, plans: { free: { minute: 1 } } },
    "/api/plans": [{ plan: "free", accounts: 0, environments: {} }],
    "/api/usage?top=10": { items: [], missing: null },
  };
  let isAway = false;
  const get = async (path) => {
    if (isAway) throw new Error("away");
    return answers[path];
  };
  const told = {};
  for (const name of ["plans", "deprecations"]) {
    const { [name + "View"]: view } = await import("/page/views/" + name + ".js");
    const listeners = {};
    const listen = (kind) => (listener) => (listeners[kind] = listener, () => {});
    const figures = { plans: [], deprecated: [] };
    const live = { figures, onChange: listen("figures"), onRoutes: listen("routes") };
    const { element } = view({ api: { get, page: get, has: () => false }, live });
    told[name] = [];
    const look = async (act) => {
      act?.();
      await new Promise((resolve) => setTimeout(resolve));
      told[name].push(element.querySelector(".failure, table")?.className);
    };
    await look();
    isAway = true;
    await look(listeners.routes);
    await look(listeners.figures);
    isAway = false;
    await look(() => element.querySelector(".failure button").click());
  }
  return told;
})()`;

it("plans and deprecations that could not be read say so until they can, and come back by the button, though they are as before", async () => {
  const states = ["", "failure", "failure", ""];
  assert.deepEqual(await runs(REREAD), { plans: states, deprecations: states });
});

/** Runs in the page: keys of each state, and dialogs of one of them that are left by Cancel. */
const KEYS = `(async () => {
  const { keysOf } = await import("/page/views/keys.js");
  const { liftBan } = await import("/page/views/bans.js");
  const at = Date.now() / 1_000;
  const key = (id, more) => {
    const dates = { created: at - 3 * 3_600, expires: null, revoked: null };
    return { id, account: "a", scopes: [], caps: { minute: 2, day: 5 }, ...dates, ...more };
  };
  const items = [
    key("k_1", {}),
    key("k_2", { expires: at - 7_230 }),
    key("k_3", { expires: at - 7_230, revoked: at - 3_630 }),
  ];
  const paths = [];
  const api = {
    page: async (path) => (paths.push(path), { items, total: 3, missing: null }),
    send: async (method, path) => void paths.push(method + " " + path),
  };
  const list = keysOf(api, { account: "a" });
  const moment = () => new Promise((resolve) => setTimeout(resolve));
  await moment();
  const all = (selector) => [...list.element.querySelectorAll(selector)];
  const states = all("tbody tr").map(({ cells: [, state] }) => state.textContent.replace(/, [-\\d]+ [:\\d]+ UTC$/, ""));
  const colours = all(".badge").map(({ className }) => className);
  const complaints = [];
  addEventListener("unhandledrejection", ({ reason }) => complaints.push(reason.message));
  const asked = [];
  const press = (selector) => document.querySelector("dialog " + selector).click();
  const texts = (selector) => [...document.querySelectorAll(selector)].map((one) => one.textContent);
  for (const act of [...all("tbody button").map((one) => () => one.click()), () => liftBan(api, "a/b")]) {
    void act();
    await moment();
    asked.push([document.querySelector("dialog input")?.value, texts("dialog .words")[0].slice(0, 14)]);
    press("[type=button]");
    while (document.querySelector("dialog") !== null) await moment();
  }
  const notes = texts(".note");
  void liftBan(api, "a/b", () => {});
  press("[type=submit]");
  await moment();
  const focuses = all("tbody button").map((one) => one.dataset.focus);
  return { paths, states, colours, asked, notes, complaints, focuses };
})()`;

it("a key tells its state and since when, each button is its own, and a dialog that is left changes and says nothing", async () => {
  assert.deepEqual(await runs(KEYS), {
    paths: ["/api/keys?account=a&order=newest&limit=50", "DELETE /api/bans/a%2Fb"],
    states: ["works", "expired 2 h ago", "revoked 1 h ago"],
    colours: ["badge good", "badge plain", "badge plain"],
    asked: [
      ["minute=2, day=5", "Of this key al"],
      ["24h", "A new key take"],
      [undefined, "Every request "],
      [undefined, "Its requests a"],
    ],
    ...{ notes: [], complaints: [] },
    focuses: ["limits of k_1", "rotate k_1", "revoke k_1"],
  });
});
