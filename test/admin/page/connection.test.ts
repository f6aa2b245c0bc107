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

/** By its answer the page has sent all that it was about to send. */
async function settled(page: Page): Promise<void> {
  await page.evaluate("fetch('/livez').then((response) => response.text())");
}

/** From then on time passes on the page only as the test says. */
async function stopClock(page: Page): Promise<void> {
  await page.clock.install();
  await page.clock.pauseAt(Date.now() + 1_000);
}

/** Shows the page to its reader, or takes it out of sight, as another tab in front of it does. */
function hide(page: Page, hidden: boolean): Promise<unknown> {
  return page.evaluate(`(() => {
    Object.defineProperty(document, "hidden", { get: () => ${hidden}, configurable: true });
    document.dispatchEvent(new Event("visibilitychange"));
  })()`);
}

describe("a gateway that refuses the stream", () => {
  it("is asked again after 1, 2, 4, 8 and then each 10 s, and after 1 s once it had answered", async () => {
    const { page } = await openTab("about:blank");
    let asked = 0;
    let isWell = false;
    await page.route("**/api/events", (route) => {
      asked += 1;
      const json = { code: "busy", message: `Refused ${asked}` };
      if (!isWell) return route.fulfill({ status: 503, json });
      isWell = false;
      return route.fulfill({ contentType: "text/event-stream", body: "event: else\ndata: {}\n\n" });
    });
    await stopClock(page);
    await page.goto(`${house.adminUrl}/#/plans`);
    await eventually(() => assert.equal(asked, 1));
    const waits = async (seconds: number) => {
      const before = asked;
      await page.clock.runFor(seconds * 1_000 - 100);
      await settled(page);
      assert.equal(asked, before, `not before ${seconds} s`);
      await page.clock.runFor(100);
      await eventually(() => assert.equal(asked, before + 1));
    };
    for (const seconds of [1, 2, 4, 8, 10, 10]) {
      await page.getByText(`Refused ${asked}`, { exact: true }).waitFor();
      await waits(seconds);
    }
    await page.getByText(`Refused ${asked}`, { exact: true }).waitFor();
    isWell = true;
    await waits(10);
    await page.getByText("The stream ended: trying again", { exact: true }).waitFor();
    await waits(1);
  });
});

describe("a page that nobody has seen for five seconds", () => {
  it("asks for nothing any more, and goes on as soon as it is seen", async () => {
    const { account } = await house.issue();
    const { page } = await openTab("about:blank");
    await page.clock.install();
    await page.goto(`${house.adminUrl}/#/accounts/${account}`);
    await page.getByText("Ready", { exact: true }).waitFor();
    await page.locator('[data-window="minute"]').waitFor();
    await hide(page, true);
    await page.clock.fastForward(6_000);
    // A reading that began before goes on, and asks further things with each answer.
    for (let i = 0; i < 4; i++) await settled(page);
    const asked: string[] = [];
    page.on("request", (request) => asked.push(new URL(request.url()).pathname));
    await page.clock.runFor(20_000);
    await settled(page);
    assert.deepEqual(asked, ["/livez"]);
    const again = page.waitForRequest("**/api/events");
    await hide(page, false);
    await again;
    await page.getByText("Ready", { exact: true }).waitFor();
    await page.clock.runFor(10_000);
    const usage = () => asked.filter((path) => path === `/api/usage/${account}`).length;
    // Each two seconds, once as the page connects again, and once with the account after ten.
    await eventually(() => assert.ok(usage() >= 5, `${usage()} times`));
  });
});

/** Opens a page with figures of its own, from streams that say nothing, or what `then` sends. */
async function ownLive(page: Page, messages: string): Promise<void> {
  await page.evaluate(`(async () => {
    const { Live } = await import("/page/parts/live.js");
    globalThis.streams = [];
    const bytes = new TextEncoder().encode(${JSON.stringify(messages)});
    const open = async (_path, signal) => {
      let send;
      const body = new ReadableStream({ start: (one) => { send = one; } });
      if (streams.length === 0) send.enqueue(bytes);
      signal.addEventListener("abort", () => send.error(signal.reason));
      streams.push(signal);
      return new Response(body);
    };
    globalThis.own = new Live({ routes: new Set(), open });
    void own.run();
  })()`);
}

describe("a page that is out of sight for less than five seconds", () => {
  it("keeps its stream, however often that happens", async () => {
    const { page } = await openTab("about:blank");
    await stopClock(page);
    await page.goto(`${house.adminUrl}/#/plans`);
    await ownLive(page, "");
    const state = () => page.evaluate("[streams.length, streams.at(-1).aborted]");
    for (let i = 0; i < 2; i++) {
      await hide(page, true);
      await page.clock.runFor(4_900);
      await hide(page, false);
    }
    await page.clock.runFor(10_000);
    assert.deepEqual(await state(), [1, false]);
    await hide(page, true);
    await page.clock.runFor(5_100);
    assert.deepEqual(await state(), [1, true]);
    await hide(page, false);
    assert.deepEqual(await state(), [2, false]);
  });
});

describe("a page that is opened in the background", () => {
  it("gives its stream back after five seconds, and has one as soon as it is seen", async () => {
    const { page } = await openTab("about:blank");
    await stopClock(page);
    await page.goto(`${house.adminUrl}/#/plans`);
    await hide(page, true);
    await ownLive(page, "");
    const state = () => page.evaluate("[streams.length, streams.at(-1).aborted]");
    await page.clock.runFor(4_900);
    assert.deepEqual(await state(), [1, false]);
    await page.clock.runFor(200);
    assert.deepEqual(await state(), [1, true]);
    await hide(page, false);
    assert.deepEqual(await state(), [2, false]);
  });
});

/** Lets the test say when the time of a request is over; tells the time that each was given. */
const DEADLINES = `
  globalThis.deadlines = [];
  AbortSignal.timeout = (ms) => {
    const own = new AbortController();
    deadlines.push({ ms, end: () => own.abort(new DOMException("", "TimeoutError")) });
    return own.signal;
  };
`;

describe("a gateway that takes a request and does not answer", () => {
  it("is told after 15 s, with what is unknown of a change, and the dialog can be used again", async () => {
    const { account } = await house.issue();
    const { page } = await openTab("about:blank");
    await page.addInitScript(DEADLINES);
    await page.goto(`${house.adminUrl}/#/accounts/${account}`);
    await page.getByRole("button", { name: "Suspend" }).click();
    const dialog = page.getByRole("dialog");
    await page.route("**/suspend", () => {});
    const asked = page.waitForRequest("**/suspend");
    await dialog.getByRole("button", { name: "Suspend" }).click();
    await asked;
    const given = await page.evaluate(
      "deadlines.map(({ ms }) => ms).filter((ms, i, all) => all.indexOf(ms) === i)",
    );
    assert.deepEqual(given, [15_000]);
    await page.evaluate("deadlines.forEach(({ end }) => end())");
    await dialog.getByText(/^The gateway does not answer: it hangs/).waitFor();
    await dialog.getByText("It is not known whether this was done").waitFor();
    await page.unroute("**/suspend");
    await dialog.getByRole("button", { name: "Suspend" }).click();
    await page.getByText("Suspend: done").waitFor();
  });

  it("is told by a view, which says nothing of a change", async () => {
    const { page } = await openTab("about:blank");
    await page.addInitScript(DEADLINES);
    await page.route("**/api/plans", () => {});
    const asked = page.waitForRequest("**/api/plans");
    await page.goto(`${house.adminUrl}/#/plans`);
    await asked;
    const told = page.getByRole("alert").getByText(/^The gateway does not answer: it hangs/);
    // The view may ask once more as figures arrive.
    await eventually(async () => {
      await page.evaluate("deadlines.forEach(({ end }) => end())");
      assert.ok(await told.isVisible());
    });
    assert.doesNotMatch(await told.innerText(), /not known/);
  });
});

describe("a gateway that says nothing any more", () => {
  it("is told after 3 s with each second, and has 12 s to answer over each connection", async () => {
    const { page } = await openTab("about:blank");
    const { figures } = await firstMessages(house);
    await stopClock(page);
    await page.goto(`${house.adminUrl}/#/plans`);
    await ownLive(page, `event: figures\ndata: ${JSON.stringify(figures)}\n\n`);
    const states: unknown[] = [];
    await eventually(async () => assert.equal(await page.evaluate("own.state"), "live"));
    for (let second = 1; second <= 26; second++) {
      await page.clock.runFor(1_000);
      await settled(page);
      states.push(await page.evaluate("[own.state, streams.length]"));
    }
    const told = states.map((_, i) => (i < 2 ? "live" : `No news for ${i + 1} s`));
    assert.deepEqual(
      states.map((state) => (state as [string])[0]),
      told,
    );
    const opened = states.map((state) => (state as [string, number])[1]);
    assert.deepEqual([opened[11], opened[14], opened[24]], [1, 2, 2]);
  });
});

describe("a page that connects again", () => {
  it("has each sample and each event once, and its rates since the last figures or a later reading", async () => {
    const { page } = await openTab("about:blank");
    const { hello, figures } = await firstMessages(house);
    await page.goto(`${house.adminUrl}/#/plans`);
    const at = (agoS: number, answered: number) => {
      return { ...figures, atMs: figures.atMs - agoS * 1_000, answered: { 200: answered } };
    };
    const event = (number: number) => ({ number, kind: "sunset", time: 0 });
    const [early, late] = [[at(20, 0), at(15, 5)], at(4, 40)];
    const messages = [
      ["hello", { ...hello, readings: early, happened: [] }],
      ["figures", at(10, 20)],
      ["hello", { ...hello, readings: early, happened: [event(1)] }],
      ["figures", at(8, 24)],
      ["hello", { ...hello, readings: [...early, late], happened: [event(1), event(2)] }],
      ["happened", event(2)],
      ["happened", event(3)],
      ["figures", at(0, 80)],
    ] as const;
    const texts = messages.map(
      ([name, data]) => `event: ${name}\ndata: ${JSON.stringify(data)}\n\n`,
    );
    await ownLive(page, texts.join(""));
    const told = "own.samples.map((one) => [own.figures.atMs / 1000 - one.at, one.requests])";
    const rounded = `[${told}.map((one) => one.map(Math.round)), own.events.map((one) => one.number)]`;
    const [samples, events] = await eventually(async () => {
      const found = await page.evaluate<[number[][], number[]]>(rounded);
      assert.equal(found[0].at(-1)?.[0], 0);
      assert.ok(found[0].length > 4);
      return found;
    });
    assert.deepEqual(events, [3, 2, 1]);
    assert.deepEqual(samples.slice(0, 3), [
      [15, 1],
      [10, 3],
      [8, 2],
    ]);
    assert.deepEqual(samples.slice(-2), [
      [4, 3],
      [0, 10],
    ]);
  });
});

describe("a gateway whose clock steps back", () => {
  it("is plotted from then on, also where the step is among the readings from before the page", async () => {
    const { page } = await openTab("about:blank");
    const { hello, figures } = await firstMessages(house);
    await page.goto(`${house.adminUrl}/#/plans`);
    const at = (agoS: number, answered: number) => {
      return { ...figures, atMs: figures.atMs - agoS * 1_000, answered: { 200: answered } };
    };
    const old = [at(10, 0), at(5, 10)];
    const stepped = [...old, at(65, 20), at(60, 30)];
    const told = (first: object, ...later: object[]) => {
      return [["hello", first], ...later.map((one) => ["figures", one])]
        .map(([name, data]) => `event: ${name}\ndata: ${JSON.stringify(data)}\n\n`)
        .join("");
    };
    const samplesAfter = async (messages: string, count: number) => {
      await ownLive(page, messages);
      return await eventually(async () => {
        const rounded = `own.samples.map((one) => [${figures.atMs} / 1000 - one.at, one.requests])
          .map((one) => one.map(Math.round))`;
        const samples = await page.evaluate<number[][]>(rounded);
        assert.equal(samples.length, count, JSON.stringify(samples));
        return samples;
      });
    };
    const live = told({ ...hello, readings: old }, at(0, 20), at(65, 25), at(60, 35));
    assert.deepEqual(await samplesAfter(live, 1), [[60, 2]]);
    const loaded = [
      [60, 2],
      [58, 5],
    ];
    const hidden = told({ ...hello, readings: stepped }, at(58, 40));
    assert.deepEqual(await samplesAfter(hidden, 2), loaded);
    const before = told({ ...hello, readings: [] }, at(1, 5), at(0, 6));
    assert.deepEqual(await samplesAfter(before + hidden, 2), loaded);
  });
});

describe("a page that is seen again", () => {
  it("says that it connects until the gateway answers", async () => {
    const { page } = await openTab("about:blank");
    await page.clock.install();
    await page.goto(`${house.adminUrl}/#/plans`);
    await page.getByText("Ready", { exact: true }).waitFor();
    await hide(page, true);
    await page.clock.fastForward(6_000);
    await page.route("**/api/events", () => {});
    await hide(page, false);
    await page.getByText("Connecting", { exact: true }).waitFor();
  });
});

describe("the usage of an account", () => {
  it("is read every two seconds", async () => {
    const { account } = await house.issue();
    const { page } = await openTab("about:blank");
    await stopClock(page);
    await page.goto(`${house.adminUrl}/#/accounts/${account}`);
    await page.locator('[data-window="minute"]').waitFor();
    await page.getByText(/^Usage by day is not counted/).waitFor();
    let reads = 0;
    page.on("request", (request) => {
      if (request.url().includes("/api/usage/")) reads += 1;
    });
    for (const expected of [1, 2, 3]) {
      await page.clock.runFor(2_000);
      await settled(page);
      assert.equal(reads, expected);
    }
  });
});

describe("an account whose usage cannot be read for a moment", () => {
  it("says so in its place, and shows the windows again once it can", async () => {
    const { account } = await house.issue();
    const { page } = await openTab("about:blank");
    await page.clock.install();
    await page.goto(`${house.adminUrl}/#/accounts/${account}`);
    const shown = page.locator('[data-window="minute"]');
    await shown.waitFor();
    const json = { code: "store_unavailable", message: "The store is away" };
    await page.route("**/api/usage/*", (route) => route.fulfill({ status: 503, json }));
    await page.clock.runFor(2_500);
    await page.getByRole("alert").getByText("The store is away").waitFor();
    assert.equal(await shown.count(), 0);
    await page.unroute("**/api/usage/*");
    await page.clock.runFor(2_500);
    await shown.waitFor();
  });
});

describe("a note", () => {
  it("is gone after 6 s, and not before", async () => {
    const { account } = await house.issue();
    const { page } = await openTab("about:blank");
    await stopClock(page);
    await page.goto(`${house.adminUrl}/#/accounts/${account}`);
    await page.getByRole("button", { name: "Reset usage" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Reset usage" }).click();
    const note = page.getByText("Reset usage: done", { exact: true });
    await note.waitFor();
    await page.clock.runFor(5_900);
    assert.equal(await note.count(), 1);
    await page.clock.runFor(100);
    await note.waitFor({ state: "detached" });
  });
});
