import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { startTestGateway } from "../../support/gateway/house.ts";
import { openTab, textOf } from "./browser.ts";

/** A dialog asks there for its choices. */
const OFFERS = /\/api\/(?:config|plans)$/;
const TOKEN = "canary-admin-token-0123456789abcdef";

describe("A dialog", () => {
  it("that shows a key this once stays open however often Escape is pressed", async () => {
    await using house = await startTestGateway();
    const { page, complaints } = await openTab(`${house.adminUrl}/#/accounts`);
    await page.addInitScript(`Object.defineProperty(navigator, "clipboard", {
      value: { writeText: async (text) => { globalThis.copied = text; } },
    });`);
    await page.reload();
    await page.getByRole("button", { name: "Create a key" }).click();
    await page.getByRole("button", { name: "Create", exact: true }).click();
    const shown = page.getByRole("textbox", { name: "The key" });
    await shown.waitFor();
    const [made] = (await (await house.admin("/api/keys")).json()) as {
      id: string;
      account: string;
    }[];
    const told = `Key ${made?.id} of account ${made?.account}. It is shown this once: store it now.`;
    assert.equal(await textOf(page.locator("dialog p.words")), told);
    assert.equal(await shown.isEditable(), false);
    await page.getByRole("button", { name: "Copy" }).click();
    await page.getByText("Copied", { exact: true }).waitFor();
    assert.equal(await page.evaluate("copied"), await shown.inputValue());
    assert.equal(await page.locator("dialog:modal").count(), 1, "the rest cannot be reached");
    // Browsers let a page refuse to close only so many times.
    for (let i = 0; i < 8; i++) await page.keyboard.press("Escape");
    assert.equal(await shown.isVisible(), true);
    await page.getByRole("button", { name: "I have stored it" }).click();
    await shown.waitFor({ state: "detached" });
    assert.deepEqual(complaints, []);
  });

  it("that shows a key says Copied only if the browser copied it, and selects it if not", async () => {
    await using house = await startTestGateway();
    const { page, complaints } = await openTab(`${house.adminUrl}/#/accounts`);
    await page.addInitScript(`
      Object.defineProperty(navigator, "clipboard", {
        value: { writeText: async () => { throw new Error("Write permission denied."); } },
      });
      document.execCommand = () => globalThis.isCopied === true;
    `);
    await page.reload();
    await page.getByRole("button", { name: "Create a key" }).click();
    await page.getByRole("button", { name: "Create", exact: true }).click();
    const dialog = page.getByRole("dialog", { name: "The new key" });
    await dialog.getByRole("button", { name: "Copy" }).click();
    await dialog.getByRole("status").getByText("The browser did not copy the key").waitFor();
    assert.equal(await page.getByText("Copied", { exact: true }).count(), 0);
    const selected = `(({ value, selectionStart, selectionEnd }) =>
      value.slice(selectionStart, selectionEnd))(document.activeElement)`;
    const key = await dialog.getByRole("textbox", { name: "The key" }).inputValue();
    assert.equal(await page.evaluate(selected), key);
    await page.evaluate("globalThis.isCopied = true");
    await dialog.getByRole("button", { name: "Copy" }).click();
    // A screen reader hears a live region only inside of the modal dialog.
    await dialog.getByRole("status").getByText("Copied", { exact: true }).waitFor();
    assert.equal(await page.getByText("The browser did not copy the key").count(), 0);
    assert.deepEqual(complaints, []);
  });

  it("describes each of its fields by the hint below it", async () => {
    await using house = await startTestGateway();
    const { page } = await openTab(`${house.adminUrl}/#/accounts`);
    await page.getByRole("button", { name: "Create a key" }).click();
    await page.locator("dialog .hint").first().waitFor();
    const hints = await page.evaluate<[string, string][]>(
      `[...document.querySelectorAll("dialog .field:has(.hint)")].map((field) => {
        const described = field.querySelector("input, select").getAttribute("aria-describedby");
        const by = document.getElementById(described ?? "none");
        return [field.querySelector(".hint").textContent, by?.textContent];
      })`,
    );
    assert.ok(hints.length > 0);
    for (const [hint, described] of hints) assert.equal(described, hint);
    const offered = "dialog :is(input, select):not([autocomplete=off])";
    assert.equal(await page.locator(offered).count(), 0, "nothing typed elsewhere is offered");
  });

  it("that asks the gateway what to offer says so if it does not answer, and opens when it does", async () => {
    await using house = await startTestGateway();
    const { account } = await house.issue();
    const url = `${house.adminUrl}/#/accounts/${account}`;
    const { page, complaints } = await openTab(url);
    for (const name of ["Change plan", "Add key"]) {
      await page.getByRole("button", { name, exact: true }).waitFor();
      // The view itself gets its answers: without them it would take its buttons away.
      await page.route(OFFERS, (route) => route.abort());
      await page.getByRole("button", { name, exact: true }).click();
      const dialog = page.getByRole("dialog");
      assert.match(await textOf(dialog), /The gateway does not answer/);
      await page.unroute(OFFERS);
      await dialog.getByRole("button", { name: "Close" }).click();
      await dialog.waitFor({ state: "detached" });
      await page.reload();
      await page.getByRole("button", { name, exact: true }).click();
      await dialog.getByRole("button", { name: "Cancel" }).click();
      await dialog.waitFor({ state: "detached" });
    }
    assert.deepEqual(complaints, []);
  });

  it("that asks for the token over another one has a name of its own", async () => {
    const admin = { listen: "127.0.0.1:0", token: TOKEN };
    await using house = await startTestGateway({ config: { admin } });
    const { page, complaints } = await openTab(`${house.adminUrl}/#/accounts`);
    const dialog = (name: string) => page.getByRole("dialog", { name, exact: true });
    const token = page.locator("#field-token");
    await token.fill(TOKEN);
    assert.equal(await token.getAttribute("type"), "password", "nobody reads it over a shoulder");
    assert.equal(await token.getAttribute("required"), "");
    const buttons = dialog("Admin token").getByRole("button");
    assert.deepEqual(await buttons.allInnerTexts(), ["Continue"]);
    await dialog("Admin token").getByRole("button", { name: "Continue" }).click();
    await page.getByRole("button", { name: "Create a key" }).click();
    await dialog("Create a key").waitFor();
    const renewed = TOKEN.replace("admin", "newer");
    await house.rewrite({ admin: { ...admin, token: renewed } });
    const headers = { Authorization: `Bearer ${TOKEN}` };
    await house.admin("/api/reload", { method: "POST", body: "{}", headers });
    await dialog("Admin token").waitFor();
    await page.locator("#field-token").fill(renewed);
    await dialog("Admin token").getByRole("button", { name: "Continue" }).click();
    await dialog("Create a key").getByRole("button", { name: "Create" }).click();
    await dialog("The new key").waitFor();
    assert.deepEqual(complaints, []);
  });

  it("that asks for the token names a character that no browser sends, and the tab is not locked by it", async () => {
    const admin = { listen: "127.0.0.1:0", token: TOKEN };
    await using house = await startTestGateway({ config: { admin } });
    const { page, complaints } = await openTab(`${house.adminUrl}/`);
    const field = page.locator("#field-token");
    for (const token of [`${TOKEN}\u200b`, `\u201c${TOKEN}\u201d`, `${TOKEN}\u00e9`]) {
      await field.fill(token);
      await page.keyboard.press("Enter");
      await page
        .getByRole("dialog")
        .getByText(/^A token has only visible ASCII/)
        .waitFor();
    }
    await page.evaluate(`sessionStorage.setItem("tollgate-admin-token", "${TOKEN}\u200b")`);
    await page.reload();
    await page.getByText(/^This gateway has an admin token/).waitFor();
    await field.fill(TOKEN);
    await page.keyboard.press("Enter");
    await page.getByText("Ready", { exact: true }).waitFor();
    assert.deepEqual(complaints, []);
  });

  it("breaks a long name in one word, so that its warning is read without a scroll to the side", async () => {
    await using house = await startTestGateway();
    const { account } = await house.issue({ name: "x".repeat(200) });
    const viewport = { width: 320, height: 780 };
    const { page } = await openTab(`${house.adminUrl}/#/accounts/${account}`, { viewport });
    await page.getByRole("button", { name: "Revoke" }).click();
    await page
      .getByRole("dialog")
      .getByText(/x{200}/)
      .waitFor();
    const [content, room] = await page.evaluate<[number, number]>(`(() => {
      const { scrollWidth, clientWidth } = document.querySelector("dialog");
      return [scrollWidth, clientWidth];
    })()`);
    assert.ok(content <= room, `${content} px in ${room}`);
  });

  it("of limits sets and drops those that were changed in it, and keeps what was set elsewhere", async () => {
    await using house = await startTestGateway();
    const start = { minute: 500, hour: 900 };
    const { account, id } = await house.issue({ limits: start, caps: start });
    const { page, complaints } = await openTab(`${house.adminUrl}/#/accounts/${account}`);
    for (const [button, label, member, path] of [
      ["Change limits", "Limits of its own", "limits", `/api/accounts/${account}`],
      ["Limits", "Limits of this key", "caps", `/api/keys/${id}`],
    ] as const) {
      await page.getByRole("button", { name: button, exact: true }).click();
      const [field, dialog] = [page.getByLabel(label), page.getByRole("dialog")];
      assert.equal(await field.inputValue(), "minute=500, hour=900");
      const body = JSON.stringify({ [member]: { day: 77 } });
      assert.equal((await house.admin(path, { method: "PATCH", body })).status, 200);
      const confirm = dialog.getByRole("button", { name: "Change limits" });
      await confirm.click();
      await dialog
        .getByText("Nothing to change: these are the limits as they were shown")
        .waitFor();
      await field.fill("minute=600");
      await confirm.click();
      await dialog.waitFor({ state: "detached" });
      const read = (await (await house.admin(path)).json()) as Record<string, object>;
      assert.deepEqual(read[member], { minute: 600, day: 77 });
    }
    assert.deepEqual(complaints, []);
  });

  it("of limits says which of those that stand in it do not hold, because somebody else set them since", async () => {
    await using house = await startTestGateway();
    const start = { minute: 70, hour: 300, day: 500 };
    const { account, id } = await house.issue({ limits: start, caps: start });
    const { page, complaints } = await openTab(`${house.adminUrl}/#/accounts/${account}`);
    const why = "What somebody else set since they were shown holds";
    for (const [button, label, member, path, minute] of [
      ["Change limits", "Limits of its own", "limits", `/api/accounts/${account}`, 5],
      ["Limits", "Limits of this key", "caps", `/api/keys/${id}`, 6],
    ] as const) {
      await page.getByRole("button", { name: button, exact: true }).click();
      const [field, dialog] = [page.getByLabel(label), page.getByRole("dialog")];
      await field.fill("day=450, hour=300, minute=70");
      await dialog.getByRole("button", { name: "Change limits" }).click();
      await page
        .getByText(/^(?:Change limits: done|Limits of key \S+: changed)$/)
        .last()
        .waitFor();
      assert.equal(await page.getByText(why).count(), minute - 5, "nobody else has set any");
      await page.getByRole("button", { name: button, exact: true }).click();
      const body = JSON.stringify({ [member]: { minute, hour: null, week: 9 } });
      assert.equal((await house.admin(path, { method: "PATCH", body })).status, 200);
      await field.fill("minute=70, hour=300, day=400");
      await dialog.getByRole("button", { name: "Change limits" }).click();
      await page.getByText(`${why}: minute=${minute}, no hour, week=9`, { exact: true }).waitFor();
      const read = (await (await house.admin(path)).json()) as Record<string, object>;
      assert.deepEqual(read[member], { minute, day: 400, week: 9 });
    }
    assert.deepEqual(complaints, []);
  });

  it("of the plan or the anchor changes nothing if nothing was chosen, though another was set elsewhere", async () => {
    await using house = await startTestGateway();
    const { account } = await house.issue();
    const path = `/api/accounts/${account}`;
    const { page, complaints } = await openTab(`${house.adminUrl}/#/accounts/${account}`);
    const dialog = page.getByRole("dialog");
    for (const [name, shown, changed] of [
      ["Change plan", "plan", { plan: "pro" }],
      ["Change anchor", "day", { anchor: 15 }],
    ] as const) {
      await page.getByRole("button", { name, exact: true }).click();
      await dialog.getByRole("button", { name }).waitFor();
      const body = JSON.stringify(changed);
      assert.equal((await house.admin(path, { method: "PATCH", body })).status, 200);
      await dialog.getByRole("button", { name }).click();
      await dialog.getByText(`Nothing to change: this is the ${shown} as it was shown`).waitFor();
      await dialog.getByRole("button", { name: "Cancel" }).click();
      await dialog.waitFor({ state: "detached" });
    }
    const { plan, anchor } = (await (await house.admin(path)).json()) as Record<string, unknown>;
    assert.deepEqual({ plan, anchor }, { plan: "pro", anchor: 15 });
    assert.deepEqual(complaints, []);
  });

  it("says after each change who has not heard of it and what may follow, and nothing if all have", async () => {
    await using house = await startTestGateway();
    const { account } = await house.issue();
    const { page, complaints } = await openTab(`${house.adminUrl}/#/accounts/${account}`);
    let missing: string | undefined = "worker 2";
    await page.route("**/api/**", async (route) => {
      if (route.request().method() === "GET" || missing === undefined) return route.fallback();
      const response = await route.fetch();
      const headers = { ...response.headers(), "x-tollgate-missing": missing };
      await route.fulfill({ response, headers });
    });
    const act = async (name: string, verb = name) => {
      await page.getByRole("button", { name, exact: true }).first().click();
      await page.getByRole("dialog").getByRole("button", { name: verb, exact: true }).click();
    };
    const unheard = (follows: string) => {
      return page.getByText(`No answer from ${missing}: until there is one, ${follows}`).last();
    };
    const newKey = page.getByRole("dialog", { name: "The new key" });
    const before = "what was before may still hold";
    await act("Suspend");
    await unheard(before).waitFor();
    missing = "buckets 3 7 at 10.0.0.2:6379";
    await act("Ban");
    await unheard(before).waitFor();
    missing = "bucket 3 at 10.0.0.2:6379, workers 1 2";
    await act("Lift the ban");
    await unheard(before).waitFor();
    await act("Add key", "Create");
    assert.match(
      await textOf(newKey),
      /workers 1 2: until there is one, this key may be refused$/m,
    );
    await page.getByRole("button", { name: "I have stored it" }).click();
    missing = "workers 1 3";
    await act("Revoke");
    await unheard("requests with this key may still be answered").waitFor();
    missing = undefined;
    await page.reload();
    await act("Rotate");
    assert.doesNotMatch(await textOf(newKey), /No answer/);
    await page.getByRole("button", { name: "I have stored it" }).click();
    await act("Resume");
    await page.getByText("Resume: done").waitFor();
    assert.equal(await page.getByText("No answer from").count(), 0);
    missing = "worker 2";
    await act("Rotate");
    const both = /one, this key may be refused, and the old one may work on after its grace/;
    assert.match(await textOf(newKey), both);
    assert.deepEqual(complaints, []);
  });

  it("for a key of an account that exists on another plan says what can be done in it", async () => {
    await using house = await startTestGateway();
    await house.issue({ account: "exist", plan: "pro" });
    const { page, complaints } = await openTab(`${house.adminUrl}/#/accounts`);
    await page.getByRole("button", { name: "Create a key" }).click();
    const dialog = page.getByRole("dialog", { name: "Create a key" });
    await dialog.getByLabel("Account", { exact: true }).fill("exist");
    await dialog
      .getByText("For one that exists, its own plan, or add the key on its page")
      .waitFor();
    await dialog.getByRole("button", { name: "Create" }).click();
    await dialog.getByText(/exist, which is on plan pro: name that or none, or/).waitFor();
    await dialog.getByLabel("Plan").selectOption("pro");
    await dialog.getByRole("button", { name: "Create" }).click();
    const told = page.getByRole("dialog", { name: "The new key" }).getByText(/^Key k_/);
    assert.match(await textOf(told), /of account exist\./);
    assert.deepEqual(complaints, []);
  });

  it("takes a limit as the command line does: with a point or an exponent it changes nothing", async () => {
    await using house = await startTestGateway();
    const { account } = await house.issue();
    const { page, complaints } = await openTab(`${house.adminUrl}/#/accounts/${account}`);
    await page.getByRole("button", { name: "Change limits" }).click();
    const dialog = page.getByRole("dialog");
    for (const text of ["day=20.000", "day=2e4", "day=0x10", "day=5=6"]) {
      await page.getByLabel("Limits of its own").fill(text);
      await dialog.getByRole("button", { name: "Change limits" }).click();
      await dialog.getByText(/Cannot use/).waitFor();
    }
    const read = await house.admin(`/api/accounts/${account}`);
    assert.deepEqual(((await read.json()) as { limits: object }).limits, {});
    assert.deepEqual(complaints, []);
  });
});
