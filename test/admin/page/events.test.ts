import assert from "node:assert/strict";
import type { Page } from "playwright-core";
import { describe, it } from "vitest";
import { EVENTS } from "../../../src/telemetry/log/events.ts";
import { startTestGateway, type TestGateway } from "../../support/gateway/house.ts";
import { eventually } from "../../support/poll.ts";
import { openTab } from "./browser.ts";
import { firstMessages, holdStream, streamTo } from "./live-stream.ts";

const rowsOf = (page: Page) => page.getByRole("region", { name: "Events" }).locator("tbody tr");

/** The accounts of the events, from the top of the page. */
function accountsOn(page: Page): Promise<string[]> {
  return rowsOf(page).locator("td:last-child").allInnerTexts();
}

/** The accounts of the events that the log tells, the newest first. */
function accountsLogged({ said }: TestGateway): string[] {
  return said
    .filter(({ msg }) => msg === "event")
    .map(({ account = "–" }) => String(account))
    .toReversed();
}

describe("more than 200 events", () => {
  it("leave the newest 200 on the page, and the next one comes on top", async () => {
    await using house = await startTestGateway();
    const { page, complaints } = await openTab(`${house.adminUrl}/#/events`);
    await house.issue();
    await eventually(async () => assert.equal((await accountsOn(page)).length, 1));
    await house.issue({ count: 205 });
    const newest = () => accountsLogged(house).slice(0, 200);
    await eventually(async () => {
      assert.equal(accountsLogged(house).length, 206);
      assert.deepEqual(await accountsOn(page), newest());
    });
    const { account } = await house.issue();
    await eventually(async () => {
      const shown = await accountsOn(page);
      assert.deepEqual([shown[0], shown.length], [account, 200]);
      assert.deepEqual(shown, newest());
    });
    assert.deepEqual(complaints, []);
  });

  it("leave the chosen kind chosen, though the last event of it is no longer among them", async () => {
    await using house = await startTestGateway();
    const { account } = await house.issue();
    const path = `/api/accounts/${account}/suspend`;
    await house.admin(path, { method: "POST", body: "{}" });
    const { page } = await openTab(`${house.adminUrl}/#/events`);
    const choice = page.getByLabel("Kind");
    await page.getByRole("option", { name: "account changed (1)" }).waitFor({ state: "attached" });
    await choice.selectOption("account_changed");
    await eventually(async () => assert.deepEqual(await accountsOn(page), [account]));
    await house.issue({ count: 200 });
    await page.getByRole("option", { name: "account changed (0)" }).waitFor({ state: "attached" });
    assert.equal(await choice.inputValue(), "account_changed");
    await page.getByText("None of the last events is of this kind.", { exact: true }).waitFor();
  });
});

describe("a table that is drawn again", () => {
  it("leaves the keyboard at the same event, and in the table itself", async () => {
    await using house = await startTestGateway();
    const { account } = await house.issue();
    const { hello, figures } = await firstMessages(house);
    const { page } = await openTab("about:blank");
    const event = { time: 0, kind: "account_changed", account };
    const happened = [1, 2].map((number) => ({ ...event, number, env: `was-${number}` }));
    const send = await holdStream(page, [
      ["hello", { ...hello, happened }],
      ["figures", figures],
    ]);
    await page.goto(`${house.adminUrl}/#/events`);
    await rowsOf(page).nth(1).getByRole("link", { name: account }).focus();
    send([["happened", { ...event, number: 3 }]]);
    await eventually(async () => assert.equal(await rowsOf(page).count(), 3));
    const focused = "document.activeElement";
    assert.match(String(await page.evaluate(`${focused}.closest("tr")?.innerText`)), /was-1/);
    await page.getByRole("link", { name: "Backends" }).click();
    await page.getByRole("region", { name: "Backends", exact: true }).focus();
    // A reader who scrolls away from the table is not led back to it.
    await page.setViewportSize({ width: 1280, height: 120 });
    await page.evaluate("scrollTo(0, 0)");
    send([["figures", { ...figures, upstreams: [{ origin: "http://a.test", up: true }] }]]);
    await page.getByText("http://a.test").waitFor();
    assert.deepEqual(await page.evaluate(`[${focused}.ariaLabel, scrollY]`), ["Backends", 0]);
    const isOutside = await page.evaluate(`(async () => {
      const { fill, el, button } = await import("/page/parts/elements.js");
      const [outside, block] = [button("Again"), el("div", {})];
      document.body.append(outside, block);
      outside.focus();
      fill(block, button("Again"));
      return document.activeElement === outside;
    })()`);
    assert.equal(isOutside, true, "what has the keyboard elsewhere keeps it");
    const after = await page.evaluate(`(async () => {
      const { fill, el, button } = await import("/page/parts/elements.js");
      const block = document.body.appendChild(el("div", {}));
      const focusedAfter = (before, ...parts) => {
        fill(block, el("a", { href: "#/" }, "Back"), before);
        before.focus();
        fill(block, ...parts);
        return document.activeElement.textContent;
      };
      const link = () => el("a", { href: "#/accounts" }, "All");
      const next = (disabled) => el("button", { disabled, "data-focus": "next" }, "Next");
      return [
        focusedAfter(link(), el("a", { href: "#/" }, "Back"), link()),
        focusedAfter(next(false), button("Previous"), next(true)),
        focusedAfter(link(), "Nothing is left."),
      ];
    })()`);
    assert.deepEqual(after, ["All", "Previous", "Backends"], "a control that is gone passes it on");
  });
});

describe("a page that is opened just after an event, while another page watches", () => {
  it("has the event once", async () => {
    await using house = await startTestGateway();
    const { page: watching } = await openTab(`${house.adminUrl}/#/events`);
    for (let i = 1; i <= 2; i++) {
      await house.issue();
      // Both know it: from the events before the page was opened, and as one that happened since.
      const { page } = await openTab(`${house.adminUrl}/#/events`);
      await page.getByText("Ready", { exact: true }).waitFor();
      await eventually(async () => assert.deepEqual(await accountsOn(page), accountsLogged(house)));
      const { account } = await house.issue();
      await eventually(async () => assert.equal((await accountsOn(page))[0], account));
      assert.deepEqual(await accountsOn(page), accountsLogged(house));
      await page.context().close();
    }
    assert.deepEqual(await accountsOn(watching), accountsLogged(house));
  });
});

describe("each kind of event", () => {
  /** By the kind as the page says it. */
  const expected = Object.entries(EVENTS).map(([kind, { level }]) => {
    const isBad = level === "error" || kind === "ban" || kind === "key_elsewhere";
    const isGood = ["ban_lifted", "upstream_up", "store_back", "config_reloaded"].includes(kind);
    const colour = isBad ? "bad" : isGood ? "good" : "plain";
    return [kind.replaceAll("_", " "), `badge ${colour}`] as const;
  });

  it("is offered in words; is bad if it is logged as an error, a ban, or a key used elsewhere, and good for what is well again", async () => {
    await using house = await startTestGateway();
    const { hello, figures } = await firstMessages(house);
    const happened = Object.keys(EVENTS).map((kind, at) => ({
      number: at + 1,
      time: 0,
      kind,
      window: "day",
    }));
    const { page } = await openTab(`${house.adminUrl}/#/plans`);
    await streamTo(page, [
      ["hello", { ...hello, happened }],
      ["figures", figures],
    ]);
    await page.goto(`${house.adminUrl}/?again#/events`);
    const badges = rowsOf(page).locator(".badge");
    await eventually(async () => assert.equal(await badges.count(), expected.length));
    const shown = await badges.evaluateAll((all) => {
      return all.map((one) => [one.textContent, one.className] as const);
    });
    assert.deepEqual(Object.fromEntries(shown), Object.fromEntries(expected));
    const offered = await page.getByLabel("Kind").locator("option").allTextContents();
    const words = expected.map(([kind]) => `${kind} (1)`);
    assert.deepEqual(offered.toSorted(), [`all (${expected.length})`, ...words].toSorted());
  });
});
