import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { startTestGateway } from "../../support/gateway/house.ts";
import { eventually } from "../../support/poll.ts";
import { openTab, textOf } from "./browser.ts";
import { firstMessages, holdStream } from "./live-stream.ts";

describe("the list of accounts", () => {
  it("has what was changed elsewhere while it is open, without a reload of the page", async () => {
    await using house = await startTestGateway();
    await house.issue({ account: "first" });
    const { page, complaints } = await openTab(`${house.adminUrl}/#/accounts`);
    await page.getByText("1 account", { exact: true }).waitFor();
    await page.getByText("Ready", { exact: true }).waitFor();
    const row = (account: string) => page.locator("tbody tr").filter({ hasText: account });
    await row("first").waitFor();
    await house.issue({ account: "second" });
    await row("second").waitFor();
    await house.admin("/api/accounts/first/suspend", { method: "POST", body: "{}" });
    await row("first").getByText("suspended").waitFor();
    assert.deepEqual(complaints, []);
  });

  it("leaves the page alive beside an older gateway, which does not count the changes", async () => {
    await using house = await startTestGateway();
    const { hello, figures } = await firstMessages(house);
    const { page } = await openTab("about:blank");
    await holdStream(page, [
      ["hello", hello],
      ["figures", { ...figures, records: undefined }],
    ]);
    await page.goto(`${house.adminUrl}/#/accounts`);
    await page.getByText("Ready", { exact: true }).waitFor();
  });

  it("has after the way back what was typed into its search just before an account was opened", async () => {
    await using house = await startTestGateway();
    for (const account of ["first", "second"]) await house.issue({ account });
    const { page, complaints } = await openTab(`${house.adminUrl}/#/accounts`);
    const first = page.getByRole("link", { name: "first", exact: true });
    await first.waitFor();
    // The search is sent after a pause, which does not end before the click.
    await page.clock.install();
    await page.clock.pauseAt(Date.now() + 1_000);
    await page.getByLabel("Search").fill("sec");
    await first.click();
    await page.getByRole("heading", { level: 1, name: "first" }).waitFor();
    await page.goBack();
    await page.getByText("1 account found", { exact: true }).waitFor();
    assert.equal(await page.getByLabel("Search").inputValue(), "sec");
    assert.deepEqual(complaints, []);
  });

  it("has no key in its address that was typed just before an account was opened", async () => {
    await using house = await startTestGateway();
    const { key } = await house.issue({ account: "first" });
    const { page, complaints } = await openTab(`${house.adminUrl}/#/accounts`);
    await page.getByRole("link", { name: "first", exact: true }).waitFor();
    await page.evaluate(`
      document.getElementById("search").value = ${JSON.stringify(key)};
      document.querySelector("tbody a.id").click();
    `);
    await page.getByRole("heading", { level: 1, name: "first" }).waitFor();
    await page.goBack();
    assert.equal(page.url(), `${house.adminUrl}/#/accounts`);
    assert.deepEqual(complaints, []);
  });

  it("is where it was scrolled to after the way back from an account, and at its top after a link", async () => {
    await using house = await startTestGateway();
    await house.issue({ count: 40 });
    const { page, complaints } = await openTab(`${house.adminUrl}/#/accounts`);
    await page.setViewportSize({ width: 800, height: 300 });
    const links = page.locator("tbody a.id");
    await links.nth(39).waitFor();
    const y = () => page.evaluate<number>("scrollY");
    await links.nth(20).hover();
    const left = await y();
    assert.ok(left > 100, String(left));
    await links.nth(20).click();
    await page.getByRole("heading", { level: 1, name: /^a_/ }).waitFor();
    assert.equal(await y(), 0);
    await page.goBack();
    await eventually(async () => assert.equal(await y(), left));
    await page.evaluate("location.hash = '#/bans'");
    await page.evaluate("location.hash = '#/accounts'");
    await links.nth(39).waitFor();
    assert.equal(await y(), 0);
    assert.deepEqual(complaints, []);
  });

  it("is where it was scrolled to though it was passed on the way back before it was drawn", async () => {
    await using house = await startTestGateway();
    await house.issue({ count: 40 });
    const { page, complaints } = await openTab(`${house.adminUrl}/#/bans`);
    await page.setViewportSize({ width: 800, height: 300 });
    await page.evaluate("location.hash = '#/accounts'");
    const links = page.locator("tbody a.id");
    await links.nth(20).hover();
    const y = () => page.evaluate<number>("scrollY");
    const left = await y();
    await links.nth(20).click();
    const heading = (name: string | RegExp) =>
      page.getByRole("heading", { level: 1, name }).waitFor();
    await heading(/^a_/);
    const held = Promise.withResolvers<void>();
    await page.route("**/api/accounts?*", async (route) => {
      await held.promise;
      await route.continue();
    });
    for (const name of ["Accounts", "Bans"]) {
      await page.keyboard.press("Alt");
      await page.goBack();
      await heading(name);
    }
    held.resolve();
    await page.goForward();
    await eventually(async () => assert.equal(await y(), left));
    assert.deepEqual(complaints, []);
  });

  it("stays where somebody scrolls it on the way back, though no key, wheel or pointer tells of it", async () => {
    await using house = await startTestGateway();
    await house.issue({ count: 40 });
    const { page, complaints } = await openTab(`${house.adminUrl}/#/accounts`);
    await page.setViewportSize({ width: 800, height: 300 });
    const links = page.locator("tbody a.id");
    await links.nth(30).click();
    await page.getByRole("heading", { level: 1, name: /^a_/ }).waitFor();
    const grows = (by: number) =>
      page.evaluate<number>(`(async () => {
        const grown = document.querySelector("#main").appendChild(document.createElement("div"));
        grown.style.height = "${by}px";
        await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));
        return scrollY;
      })()`);
    await page.route("**/api/accounts?*", () => {});
    await page.goBack();
    await page.getByRole("heading", { level: 1, name: "Accounts" }).waitFor();
    assert.ok((await grows(500)) > 300, "it is scrolled as far as it can be");
    // A drag of the scroll bar, of which Firefox tells a page nothing else.
    await page.evaluate("scrollTo(0, 200)");
    assert.equal(await grows(200), 200);
    assert.equal(await grows(2_000), 200);
    assert.deepEqual(complaints, []);
  });

  it("is at the page that was turned to after the way back from an account, and after a reload", async () => {
    await using house = await startTestGateway();
    const body = JSON.stringify({ environment: "production", plan: "free", count: 101 });
    assert.equal((await house.admin("/api/keys", { method: "POST", body })).status, 201);
    const { page, complaints } = await openTab(`${house.adminUrl}/#/accounts`);
    const pager = page.locator(".pager");
    const isThere = () => pager.getByText("101 to 101 of 101", { exact: true }).waitFor();
    for (const from of [51, 101]) {
      await page.getByRole("button", { name: "Next" }).click();
      await pager.getByText(`${from} to`).waitFor();
    }
    const link = page.locator("tbody a.id");
    const account = await textOf(link);
    await link.click();
    await page.getByRole("heading", { level: 1, name: account }).waitFor();
    await page.goBack();
    await isThere();
    assert.equal(await textOf(link), account);
    await page.reload();
    await isThere();
    await page.getByRole("button", { name: "Previous" }).click();
    await pager.getByText("51 to 100 of 101", { exact: true }).waitFor();
    assert.deepEqual(complaints, []);
  });

  it("begins again if the gateway does not know the place that the browser kept", async () => {
    await using house = await startTestGateway();
    const { account } = await house.issue();
    const { page } = await openTab(`${house.adminUrl}/#/accounts`);
    const first = "/api/accounts?order=newest&limit=50";
    const list = { trail: [first, `${first}&after=a_gone`], at: 1 };
    await page.evaluate(`history.replaceState(${JSON.stringify({ list })}, "")`);
    const refused = page.waitForResponse("**/*after=a_gone");
    await page.reload();
    assert.equal((await refused).status(), 400);
    await page.locator("tbody tr").filter({ hasText: account }).waitFor();
  });
});

describe("the address", () => {
  it("has the request that is explained and the kind of events that is chosen, so that they can be passed on", async () => {
    await using house = await startTestGateway({ config: { plans: { free: { day: 1 } } } });
    const { key } = await house.issue();
    await (await house.ask(key)).text();
    const refused = await house.ask(key);
    await refused.text();
    const id = refused.headers.get("x-request-id") ?? "";
    const { page, complaints } = await openTab(`${house.adminUrl}/#/explain`);
    await page.getByLabel("Request id").fill(id);
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "The request" }).waitFor();
    await eventually(() => assert.equal(new URL(page.url()).hash, `#/explain/${id}`));
    await page.goto(`${house.adminUrl}/#/events`);
    const kind = page.getByLabel("Kind");
    await kind.selectOption("key_issued");
    assert.equal(new URL(page.url()).hash, "#/events?kind=key_issued");
    await page.reload();
    await page.getByRole("region", { name: "Events" }).waitFor();
    assert.equal(await kind.inputValue(), "key_issued");
    await kind.selectOption("");
    assert.equal(new URL(page.url()).hash, "#/events");
    assert.deepEqual(complaints, []);
  });
});
