import assert from "node:assert/strict";
import type { Locator, Page } from "playwright-core";
import { describe, it } from "vitest";
import { startTestGateway, type TestGateway } from "../../support/gateway/house.ts";
import { openTab } from "./browser.ts";

/** The text that is selected. */
const selected = (page: Page) => page.evaluate<string>("getSelection().toString()");

/** Selects the text of an element, as somebody who copies it does. */
async function select(one: Locator): Promise<string> {
  await one.selectText();
  return selected(one.page());
}

async function ban(house: TestGateway, account: string): Promise<void> {
  const body = JSON.stringify({ id: account, for: "1h" });
  await (await house.admin("/api/bans", { method: "POST", body })).text();
}

describe("text that is selected", () => {
  it("stays while its events go on, which are shown when it is selected no more, or after 10 s", async () => {
    await using house = await startTestGateway();
    const { account } = await house.issue();
    await ban(house, account);
    const { page, complaints } = await openTab(`${house.adminUrl}/`);
    await page.getByText("Ready", { exact: true }).waitFor();
    await page.clock.install();
    await page.getByRole("link", { name: "Events" }).click();
    const rows = page.getByRole("region", { name: "Events" }).locator("tbody tr");
    const bans = rows.filter({ hasText: "by hand" });
    const known = (count: number) =>
      page.locator("option", { hasText: `ban (${count})` }).waitFor({ state: "attached" });
    await known(1);
    assert.match(await select(bans.first().locator(".names")), /^by hand/);
    await ban(house, account);
    await known(2);
    // The time until it ends is told anew.
    assert.match(await selected(page), /^by hand/);
    assert.equal(await bans.count(), 1);
    await page.evaluate("getSelection().removeAllRanges()");
    await bans.nth(1).waitFor();
    await select(bans.first().locator(".names"));
    await ban(house, account);
    await known(3);
    assert.equal(await bans.count(), 2);
    await page.clock.fastForward(10_000);
    await bans.nth(2).waitFor();
    await select(bans.first().locator(".names"));
    assert.deepEqual([await bans.count(), await rows.count()], [3, 4]);
    await page.getByLabel("Kind").selectOption("ban");
    assert.equal(await rows.count(), 3, "what was chosen is shown at once");
    assert.deepEqual(complaints, []);
  });

  it("stays while a list is read again, and goes when its page is turned", async () => {
    await using house = await startTestGateway();
    await house.issue({ count: 51 });
    const { page, complaints } = await openTab(`${house.adminUrl}/#/accounts`);
    const rows = page.getByRole("region", { name: "Accounts" }).locator("tbody tr");
    const text = await select(rows.nth(1).locator("a"));
    const { account } = await house.issue();
    await page.getByText("52 accounts", { exact: true }).waitFor();
    assert.equal(await selected(page), text);
    const theirs = page.getByRole("link", { name: account, exact: true });
    assert.equal(await theirs.count(), 0);
    await page.evaluate("getSelection().removeAllRanges()");
    await theirs.waitFor();
    await select(rows.nth(1).locator("a"));
    await page.evaluate("document.querySelector('.next').click()");
    await page.getByText("51 to 52 of 52", { exact: true }).waitFor();
    assert.deepEqual(complaints, []);
  });

  it("lets a page be turned once by two clicks, though its list waited to be drawn or is selected again", async () => {
    await using house = await startTestGateway();
    await house.issue({ count: 51 });
    const { page, complaints } = await openTab(`${house.adminUrl}/#/accounts`);
    const rows = page.getByRole("region", { name: "Accounts" }).locator("tbody tr");
    await select(rows.nth(1).locator("a"));
    const { account } = await house.issue();
    await page.getByText("52 accounts", { exact: true }).waitFor();
    const held = Promise.withResolvers<void>();
    await page.route(/\/api\/accounts\?.*after=/, async (route) => {
      await held.promise;
      await route.continue();
    });
    const next = page.getByRole("button", { name: "Next" });
    await next.click();
    await page.getByRole("link", { name: account, exact: true }).waitFor();
    await next.click();
    await select(rows.nth(1).locator("a"));
    held.resolve();
    // A list that waits is drawn after 10 s.
    await page.getByText("51 to 52 of 52", { exact: true }).waitFor({ timeout: 8_000 });
    assert.deepEqual(complaints, []);
  });

  it("lets nothing be drawn that held only while it was selected", async () => {
    await using house = await startTestGateway();
    const { page, complaints } = await openTab(`${house.adminUrl}/#/backends`);
    const drawn = await page.evaluate<string[]>(`(async () => {
      const { fillFailure, fillOnce } = await import("/page/parts/elements.js");
      const part = document.getElementById("notes");
      const show = (text) => fillOnce(part, text, () => [text]);
      const after = async (draw) => {
        show("first");
        getSelection().selectAllChildren(part);
        show("second");
        draw();
        getSelection().removeAllRanges();
        await new Promise((resolve) => document.addEventListener("selectionchange", resolve));
        return part.textContent;
      };
      return [await after(() => show("first")), await after(() => fillFailure(part, new Error("why")))];
    })()`);
    assert.deepEqual(drawn, ["first", "why"]);
    assert.deepEqual(complaints, []);
  });

  it("stays in an instant whose words change, until it is selected no more or for 10 s", async () => {
    await using house = await startTestGateway();
    for (const { account } of [await house.issue(), await house.issue()]) await ban(house, account);
    const { page, complaints } = await openTab(`${house.adminUrl}/#/bans`);
    await page.clock.install();
    await page.reload();
    const ends = page.getByRole("region", { name: "Bans" }).locator("time");
    const text = await select(ends.first());
    assert.match(text, /^in (1 h|59 min)$/);
    const endIn = (minutes: number) =>
      page.evaluate(`document.querySelectorAll("#main time").forEach(({ dataset }) => {
        dataset.unix = Math.floor(Date.now() / 1_000) + ${minutes * 60 + 30};
      })`);
    await endIn(20);
    await ends.nth(1).getByText("in 20 min", { exact: true }).waitFor();
    assert.deepEqual([await selected(page), await ends.first().textContent()], [text, text]);
    await page.evaluate("getSelection().removeAllRanges()");
    await ends.first().getByText("in 20 min", { exact: true }).waitFor();
    await select(ends.first());
    await endIn(10);
    await ends.nth(1).getByText("in 10 min", { exact: true }).waitFor();
    assert.equal(await selected(page), "in 20 min");
    await page.clock.fastForward(10_000);
    await ends.first().getByText("in 10 min", { exact: true }).waitFor();
    assert.deepEqual(complaints, []);
  });

  it("stays in the word that there is no account yet", async () => {
    await using house = await startTestGateway();
    const { page, complaints } = await openTab(`${house.adminUrl}/#/accounts`);
    const text = await select(page.getByText("No account yet"));
    const { account } = await house.issue();
    await page.getByText("1 account", { exact: true }).waitFor();
    assert.equal(await selected(page), text);
    await page.evaluate("getSelection().removeAllRanges()");
    await page.getByRole("link", { name: account, exact: true }).waitFor();
    assert.deepEqual(complaints, []);
  });
});
