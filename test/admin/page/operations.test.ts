import assert from "node:assert/strict";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, it } from "vitest";
import { startTestGateway, type TestGateway } from "../../support/gateway/house.ts";
import { eventually } from "../../support/poll.ts";
import { cells, focused, openTab, textOf } from "./browser.ts";

let house: TestGateway;
beforeAll(async () => {
  house = await startTestGateway();
});
afterAll(async () => {
  await house[Symbol.asyncDispose]();
});

async function openView(section: string, init = ""): Promise<Page> {
  const { page } = await openTab("about:blank");
  await page.addInitScript(init);
  await page.goto(`${house.adminUrl}/#/${section}`);
  return page;
}

/** Presses a button, and that of the dialog which it opens. */
async function act(page: Page, name: string, verb: string): Promise<void> {
  await page.getByRole("button", { name, exact: true }).first().click();
  await page.getByRole("dialog").getByRole("button", { name: verb, exact: true }).click();
}

/**
 * Opens the account, which is not read again as a whole each ten seconds. The page knows the gateway's
 * clock then: the Date of an answer is that of the machine.
 */
async function openWithoutRereading(adminUrl: string, account: string): Promise<Page> {
  const { page } = await openTab("about:blank");
  await page.addInitScript(`
    const every = globalThis.setInterval;
    globalThis.setInterval = (run, ms) => (ms === 10_000 ? 0 : every(run, ms));
  `);
  await page.goto(adminUrl);
  await page.getByText("Ready", { exact: true }).waitFor();
  await page.goto(`${adminUrl}/#/accounts/${account}`);
  return page;
}

describe("what another operator does to an open account", () => {
  it("is shown as soon as the figures tell of a change, and leaves what is typed meanwhile", async () => {
    const { account } = await house.issue();
    const page = await openWithoutRereading(house.adminUrl, account);
    await page.getByRole("button", { name: "Change limits" }).click();
    const typed = page.getByRole("dialog").getByLabel("Limits of its own");
    await typed.fill("minute=7");
    const suspend = { method: "POST", body: JSON.stringify({ reason: "unpaid" }) };
    await (await house.admin(`/api/accounts/${account}/suspend`, suspend)).text();
    await page.locator(".lead", { hasText: "suspended unpaid" }).waitFor();
    // Out of sight for a moment, after which no figures tell of that change again.
    await page.evaluate('Object.defineProperty(document, "hidden", { value: true })');
    await house.issue({ account, name: "theirs" });
    await page.locator("td", { hasText: "theirs" }).waitFor();
    assert.equal(await typed.inputValue(), "minute=7");
  });
});

describe("a suspension and a key that end by themselves", () => {
  it("are shown as ended without the next reading of the whole account", async () => {
    let nowMs = Date.UTC(2026, 6, 15, 12);
    await using house = await startTestGateway({ now: () => nowMs });
    const { account, id } = await house.issue();
    const post = async (path: string, body: object) => {
      const answer = await house.admin(path, { method: "POST", body: JSON.stringify(body) });
      assert.ok(answer.ok, await answer.text());
    };
    await post(`/api/accounts/${account}/suspend`, { for: "1h" });
    await post(`/api/keys/${id}/rotate`, { grace: "1h" });
    const page = await openWithoutRereading(house.adminUrl, account);
    await page.getByRole("button", { name: "Resume" }).waitFor();
    await page.getByText(/^works ends in/).waitFor();
    nowMs += 3_600_000;
    await page.getByRole("button", { name: "Suspend" }).waitFor();
    await page.getByText("expired", { exact: true }).waitFor();
    assert.equal(await page.getByRole("button", { name: "Rotate" }).count(), 1);
  });
});

describe("a key that is made on the page", () => {
  it("has the scopes and limits that were typed, without the blanks around them", async () => {
    const page = await openView("accounts");
    await page.getByRole("button", { name: "Create a key" }).click();
    const dialog = page.getByRole("dialog");
    for (const [label, text] of [
      ["Name", "  a shop "],
      ["Account", " typed "],
      ["Scopes", "orders:read ,, orders:write"],
      ["Limits of this key", "day = 500"],
      ["Limits of its own", "minute=7, day=900"],
    ] as const) {
      await dialog.getByLabel(label, { exact: true }).fill(text);
    }
    await dialog.getByRole("button", { name: "Create", exact: true }).click();
    await page.getByRole("textbox", { name: "The key" }).waitFor();
    const [made] = (await (await house.admin("/api/keys?account=typed")).json()) as object[];
    const { name, scopes, caps, limits } = made as Record<string, object>;
    assert.deepEqual(
      { name, scopes, caps, limits },
      {
        ...{ name: "a shop", scopes: ["orders:read", "orders:write"] },
        ...{ caps: { day: 500 }, limits: { minute: 7, day: 900 } },
      },
    );
  });

  it("can be copied where the browser has no clipboard for pages, as over plain HTTP", async () => {
    const without = "Object.defineProperty(navigator, 'clipboard', { value: undefined });";
    const page = await openView("accounts", without);
    await page.getByRole("button", { name: "Create a key" }).click();
    await page.getByRole("button", { name: "Create", exact: true }).click();
    const shown = page.getByRole("textbox", { name: "The key" });
    const key = await shown.inputValue();
    await page.getByRole("button", { name: "Copy" }).click();
    await page.getByText("Copied", { exact: true }).waitFor();
    await page.getByRole("button", { name: "I have stored it" }).click();
    await page.getByRole("dialog").waitFor({ state: "detached" });
    const found = await house.admin("/api/keys/find", {
      method: "POST",
      body: JSON.stringify({ key }),
    });
    const { account } = (await found.json()) as { account: string };
    await page.getByLabel("Search").focus();
    await page.keyboard.press("Control+V");
    // The search finds the account of a key that is whole.
    await page.waitForURL(`**/#/accounts/${account}`);
  });

  it("was not used yet, and the page says no day", async () => {
    await using own = await startTestGateway();
    const { account } = await own.issue();
    const { page } = await openTab(`${own.adminUrl}/#/accounts/${account}`);
    await page.getByRole("region", { name: "Keys", exact: true }).waitFor();
    const [key] = await cells(page, "Keys");
    assert.deepEqual(key?.slice(2, 6).toSpliced(2, 1), ["–", "–", "–"]);
    await page.route("**/api/keys?*", async (route) => {
      const response = await route.fetch();
      const [{ lastUsed: _, ...told }] = (await response.json()) as [{ lastUsed: unknown }];
      await route.fulfill({ response, json: [told] });
    });
    await page.reload();
    const region = page.getByRole("region", { name: "Keys", exact: true });
    await region.waitFor();
    assert.ok(!(await region.locator("th").allInnerTexts()).includes("Last used"), "it is unknown");
    const [unknown] = await cells(page, "Keys");
    assert.equal(unknown?.length, (key?.length ?? 0) - 1);
  });
});

describe("a dialog", () => {
  it("no longer shows an error while the next try is under way", async () => {
    const { account } = await house.issue();
    const page = await openView(`accounts/${account}`);
    await page.getByRole("button", { name: "Change limits" }).click();
    const dialog = page.getByRole("dialog");
    const send = dialog.getByRole("button", { name: "Change limits" });
    await page.getByLabel("Limits of its own").fill("fortnight=5");
    await send.click();
    const alert = dialog.getByRole("alert");
    await alert.getByText(/^Cannot .*fortnight/).waitFor();
    const focused = () => page.evaluate("document.activeElement.textContent");
    await eventually(async () => assert.equal(await focused(), "Change limits"));
    const release = Promise.withResolvers<void>();
    await page.route("**/api/accounts/*", async (route) => {
      await release.promise;
      await route.continue();
    });
    await page.getByLabel("Limits of its own").fill("day=70");
    await send.click();
    await eventually(async () => assert.equal(await dialog.locator(".error").textContent(), ""));
    assert.equal(await send.isDisabled(), true);
    release.resolve();
    await dialog.waitFor({ state: "detached" });
  });

  it("gives the keyboard to the view, if what opened it is gone", async () => {
    const { account } = await house.issue();
    const page = await openView(`accounts/${account}`);
    await page.getByRole("button", { name: "Revoke" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Revoke" }).click();
    await page.getByRole("dialog").waitFor({ state: "detached" });
    await page.getByText("revoked", { exact: true }).waitFor();
    await page.getByRole("button", { name: "Suspend" }).click();
    await page.evaluate("document.querySelector('.heading').remove()");
    await page.keyboard.press("Escape");
    await page.getByRole("dialog").waitFor({ state: "detached" });
    await eventually(async () => {
      assert.equal(await page.evaluate("document.activeElement.id"), "main");
    });
  });

  it("tells every reason for which a reload was refused", async () => {
    await using own = await startTestGateway();
    const { page } = await openTab(`${own.adminUrl}/#/configuration`);
    await page.getByText("enterprise").first().waitFor();
    await own.rewrite({ storePrefix: "other", expectedGateways: 2, workers: 1, keys: "./k.json" });
    await page.getByRole("button", { name: "Reload" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Reload" }).click();
    const said = page.getByRole("dialog").getByRole("alert");
    await eventually(async () => {
      const text = await textOf(said);
      for (const name of ["storePrefix", "keys"]) {
        assert.equal(text.split(`${name} `).length, 2, text);
      }
    });
  });
});

describe("a change that was made on the page", () => {
  it("is said and shown at once, before anything is asked for again by itself", async () => {
    const { account, id } = await house.issue();
    const page = await openView(`accounts/${account}`);
    await page.getByRole("button", { name: "Revoke" }).waitFor();
    await page.clock.install();
    await page.reload();
    await page.getByRole("button", { name: "Revoke" }).waitFor();
    await page.locator("[data-window=minute]").waitFor();
    // No timer of the page ends any more.
    await page.clock.pauseAt(Date.now() + 60_000);
    const keys = () => cells(page, "Keys");
    const count = (rows: number) =>
      eventually(async () => assert.equal((await keys()).length, rows));
    await act(page, "Suspend", "Suspend");
    await page.getByText("suspended", { exact: true }).waitFor();
    await act(page, "Add key", "Create");
    await page.getByRole("button", { name: "I have stored it" }).click();
    await count(2);
    const own = page.getByRole("row").filter({ hasText: id });
    await own.getByRole("button", { name: "Rotate" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Rotate" }).click();
    await page.getByRole("button", { name: "I have stored it" }).click();
    await count(3);
    await own.getByRole("button", { name: "Limits" }).click();
    await page.getByLabel("Limits of this key").fill("day=5");
    await page.getByRole("dialog").getByRole("button", { name: "Change limits" }).click();
    await own.getByText("5 a day").waitFor();
    await own.getByRole("button", { name: "Revoke" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Revoke" }).click();
    await own.getByText("revoked", { exact: true }).waitFor();
    await act(page, "Ban", "Ban");
    await act(page, "Lift the ban", "Lift the ban");
    await page.locator(".banned").waitFor({ state: "detached" });
    const notes = await page.locator(".note").allInnerTexts();
    assert.match(notes[3] ?? "", /^Ban: until [-\d]{10} [:\d]{8} UTC$/);
    assert.deepEqual(notes.toSpliced(3, 1), [
      ...["Suspend: done", `Limits of key ${id}: changed`, `Key ${id} is revoked`],
      `The ban of ${account} is lifted`,
    ]);
    await act(page, "Ban", "Ban");
    await page.locator(".banned").waitFor();
    await page.getByRole("link", { name: "Bans" }).click();
    await act(page, "Lift", "Lift the ban");
    await page.getByText("No account is banned.").waitFor();
  });
});

describe("the page", () => {
  it("sends no cookie, as other services of this host may have set some", async () => {
    const { page } = await openTab("about:blank");
    const { hostname } = new URL(house.adminUrl);
    await page.context().addCookies([{ name: "other", value: "1", domain: hostname, path: "/" }]);
    const asked = page.waitForRequest("**/api/accounts?*");
    await page.goto(`${house.adminUrl}/#/accounts`);
    const request = await asked;
    assert.equal((await request.allHeaders()).cookie, undefined);
    const cached = await (await request.response())?.headerValue("cache-control");
    assert.equal(cached, "no-store", "what is shown comes from the gateway, and is kept nowhere");
  });

  it("begins each section at its top, with the keyboard in it", async () => {
    const page = await openView("configuration");
    await page.setViewportSize({ width: 800, height: 300 });
    await page.getByText("telemetry", { exact: true }).waitFor();
    await page.evaluate("scrollTo(0, 400)");
    await eventually(async () => assert.ok((await page.evaluate<number>("scrollY")) > 0));
    await page.evaluate("location.hash = '#/plans'");
    await page.getByRole("heading", { level: 1, name: "Plans" }).waitFor();
    assert.deepEqual(await page.evaluate("[scrollY, document.activeElement.id]"), [0, "main"]);
  });

  it("takes an address that was typed by hand as it is, though it is no encoding", async () => {
    const { page, complaints } = await openTab(`${house.adminUrl}/#/accounts/100%`);
    await page.getByText("There is no such account.").waitFor();
    assert.equal(await textOf(page.getByRole("heading", { level: 1 })), "100%");
    assert.deepEqual(complaints, []);
  });

  it("explains a request without an account, and of one it asks for an id first", async () => {
    const answer = await fetch(`${house.url}/v1/pets`);
    await answer.text();
    const id = answer.headers.get("x-request-id") ?? "";
    const page = await openView(`explain/${id}`);
    await page.locator(".rule").waitFor();
    const names = await page.locator("dl.settings dt").allInnerTexts();
    assert.deepEqual(names, ["request", "answer", "environment", "configuration"]);
    const texts = await textOf(page.locator("#main"));
    assert.ok(
      !/first instant|Windows/.test(texts),
      "it has no windows, and no time at which it passes",
    );
    await page.goto(`${house.adminUrl}/#/explain`);
    await page.getByRole("button", { name: "Explain" }).click();
    const field = page.getByLabel("Request id");
    assert.ok(await field.evaluate((one) => (one as unknown as { required: boolean }).required));
    assert.equal(await focused(page), "Request id");
    const asked = page.waitForRequest(/\/api\/explain\/no%2Fsuch$/);
    await field.fill(" no/such ");
    await page.keyboard.press("Enter");
    await asked;
  });
});
