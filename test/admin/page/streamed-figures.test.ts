import assert from "node:assert/strict";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, it } from "vitest";
import { startTestGateway, type TestGateway } from "../../support/gateway/house.ts";
import { eventually } from "../../support/poll.ts";
import { cells, openTab } from "./browser.ts";
import { firstMessages, holdStream } from "./live-stream.ts";

type First = Awaited<ReturnType<typeof firstMessages>>;

let house: TestGateway;
let first: First;
beforeAll(async () => {
  house = await startTestGateway();
  first = await firstMessages(house);
});
afterAll(async () => {
  await house[Symbol.asyncDispose]();
});

/** A section of the page, which gets these figures in place of the gateway's. */
async function pageOf(section: string, figures: object, hello: object = {}): Promise<Page> {
  const { page } = await openTab("about:blank");
  await holdStream(page, [
    ["hello", { ...first.hello, ...hello }],
    ["figures", { ...first.figures, ...figures }],
  ]);
  await page.goto(`${house.adminUrl}/#/${section}`);
  return page;
}

/** The message of a gateway about itself, changed. */
function gateway(changes: object): object {
  const [own] = first.figures.gateways as object[];
  return { ...own, ...{ storeMs: 3, differs: [], self: false, why: null }, ...changes };
}

const CHECKS = { config: { ok: true }, keys: { ok: false, why: "the file is gone" } };

describe("the overview", () => {
  it("has each figure in the tile of its name, and each rate in its plot", async () => {
    const durations = { bounds: [0.01, 0.1, 1], counts: [940, 40, 20, 0], sum: 4 };
    const reading = {
      ...{ atMs: first.figures.atMs - 10_000, ownAnswers: {} },
      ...{ answered: { 200: 1_000 }, bans: { imposed: 23, inForce: 9, edition: 0 } },
      durations: { counts: [0, 0, 0, 0], sum: 0 },
    };
    const own = { 204: 40, 401: 10, 403: 20, 429: 60, 502: 20 };
    const figures = {
      ...{ answered: { 200: 1_500, 404: 30, 500: 70, ...own }, ownAnswers: own, durations },
      plans: [
        { environment: "production", plan: "free", admitted: 7, refused: 50 },
        { environment: "production", plan: "pro", admitted: 9, refused: 30 },
      ],
      ...{ bans: { imposed: 25, inForce: 4, edition: 1 }, inFlight: 13, tunnels: 5 },
      ...{ charged: 1_234, forwards: 1_200, workers: { serving: 2, restarts: 6 }, checks: CHECKS },
      gateways: [
        gateway({ requestsPerSecond: 3, refusalsPerSecond: 1 }),
        gateway({ requestsPerSecond: 4, refusalsPerSecond: 2 }),
      ],
    };
    const page = await pageOf("", figures, { readings: [reading] });
    const tiles = page.locator("[data-tile]");
    await eventually(async () => {
      assert.deepEqual(
        (await tiles.allInnerTexts()).map((text) => text.split(/\n+/)),
        [
          ["Requests a second, all 2 gateways", "7/s"],
          ["Refused a second, all 2 gateways", "3/s"],
          ["Requests a second", "75/s", "1,750 since the start"],
          ["Refused a second", "11/s", "110 since the start"],
          ["Over quota or banned", "6/s", "60 since the start"],
          ["Answered 5xx a second", "9/s", "90 since the start"],
          ["Bans in force", "4", "25 earned since the start"],
          ["In flight", "13", "5 of them tunnels"],
          ["Units charged", "1,234", "1,200 forwarded"],
          ["99 % answered within", "1.0 s", "mean 4 ms"],
        ],
      );
    });
    assert.deepEqual(await page.locator(".legend div").allInnerTexts(), [
      ...["all\n75/s", "answered 5xx\n9/s"],
      ...["all\n11/s", "429\n6/s", "401, 403\n3/s"],
      ...["mean\n4 ms", "95 % within\n100 ms", "99 % within\n1.0 s"],
      ...["in force\n4", "earned\n12/min"],
    ]);
    assert.deepEqual(await cells(page, "Checks"), [
      ["config", "ok", ""],
      ["keys", "failing", "the file is gone"],
    ]);
    await page.getByText(/ · 2 workers, 6 restarts · /).waitFor();
  });
});

describe("the head of the page", () => {
  it("names each check that fails, with its reason", async () => {
    const page = await pageOf("plans", { checks: { ...CHECKS, store: { ok: false } } });
    await page.getByText("Not ready", { exact: true }).waitFor();
    await page.getByText("keys: the file is gone; store: failing", { exact: true }).waitFor();
  });

  it("offers no section that the gateway cannot fill, and an account only what it can do", async () => {
    const { account } = await house.issue();
    const routes = ["POST /api/bans", "POST /api/accounts/:id/resume"];
    const page = await pageOf(`accounts/${account}`, {}, { routes });
    const buttons = page.locator(".heading button");
    await eventually(async () => {
      assert.deepEqual(await buttons.allInnerTexts(), ["Add key", "Ban"]);
    });
    const sections = await page.locator("#sections a").allInnerTexts();
    assert.ok(sections.includes("Events") && !sections.includes("Explain"), sections.join());
  });
});

describe("the list of gateways", () => {
  it("has the state of each with its reason, and no rates of one that is silent", async () => {
    const rates = { requestsPerSecond: 12, refusalsPerSecond: 2 };
    const gateways = [
      gateway({ name: "a", state: "ready", ...rates, self: true }),
      gateway({ name: "b", state: "not ready", why: "the store is away", ...rates }),
      gateway({ name: "c", state: "draining", ...rates, storeMs: null }),
      gateway({ name: "d", state: "silent", age: 75, ...rates, differs: ["config"] }),
    ];
    const { page } = await openTab("about:blank");
    const send = await holdStream(page, [
      ["hello", first.hello],
      ["figures", { ...first.figures, gateways, upstreams: [{ origin: "http://a", up: false }] }],
    ]);
    await page.goto(`${house.adminUrl}/#/gateways`);
    await eventually(async () => {
      assert.deepEqual(
        (await cells(page, "Gateways")).map((row) => row.slice(0, 5)),
        [
          ["a\nthis one", "ready", "12/s", "2/s", "3 ms"],
          ["b", "not ready\nthe store is away", "12/s", "2/s", "3 ms"],
          ["c", "draining", "12/s", "2/s", "–"],
          ["d\nother configuration", "silent\nno news for 75 s", "–", "–", "3 ms"],
        ],
      );
    });
    const { hash } = first.figures.config as { readonly hash: string };
    const [config] = await page.locator("td code").all();
    const told = [await config?.innerText(), await config?.getAttribute("title")];
    assert.deepEqual(told, [hash.slice(0, 8), `configuration ${hash}`]);
    const colours = page.locator("td:nth-child(2) .badge");
    assert.deepEqual(await colours.evaluateAll((all) => all.map(({ className }) => className)), [
      "badge good",
      "badge bad",
      "badge warn",
      "badge bad",
    ]);
    await page.getByText("4 gateways: 48/s requests, 8/s refused", { exact: true }).waitFor();
    await page.getByText(/^No news for \d+ s$/).waitFor();
    assert.equal(await page.getByText("not known", { exact: true }).count(), 4);
    await page.getByRole("link", { name: "Backends" }).click();
    await page.getByText("not known, was down", { exact: true }).waitFor();
    await page.getByRole("link", { name: "Gateways" }).click();
    send([["figures", { ...first.figures, gateways: [] }]]);
    await page.getByText("No gateway has told of itself yet.").waitFor();
  });
});

describe("the plans", () => {
  it("have the requests of their own environment, and accounts by their fullest window", async () => {
    const { page } = await openTab("about:blank");
    const of = (environment: string, admitted: number) => {
      return { environment, plan: "free", admitted, refused: admitted + 1 };
    };
    const plans = [of("elsewhere", 7), of("production", 1)];
    await holdStream(page, [
      ["hello", first.hello],
      ["figures", { ...first.figures, plans }],
    ]);
    const windows = [
      { window: "minute", used: 0, limit: 60 },
      { window: "hour", used: 199, limit: 200 },
      { window: "day", used: 500, limit: 1_000 },
    ];
    const tokens = [{ window: "tokens.month", used: 4_000, limit: 5_000 }];
    const usage = [
      { account: "acme", plan: "pro", windows },
      { account: "model", plan: "pro", windows: tokens },
      { account: "free-of-limits", plan: "pro", windows: [] },
    ];
    await page.route("**/api/usage?*", (route) => route.fulfill({ json: usage }));
    await page.goto(`${house.adminUrl}/#/plans`);
    await eventually(async () => {
      const free = (await cells(page, "Plans")).find(([plan]) => plan?.startsWith("free"));
      assert.deepEqual(free?.slice(-2), ["1", "2"]);
      const nearest = await cells(page, "Nearest to a limit");
      assert.deepEqual(nearest, [
        ["acme", "pro", "199 of 200 an hour", "99 %"],
        ["model", "pro", "4,000 of 5,000 tokens a month", "80 %"],
      ]);
    });
  });
});

describe("events", () => {
  it("tell a quota by its share and its counts, and until when it was what is gone", async () => {
    const who = { time: 0, account: "acme", plan: "pro", env: "production" };
    const quota = { ...who, kind: "quota", window: "day", percent: 80, used: 8_000, limit: 10_000 };
    const unixNow = first.figures.atMs / 1_000;
    const old = { method: "GET", route: "/v1/old", days: 7 };
    const gone = { kind: "sunset", time: 0, env: "production", ...old };
    const ban = { ...who, kind: "ban", window: "hour", offences: 1, until: unixNow + 7_230 };
    const happened = [
      { ...gone, sunset: unixNow - 7_205 },
      quota,
      { ...quota, window: "tokens.hour" },
      { ...quota, window: "key.day", key: "k_1" },
      ban,
      { ...ban, offences: 0, imposed: true, reason: "scrapes" },
      { ...ban, offences: 0, imposed: true, reason: undefined },
      { ...ban, observed: true },
    ].map((event, at) => ({ ...event, number: at + 1 }));
    const page = await pageOf("events", {}, { happened });
    await eventually(async () => {
      const rows = (await cells(page, "Events")).map(([, event]) =>
        event?.replace(/\n+/, ": ").replace(/, [-\d]+ [:\d]+ UTC$/, ""),
      );
      assert.deepEqual(rows.toReversed(), [
        "sunset: GET /v1/old · within 7 days · production · gone 2 h ago",
        "quota: 80 % of the limit of a day: 8,000 of 10,000 · pro in production",
        "quota: 80 % of the limit of tokens an hour: 8,000 of 10,000 · pro in production",
        "quota: 80 % of the limit of key k_1 of a day: 8,000 of 10,000 · pro in production",
        "ban: limit of an hour, offences 1 · pro in production · ends in 2 h",
        "ban: by hand: scrapes · pro in production · ends in 2 h",
        "ban: by hand · pro in production · ends in 2 h",
        "ban: only observed: limit of an hour, offences 1 · pro in production",
      ]);
    });
    const none = await pageOf("events", {}, { happened: [] });
    await none.getByText("Nothing has happened yet.", { exact: true }).waitFor();
    const badges = page.locator("td .badge.bad");
    assert.equal(await badges.count(), 3, "what is only observed bans nobody");
  });
});

describe("the backends", () => {
  it("say which service of an environment each serves, and which is down", async () => {
    const of = (backend: object, up: boolean) => ({
      ...{ environment: "production", origin: "http://10.0.0.7", up },
      ...backend,
    });
    const page = await pageOf("backends", {
      upstreams: [of({}, true), of({ backend: "/v1/shop", why: "answered 503" }, false)],
    });
    await eventually(async () => {
      assert.deepEqual(
        (await cells(page, "Backends")).map(([, serves, state]) => [serves, state]),
        [
          ["production", "up"],
          ["production /v1/shop", "down answered 503"],
        ],
      );
    });
    await page.locator("td .badge.bad").getByText("down", { exact: true }).waitFor();
    await page.locator("td .badge.good").getByText("up", { exact: true }).waitFor();
  });
});

describe("figures that follow each other", () => {
  it("are shown wherever they differ: in lost log lines alone, or a reason, which the head tells too", async () => {
    const { page } = await openTab("about:blank");
    const send = await holdStream(page, [
      ["hello", first.hello],
      ["figures", first.figures],
    ]);
    await page.goto(`${house.adminUrl}/#/`);
    const badge = page.locator("#status .badge");
    await page.getByText("Ready", { exact: true }).waitFor();
    assert.equal(await badge.getAttribute("class"), "badge good");
    const { atMs, upstreams, config } = first.figures;
    const [upstream] = upstreams as object[];
    let told: object = first.figures;
    for (const [change, expected] of [
      [{ logDropped: 4 }, / · 4 log lines dropped · /],
      [{ workers: { serving: 2, restarts: 1 } }, / · 2 workers, 1 restart · /],
      [{ version: "9.9.9", gateways: null }, /^version 9\.9\.9 · /],
      [{ config: { ...(config as object), configuredMs: atMs - 7_210_000 } }, /since 2 h ago$/],
      [{ upstreams: [{ ...upstream, up: false }] }, /^all of its backends are down$/],
      [{ upstreams: [{ ...upstream, up: false }, upstream] }, /^Ready$/],
      [{ checks: CHECKS }, /^keys: the file is gone$/],
      [{ checks: { keys: { ok: false, why: "it is damaged" } } }, /^keys: it is damaged$/],
    ] as const) {
      told = { ...told, ...change };
      send([["figures", told]]);
      await page.getByText(expected).waitFor();
    }
    assert.equal(await badge.getAttribute("class"), "badge bad");
    assert.deepEqual(await cells(page, "Checks"), [["keys", "failing", "it is damaged"]]);
  });

  it("have the bans read again once, however many changes they tell at once, and only while they are shown", async () => {
    const told = (edition: number, name = `no${edition}`, inForce = 0) => {
      const [bans, checks] = [{ imposed: 0, inForce, edition }, { [name]: { ok: false } }];
      return ["figures", { ...first.figures, bans, checks }] as const;
    };
    const { page } = await openTab("about:blank");
    let reads = 0;
    page.on("request", (request) => {
      if (request.url().includes("/api/bans?")) reads += 1;
    });
    await page.clock.install();
    const before = [1, 2, 3, 4].map((edition) => told(edition));
    const send = await holdStream(page, [["hello", first.hello], ...before]);
    const tell = async (edition: number, name = `no${edition}`, inForce = 0) => {
      send([told(edition, name, inForce)]);
      await page.getByText(name).first().waitFor();
    };
    const readsLater = async () => {
      await page.clock.runFor(2_500);
      await page.evaluate("fetch('/livez').then((response) => response.text())");
      return reads;
    };
    await page.goto(`${house.adminUrl}/#/bans`);
    await page.getByText("No account is banned.").waitFor();
    await page.getByText("no4").waitFor();
    assert.equal(reads, 1);
    assert.equal(await readsLater(), 2);
    await tell(5);
    assert.equal(await readsLater(), 3);
    await tell(5, "no change");
    assert.equal(await readsLater(), 3);
    await tell(5, "of another gateway", 1);
    assert.equal(await readsLater(), 4);
    const leave = async () => {
      await page.evaluate("location.hash = '#/plans'");
      await page.getByRole("heading", { level: 1, name: "Plans" }).waitFor();
    };
    await tell(6);
    await leave();
    assert.equal(await readsLater(), 4, "what was about to be read is not");
    await page.evaluate("location.hash = '#/bans'");
    await page.getByText("No account is banned.").waitFor();
    assert.equal(reads, 5);
    await leave();
    await tell(7);
    assert.equal(await readsLater(), 5);
  });

  it("leave samples of the last 15 minutes and 200 events alone, and end a stream that cannot be read", async () => {
    const { page } = await openTab(`${house.adminUrl}/#/plans`);
    const at = (agoS: number) => ({ ...first.figures, atMs: first.figures.atMs - agoS * 1_000 });
    const readings = [2_000, 1_990, 905, 895, 10].map(at);
    const happened = Array.from({ length: 200 }, (_, i) => ({ number: i + 1, kind: "sunset" }));
    const told = [
      ["hello", { ...first.hello, readings, happened }],
      ["happened", { number: 201, kind: "sunset" }],
      ["figures", first.figures],
    ] as const;
    const body = told.map(([event, data]) => `event: ${event}\ndata: ${JSON.stringify(data)}\n\n`);
    const [ages, isCancelled, events] = await page.evaluate<
      [number[], boolean, unknown]
    >(`(async () => {
      const { Live } = await import("/page/parts/live.js");
      const cancelled = Promise.withResolvers();
      const bytes = new TextEncoder().encode(${JSON.stringify(`${body.join("")}data: {

`)});
      const stream = new ReadableStream({
        start: (controller) => controller.enqueue(bytes),
        cancel: () => cancelled.resolve(true),
      });
      const live = new Live({ routes: new Set(), open: async () => new Response(stream) });
      void live.run();
      const isCancelled = await Promise.race([
        cancelled.promise,
        new Promise((resolve) => setTimeout(() => resolve(false), 2_000)),
      ]);
      const now = live.figures.atMs / 1_000;
      const ages = live.samples.map((one) => Math.round(now - one.at));
      return [ages, isCancelled, [live.events.length, live.events[0].number]];
    })()`);
    assert.deepEqual([ages, isCancelled, events], [[895, 10, 0], true, [200, 201]]);
  });
});

describe("before the first figures", () => {
  it("each section that lives on them says that it waits, and the clock is that of the answers", async () => {
    const { account } = await house.issue();
    const { page } = await openTab("about:blank");
    await page.addInitScript("const real = Date.now; Date.now = () => real() + 86_400_000;");
    await page.route("**/api/events", () => {});
    await page.goto(`${house.adminUrl}/#/`);
    await page.locator(".badge.plain").getByText("Connecting", { exact: true }).waitFor();
    await page.locator("[data-tile=waiting]").waitFor();
    for (const name of ["Gateways", "Backends", "Events"]) {
      await page.getByRole("link", { name }).click();
      await page.getByRole("heading", { level: 1, name }).waitFor();
      await page.getByText("Waiting for the first figures…", { exact: true }).waitFor();
    }
    await page.goto(`${house.adminUrl}/#/accounts/${account}`);
    await eventually(async () => {
      const created = (await cells(page, "Keys"))[0]?.[4];
      assert.match(created ?? "", /^now$|^\d+ (?:s|min) ago$|^in 1 s$/);
    });
  });
});
