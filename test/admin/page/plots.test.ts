import assert from "node:assert/strict";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, it } from "vitest";
import { startTestGateway, type TestGateway } from "../../support/gateway/house.ts";
import { eventually } from "../../support/poll.ts";
import { openTab, textOf } from "./browser.ts";
import { firstMessages, holdStream } from "./live-stream.ts";

let house: TestGateway;
let first: Awaited<ReturnType<typeof firstMessages>>;
beforeAll(async () => {
  house = await startTestGateway();
  first = await firstMessages(house);
});
afterAll(async () => {
  await house[Symbol.asyncDispose]();
});

/**
 * Keeps every text of a plot's last drawing, with its colour, and the colours of its lines at its
 * canvas. A drawing begins by clearing the canvas: one from before the first figures ends at now.
 */
const RECORD = `const clear = CanvasRenderingContext2D.prototype.clearRect;
CanvasRenderingContext2D.prototype.clearRect = function (...where) {
  this.canvas.drawn = [];
  return clear.apply(this, where);
};
const line = CanvasRenderingContext2D.prototype.stroke;
CanvasRenderingContext2D.prototype.stroke = function (...path) {
  (this.canvas.lines ??= []).push(this.strokeStyle);
  return line.apply(this, path);
};
const draw = CanvasRenderingContext2D.prototype.fillText;
CanvasRenderingContext2D.prototype.fillText = function (text, ...where) {
  (this.canvas.drawn ??= []).push([text, this.fillStyle]);
  return draw.call(this, text, ...where);
};`;

type Drawn = Readonly<Record<string, readonly (readonly [text: string, colour: string])[]>>;

/** The last drawing of each plot, unless this was asked since, by its title. */
function drawn(page: Page): Promise<Drawn> {
  return page.evaluate(`Object.fromEntries([...document.querySelectorAll(".chart")].map((one) => {
    const canvas = one.querySelector("canvas");
    const texts = canvas?.drawn ?? [];
    if (canvas) canvas.drawn = [];
    return [one.querySelector("figcaption").textContent, texts];
  }))`);
}

/** Sends further messages to the page that was opened last. */
let send: Awaited<ReturnType<typeof holdStream>>;

/** The overview ten seconds after a reading, with ten requests and as many bans in each second. */
async function openPlots(figures: object = {}): Promise<Page> {
  const reading = {
    ...{ ...first.figures, atMs: first.figures.atMs - 10_000, answered: { 200: 0 } },
    ...{ bans: { imposed: 0, inForce: 0, edition: 0 }, ownAnswers: {} },
  };
  const { page } = await openTab("about:blank", { timezoneId: "Pacific/Kiritimati" });
  await page.addInitScript(RECORD);
  send = await holdStream(page, [
    ["hello", { ...first.hello, readings: [reading, { ...reading, atMs: reading.atMs + 5_000 }] }],
    ["figures", { ...first.figures, answered: { 200: 100 }, ...figures }],
  ]);
  await page.goto(`${house.adminUrl}/#/`);
  return page;
}

/** The texts of one plot once `wanted` is among them: the instants below it, and the values beside it. */
async function labels(page: Page, title: string, wanted: string): Promise<[string[], string[]]> {
  let found: [string[], string[]] = [[], []];
  await eventually(async () => {
    const texts = ((await drawn(page))[title] ?? []).map(([text]) => text);
    const isInstant = (text: string) => text.includes(":");
    found = [texts.filter(isInstant), texts.filter((text) => !isInstant(text))];
    assert.ok(found[1].includes(wanted), `${texts}`);
  });
  return found;
}

describe("the axes of a plot", () => {
  it("have instants in UTC with their seconds, wherever the browser is, over a minute at least", async () => {
    const page = await openPlots();
    const [instants] = await labels(page, "Requests per second", "10/s");
    const { atMs } = first.figures;
    const lately = Array.from({ length: 61 }, (_, i) => new Date(atMs - i * 1_000).toISOString());
    const clocks = new Set(lately.map((text) => text.slice(11, 19)));
    for (const text of instants) assert.ok(clocks.has(text), `${text} in UTC`);
    const seconds = instants.map((text) => Date.parse(`2026-01-01T${text}Z`) / 1_000);
    const span = Math.max(...seconds) - Math.min(...seconds);
    assert.ok(span >= 30 && span <= 60, `${instants}`);
  });

  it("have the unit of the values", async () => {
    const page = await openPlots();
    const [, rates] = await labels(page, "Requests per second", "10/s");
    for (const text of rates) assert.match(text, /^[\d.]+\/s$/);
  });

  it("have fractions where less than one happens in a second", async () => {
    const page = await openPlots({ answered: { 200: 2 } });
    const [, rates] = await labels(page, "Requests per second", "1/s");
    assert.ok(
      rates.some((text) => /^0\.\d+\/s$/.test(text)),
      `${rates}`,
    );
  });

  it("count small numbers of bans by whole ones, each once", async () => {
    const page = await openPlots({ bans: { imposed: 0, inForce: 1, edition: 1 } });
    const [, texts] = await labels(page, "Bans in force, and earned per minute", "1");
    assert.deepEqual([...new Set(texts)], ["0", "1"]);
    const zeros = texts.filter((text) => text === "0").length;
    assert.equal(texts.length, 2 * zeros, "each as often as the other");
  });

  it("reach ten seconds where an answer took longer than any bound", async () => {
    const durations = { bounds: [0.01, 0.1, 1], counts: [0, 0, 0, 9], sum: 9 };
    const before = { ...durations, counts: [0, 0, 0, 0], sum: 0 };
    first = { ...first, figures: { ...first.figures, durations: before } };
    const page = await openPlots({ durations });
    const [, texts] = await labels(page, "Time to answer", "10 s");
    assert.ok(!texts.includes("20 s"), `${texts}`);
  });
});

describe("a plot", () => {
  it("tells the values under the pointer, also once further figures come", async () => {
    const page = await openPlots();
    const plot = page.locator(".u-over").first();
    await plot.hover({ position: { x: 2, y: 40 } });
    const shown = page.locator(".legend dd").first();
    const told = page.locator("[data-tile=requests] strong");
    const [atMs, at] = [first.figures.atMs + 1_000, "[data-tile=requests] strong"];
    await eventually(async () => assert.equal(await textOf(told), "20/s"));
    const before = await textOf(shown);
    assert.notEqual(before, "20/s");
    send([["figures", { ...first.figures, atMs, answered: { 200: 130 } }]]);
    await page.locator(at).getByText("30/s", { exact: true }).waitFor();
    assert.equal(await textOf(shown), before);
    await page.mouse.move(0, 0);
    await eventually(async () => assert.equal(await textOf(shown), "30/s"));
  });

  it("shows a value that has no neighbour, as where one request is answered now and then", async () => {
    const durations = { bounds: [0.01, 0.1, 1], counts: [0, 9, 0, 0], sum: 0.9 };
    const none = { ...durations, counts: [0, 0, 0, 0], sum: 0 };
    const at = (agoS: number, told: object) => {
      return { ...first.figures, atMs: first.figures.atMs - agoS * 1_000, durations: told };
    };
    const { page } = await openTab("about:blank");
    await holdStream(page, [
      ["hello", { ...first.hello, readings: [at(30, none), at(20, none), at(10, durations)] }],
      ["figures", at(0, durations)],
    ]);
    await page.goto(`${house.adminUrl}/#/`);
    const points = `(() => {
      const canvas = document.querySelectorAll(".chart canvas")[2];
      const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
      let coloured = 0;
      for (let i = 0; i < data.length; i += 4) {
        const [r, g, b, alpha] = data.slice(i, i + 4);
        if (alpha > 200 && Math.max(r, g, b) - Math.min(r, g, b) > 60) coloured += 1;
      }
      return coloured;
    })()`;
    await page.locator(".u-over").nth(2).waitFor();
    await eventually(async () => assert.ok((await page.evaluate<number>(points)) > 5));
  });

  it("has room above its highest value", async () => {
    const page = await openPlots();
    const plot = page.locator(".u-over").first();
    const { width = 0 } = (await plot.boundingBox()) ?? {};
    await plot.hover({ position: { x: width - 2, y: 40 } });
    const point = page.locator(".u-cursor-pt").first();
    await eventually(async () => {
      const style = (await point.getAttribute("style")) ?? "";
      const [, top] = /translate\([^,]+, ?([\d.]+)px\)/.exec(style) ?? [];
      assert.ok(Number(top) > 5, style);
    });
  });

  it("has a line in the colour of each of its names", async () => {
    const page = await openPlots();
    await labels(page, "Requests per second", "10/s");
    const [lines = [], wanted = []] = await page.evaluate<string[][]>(`(() => {
      const plots = [...document.querySelectorAll(".chart")].slice(0, 2);
      const style = getComputedStyle(document.documentElement);
      const names = (plot) => [...plot.querySelectorAll("dt")].map((one) => one.className);
      return [
        plots.flatMap((plot) => [...new Set(plot.querySelector("canvas").lines)]),
        plots.flatMap(names).map((name) => style.getPropertyValue("--" + name).trim()),
      ];
    })()`);
    assert.equal(wanted.length, 5);
    const plots = await page.locator(".chart .legend").evaluateAll((all) => {
      return all.map((one) => [...one.querySelectorAll("dt")].map(({ className }) => className));
    });
    for (const colours of plots) assert.equal(new Set(colours).size, colours.length, `${colours}`);
    assert.deepEqual(
      wanted.filter((colour) => !lines.includes(colour)),
      [],
    );
  });

  it("is drawn in the colours of the page, and again once the machine takes the dark scheme", async () => {
    const page = await openPlots();
    const muted = `getComputedStyle(document.documentElement).getPropertyValue("--muted").trim()`;
    await page.emulateMedia({ colorScheme: "light" });
    await page.locator(".u-over").first().waitFor();
    const colours = async () => {
      const texts = Object.values(await drawn(page)).flat();
      return [...new Set(texts.map(([, colour]) => colour))];
    };
    const light = await page.evaluate<string>(muted);
    assert.deepEqual(await colours(), [light]);
    await page.emulateMedia({ colorScheme: "dark" });
    await eventually(async () => {
      assert.deepEqual(await colours(), [await page.evaluate<string>(muted)]);
    });
    assert.notEqual(await page.evaluate<string>(muted), light);
  });
});
