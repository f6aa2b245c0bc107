import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { each } from "../../support/each.ts";
import { startTestGateway } from "../../support/gateway/house.ts";
import { eventually } from "../../support/poll.ts";
import { checkLook, findings, fromNoon, LOOKS, lookAt, openTab, tabTo } from "./browser.ts";
import { firstMessages, holdStream } from "./live-stream.ts";

const BANS = { strikes: 1, within: "1m", grace: "0s", duration: "10m" };

/** A gateway with something to show in every section. */
async function openFull() {
  const house = await startTestGateway({
    config: { bans: BANS, history: "30d" },
    now: fromNoon(),
  });
  const { key, account } = await house.issue({
    name: "a name that is rather long, as names of customers are",
  });
  for (let i = 0; i < 61; i++) await (await house.ask(key)).text();
  const refused = (await house.ask(key)).headers.get("x-request-id");
  // As long as it may be, without a place where a line may end.
  const { account: held } = await house.issue({ meta: { html: "<b>".repeat(85) } });
  const body = JSON.stringify({ reason: "x".repeat(200) });
  await house.admin(`/api/accounts/${held}/suspend`, { method: "POST", body });
  return Object.assign(house, {
    paths: {
      overview: "",
      accounts: "accounts",
      account: `accounts/${account}`,
      suspended: `accounts/${held}`,
      bans: "bans",
      plans: "plans",
      gateways: "gateways",
      backends: "backends",
      deprecations: "deprecations",
      events: "events",
      explain: `explain/${refused}`,
      configuration: "configuration",
    },
  });
}

describe("every section", () => {
  it("is without findings of axe and without a sideways scroll, however it is looked at", async () => {
    await using house = await openFull();
    const { page, complaints } = await openTab(`${house.adminUrl}/`);
    for (const look of LOOKS) {
      await lookAt(page, look);
      for (const [view, path] of Object.entries(house.paths)) {
        await page.goto(`${house.adminUrl}/#/${path}`);
        await page.getByRole("heading", { level: 1 }).waitFor();
        await eventually(async () => {
          assert.equal(await page.getByText(/^(Loading|Waiting)/).count(), 0);
        });
        await checkLook(page, look.name, view);
      }
    }
    assert.deepEqual(complaints, []);
  });

  it("has no findings while a dialog asks", async () => {
    await using house = await openFull();
    const { page } = await openTab(`${house.adminUrl}/#/accounts`);
    await page.getByRole("button", { name: "Create a key" }).click();
    await page.getByRole("dialog").waitFor();
    assert.deepEqual(await findings(page), []);
  });
});

describe("two thousand accounts", () => {
  it("are searched and paged within moments, and never all in the page at once", async () => {
    await using house = await startTestGateway();
    const names = [
      ["Ada", 1_999],
      ["Grace", 1],
    ] as const;
    for (const [name, count] of names) {
      for (let left: number = count; left > 0; left -= 1_000) {
        await house.issue({ name, count: Math.min(left, 1_000) });
      }
    }
    const { page, complaints } = await openTab(`${house.adminUrl}/#/accounts`);
    await page.getByText("2,000 accounts", { exact: true }).waitFor();
    const rows = page.locator("tbody tr");
    assert.equal(await rows.count(), 50);
    const seen = new Set<string>();
    for (const shown of ["1 to 50", "51 to 100", "101 to 150"]) {
      await page.getByText(`${shown} of 2,000`, { exact: true }).waitFor();
      for (const id of await page.locator("tbody .id").allInnerTexts()) seen.add(id);
      await page.getByRole("button", { name: "Next" }).click();
    }
    assert.equal(seen.size, 150, "no account twice");
    await page.getByLabel("Search").fill("grace");
    await page.getByText("1 of 2,000 accounts", { exact: true }).waitFor();
    assert.equal(await rows.count(), 1);
    // The answer to the first of two searches may come last: it is no answer to the second.
    const held = Promise.withResolvers<void>();
    const asked = page.waitForRequest(/q=ada/);
    await page.route(/q=ada/, async (route) => {
      await held.promise;
      await route.continue();
    });
    await page.getByLabel("Search").fill("ada");
    await asked;
    await page.getByLabel("Search").fill("nobody of this name");
    await page.getByText("Nothing fits this search.").waitFor();
    const late = page.waitForResponse(/q=ada/);
    held.resolve();
    await (await late).finished();
    await page.evaluate("new Promise((resolve) => setTimeout(resolve, 50))");
    assert.equal(await rows.count(), 0);
    await page.getByText("0 of 2,000 accounts", { exact: true }).waitFor();

    // Each account is a question to the store: of so many only where somebody wants it.
    await house.issue();
    await page.getByRole("link", { name: "Plans" }).click();
    await page.getByRole("button", { name: "Look at all 2,001 accounts" }).click();
    await page.getByText("No account has used anything in a running window.").waitFor();
    assert.deepEqual(complaints, []);
  });
});

describe("the backends on a narrow phone", () => {
  it("have their state in sight, however long the path of one of them is", async () => {
    await using house = await startTestGateway();
    const { hello, figures } = await firstMessages(house);
    const backend = `/${"a".repeat(79)}`;
    const upstreams = ["http://10.0.0.21:8080", "http://payments.internal:8080"].map((origin) => ({
      ...{ environment: "production", backend, origin, up: true },
    }));
    const viewport = { width: 320, height: 780 };
    const { page } = await openTab("about:blank", { viewport });
    await holdStream(page, [
      ["hello", hello],
      ["figures", { ...figures, upstreams }],
    ]);
    await page.goto(`${house.adminUrl}/#/backends`);
    await page.getByText("up", { exact: true }).nth(1).waitFor();
    for (const state of each(await page.getByText("up", { exact: true }).all())) {
      const box = await state.boundingBox();
      assert.ok(box !== null && box.x + box.width <= 320, `${box?.x} px from the left`);
    }
    const count = `document.querySelectorAll("td .id")[1].getClientRects().length`;
    const lines = await page.evaluate<number>(count);
    assert.ok(lines <= 2, `an origin takes ${lines} lines`);
  });
});

describe("an address that somebody typed", () => {
  it("shows a section, whatever is in it", async () => {
    await using house = await startTestGateway();
    for (const [hash, title] of [
      ["#/nothing", "Overview"],
      ["#/accounts/%E0%A4%A", "%E0%A4%A"],
      ["#/accounts/<img src=x onerror=alert(1)>", "<img src=x onerror=alert(1)>"],
    ]) {
      const { page, complaints } = await openTab(`${house.adminUrl}/${hash}`);
      const heading = page.getByRole("heading", { level: 1, name: title ?? "", exact: true });
      await heading.waitFor();
      assert.equal(await page.locator("main img").count(), 0);
      assert.deepEqual(complaints, []);
    }
  });
});

/** Runs in the page: what the styles make of marks that mean something, by the names of colours. */
const MARKS = `(() => {
  const at = (...names) => {
    let inner = document.getElementById("main");
    for (const name of names) {
      const [tag, ...classes] = name.split(".");
      const one = document.createElement(tag);
      one.className = classes.join(" ");
      inner.append(one);
      inner = one;
    }
    return inner;
  };
  const probe = at("span");
  const rgb = (name) => {
    probe.style.color = "var(--" + name + ")";
    return getComputedStyle(probe).color;
  };
  const colours = ["text", "muted", "accent", "good", "warn", "bad"];
  const nameOf = (value) => colours.find((one) => rgb(one) === value) ?? value;
  const kinds = [".good", ".warn", ".bad", ""];
  const badges = kinds.map((kind) => nameOf(getComputedStyle(at("span.badge" + kind)).color));
  const lines = [".accent", ".warn", ".bad", ".muted"].map((kind) => {
    return nameOf(getComputedStyle(at("dl.legend", "dt" + kind), "::before").backgroundColor);
  });
  const own = (element, name) => getComputedStyle(element).getPropertyValue(name);
  const bars = ["meter.near", "meter.full", "meter"].map((name) => own(at(name), "--fill"));
  const fills = bars.map((fill) => colours.find((one) => own(probe, "--" + one) === fill) ?? "");
  const spaces = [["div.failure", "p"], ["dialog", "p.error"], ["td.words"], ["td.details"]];
  const breaks = spaces.map((names) => own(at(...names), "white-space"));
  const danger = nameOf(own(at("button.danger"), "color"));
  const skip = document.querySelector(".skip");
  const [before] = [skip.getBoundingClientRect().right, skip.focus()];
  const notes = own(document.getElementById("notes"), "position");
  const isShown = skip.getBoundingClientRect().left >= 0;
  return { badges, lines, fills, breaks, danger, notes, skip: [before < 0, isShown] };
})()`;

describe("marks", () => {
  it("have the colour of what they mean, several reasons a line each, and the way to the content shows with the keyboard", async () => {
    await using house = await startTestGateway();
    const { page } = await openTab(`${house.adminUrl}/#/backends`);
    await page.getByText("Ready").waitFor();
    assert.deepEqual(await page.evaluate(MARKS), {
      badges: ["good", "warn", "bad", "muted"],
      lines: ["accent", "warn", "bad", "muted"],
      fills: ["warn", "bad", ""],
      breaks: ["pre-line", "pre-line", "pre-line", "normal"],
      ...{ danger: "bad", notes: "fixed", skip: [true, true] },
    });
    await tabTo(page, "Overview");
    const width = "getComputedStyle(document.activeElement).outlineWidth";
    assert.equal(await page.evaluate(width), "2px");
  });
});

describe("a store that does not answer", () => {
  it("is told where the usage was, which comes back as it was", async () => {
    await using house = await startTestGateway();
    const { account } = await house.issue();
    const { page } = await openTab(`${house.adminUrl}/#/accounts/${account}`);
    await page.locator("[data-window=minute]").waitFor();
    const message = "The rate limit store is unavailable: retry shortly";
    const body = JSON.stringify({ code: "store_unavailable", message, status: 503 });
    await page.route("**/api/usage/*", (route) => route.fulfill({ status: 503, body }));
    await page.getByText(message).waitFor();
    await page.unroute("**/api/usage/*");
    await page.locator("[data-window=minute]").waitFor();
  });
});

describe("a gateway that goes away", () => {
  it("is told on the page, which comes back with it", async () => {
    const house = await startTestGateway();
    const { page } = await openTab(`${house.adminUrl}/`);
    await page.getByText("Ready").waitFor();
    await house[Symbol.asyncDispose]();
    await page.getByText("The gateway does not answer: is it running?").waitFor();
    await page.locator("body.stale").waitFor();
    const listen = new URL(house.adminUrl).host;
    await using _again = await startTestGateway({ config: { admin: { listen } } });
    await page.getByText("Ready").waitFor();
    await page.locator("body:not(.stale)").waitFor();
  });
});
