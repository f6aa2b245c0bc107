import assert from "node:assert/strict";
import type { Page } from "playwright-core";
import { describe, it } from "vitest";
import { each } from "../../support/each.ts";
import { startTestGateway, type TestGateway } from "../../support/gateway/house.ts";
import { eventually } from "../../support/poll.ts";
import { focused, fromNoon, openTab, tabTo, textOf } from "./browser.ts";

const BANS = { strikes: 1, within: "1m", grace: "0s", duration: "10m" };
const TOKEN = "canary-admin-token-0123456789abcdef";

async function read<T>(house: TestGateway, path: string): Promise<T> {
  return (await (await house.admin(path)).json()) as T;
}

/** Goes to a button by keyboard alone and presses it; waits for its dialog. */
async function press(page: Page, name: string): Promise<void> {
  await page.getByRole("button", { name, exact: true }).first().waitFor();
  await tabTo(page, name);
  await page.keyboard.press("Enter");
  await page.getByRole("dialog").waitFor();
}

/** The button of the open dialog, by keyboard; waits until the dialog is closed. */
async function confirm(page: Page, name: string): Promise<void> {
  await tabTo(page, name);
  await page.keyboard.press("Enter");
}

async function closed(page: Page): Promise<void> {
  await page.getByRole("dialog").waitFor({ state: "detached" });
}

describe("by keyboard alone", () => {
  it("a key is created, shown once, and works; then rotated, and revoked", async () => {
    await using house = await startTestGateway();
    const { page, complaints } = await openTab(`${house.adminUrl}/#/accounts`);
    await press(page, "Create a key");
    assert.equal(await focused(page), "Environment", "the first field has the keyboard");
    await tabTo(page, "Plan");
    await page.keyboard.type("pro");
    await tabTo(page, "Name");
    await page.keyboard.type("Nadia's shop");
    await confirm(page, "Create");
    const shown = page.getByRole("textbox", { name: "The key" });
    const key = await shown.inputValue();
    assert.match(key, /^pets_live_[0-9A-Za-z]{36}$/);
    await page.keyboard.press("Escape");
    assert.equal(await shown.isVisible(), true, "a key that is shown once is not lost by a slip");
    await confirm(page, "I have stored it");
    await closed(page);
    assert.equal((await house.ask(key)).status, 200);
    // A dialog that is closed is taken away in the next turn.
    await eventually(async () => {
      assert.ok(!(await page.content()).includes(key), "the key is nowhere on the page any more");
    });

    const [issued] = await read<{ id: string; account: string; plan: string }[]>(
      house,
      "/api/keys",
    );
    assert.equal(issued?.plan, "pro");
    await tabTo(page, issued?.account ?? "");
    await page.keyboard.press("Enter");
    await press(page, "Rotate");
    await page.keyboard.press("Control+A");
    await page.keyboard.type("0s");
    await confirm(page, "Rotate");
    const successor = await shown.inputValue();
    await confirm(page, "I have stored it");
    await closed(page);
    await eventually(async () => assert.equal((await house.ask(successor)).status, 200));
    await eventually(async () => assert.equal((await house.ask(key)).status, 401));

    await eventually(async () => {
      await page.reload();
      await page.getByText("expired", { exact: true }).waitFor({ timeout: 1_000 });
    });
    await press(page, "Revoke");
    await page.keyboard.press("Escape");
    await closed(page);
    assert.equal(await focused(page), "Revoke", "the keyboard is back where it was");
    assert.equal((await house.ask(successor)).status, 200, "Escape does nothing");
    await page.keyboard.press("Enter");
    await confirm(page, "Revoke");
    await closed(page);
    await eventually(async () => assert.equal((await house.ask(successor)).status, 401));
    await page.getByText("revoked", { exact: true }).waitFor();
    assert.deepEqual(complaints, []);
  });

  it("a ban is lifted", async () => {
    await using house = await startTestGateway({ config: { bans: BANS }, now: fromNoon() });
    const { key, account } = await house.issue();
    for (let i = 0; i < 61; i++) await (await house.ask(key)).text();
    // A refusal in the millisecond of the first one is no strike.
    await eventually(async () => {
      await (await house.ask(key)).text();
      assert.equal((await read<unknown[]>(house, "/api/bans")).length, 1);
    });
    const { page, complaints } = await openTab(`${house.adminUrl}/#/bans`);
    await press(page, "Lift");
    assert.match(await textOf(page.getByRole("dialog")), new RegExp(account));
    await confirm(page, "Lift the ban");
    await closed(page);
    await page.getByText("No account is banned.").waitFor();
    assert.deepEqual(await read(house, "/api/bans"), []);
    assert.deepEqual(complaints, []);
  });

  it("an account is banned for a time, and its usage is reset", async () => {
    await using house = await startTestGateway();
    const { key, account } = await house.issue();
    await (await house.ask(key)).text();
    const { page } = await openTab(`${house.adminUrl}/#/accounts/${account}`);
    await press(page, "Reset usage");
    await confirm(page, "Reset usage");
    await closed(page);
    const { windows } = await read<{ windows: { used: number }[] }>(house, `/api/usage/${account}`);
    assert.ok(each(windows).every(({ used }) => used === 0));
    await press(page, "Ban");
    await confirm(page, "Ban");
    await closed(page);
    assert.equal((await read<unknown[]>(house, "/api/bans")).length, 1);
    await eventually(async () => assert.equal((await house.ask(key)).status, 429));
    await page.getByRole("button", { name: "Lift the ban" }).waitFor();
  });

  it("a further ban names the one that it replaces, and then its own end", async () => {
    await using house = await startTestGateway();
    const { account } = await house.issue();
    const { page } = await openTab(`${house.adminUrl}/#/accounts/${account}`);
    await press(page, "Ban");
    await page.keyboard.press("Control+A");
    await page.keyboard.type("24h");
    assert.doesNotMatch(await textOf(page.getByRole("dialog")), /replaces the ban until/);
    await confirm(page, "Ban");
    await closed(page);
    const until = async () => {
      const [ban] = await read<{ until: number }[]>(house, "/api/bans");
      const exact = new Date((ban?.until ?? 0) * 1_000).toISOString();
      return `${exact.slice(0, 19).replace("T", " ")} UTC`;
    };
    const first = await until();
    await press(page, "Ban");
    await page.getByText(`It replaces the ban until ${first}.`).waitFor();
    await page.keyboard.press("Control+A");
    await page.keyboard.type("10m");
    await confirm(page, "Ban");
    await closed(page);
    const second = await until();
    assert.ok(second < first);
    const notes = await page.locator(".note").allInnerTexts();
    assert.deepEqual(notes, [`Ban: until ${first}`, `Ban: until ${second}`]);
  });

  it("a ban is asked for within seconds though the gateway does not tell the one in force", async () => {
    await using house = await startTestGateway();
    const { account } = await house.issue();
    const { page } = await openTab(`${house.adminUrl}/#/accounts/${account}`);
    await page.getByRole("button", { name: "Ban", exact: true }).waitFor();
    await page.route("**/api/usage/*", () => {});
    await press(page, "Ban");
    await page.getByRole("dialog").waitFor({ timeout: 8_000 });
    await confirm(page, "Ban");
    await closed(page);
    assert.equal((await read<unknown[]>(house, "/api/bans")).length, 1);
  });

  it("an account gets limits of its own, which can be changed and taken back", async () => {
    await using house = await startTestGateway();
    const { account } = await house.issue({ limits: { minute: 500 } });
    const { page, complaints } = await openTab(`${house.adminUrl}/#/accounts/${account}`);
    const limits = async () => {
      return (await read<{ limits: object }>(house, `/api/accounts/${account}`)).limits;
    };
    await press(page, "Change limits");
    const field = page.getByLabel("Limits of its own");
    assert.equal(await field.inputValue(), "minute=500");
    await page.keyboard.press("Control+A");
    await page.keyboard.type("minute=7, day=70");
    await page.keyboard.press("Escape");
    await closed(page);
    assert.deepEqual(await limits(), { minute: 500 }, "Escape does nothing");
    await press(page, "Change limits");
    await page.keyboard.press("Control+A");
    await page.keyboard.type("day=often");
    await confirm(page, "Change limits");
    const said = page.getByRole("dialog").getByRole("alert");
    await eventually(async () =>
      assert.match(await textOf(said), /^Cannot use day=often: expected/),
    );
    await page.keyboard.press("Shift+Tab");
    await page.keyboard.press("Shift+Tab");
    await page.keyboard.press("Control+A");
    await page.keyboard.type("day=70");
    await confirm(page, "Change limits");
    await closed(page);
    assert.deepEqual(await limits(), { day: 70 });
    await page.getByText("by agreement 70 a day").waitFor();
    await press(page, "Change limits");
    await page.keyboard.press("Control+A");
    await page.keyboard.press("Delete");
    await confirm(page, "Change limits");
    await closed(page);
    assert.deepEqual(await limits(), {});
    assert.deepEqual(complaints, []);
  });

  it("an account gets another anchor, once a month, and a key limits of its own", async () => {
    await using house = await startTestGateway();
    const { id, account } = await house.issue();
    const { page, complaints } = await openTab(`${house.adminUrl}/#/accounts/${account}`);
    await press(page, "Change anchor");
    await page.getByLabel("Day of the month").waitFor();
    await page.keyboard.press("Control+A");
    await page.keyboard.type("15");
    await confirm(page, "Change anchor");
    await closed(page);
    await page.getByText(/months from day 15/).waitFor();
    const told = await read<{ anchor: number; anchorFrom: number }>(
      house,
      `/api/accounts/${account}`,
    );
    assert.equal(told.anchor, 15);
    assert.ok(told.anchorFrom > Date.now() / 1_000);
    await press(page, "Change anchor");
    await page.getByLabel("Day of the month").waitFor();
    await page.keyboard.press("Control+A");
    await page.keyboard.type("1e1");
    await confirm(page, "Change anchor");
    const said = page.getByRole("dialog").getByRole("alert");
    await eventually(async () => assert.match(await textOf(said), /1e1: expected a day/));
    await page.getByLabel("Day of the month").fill("16");
    await confirm(page, "Change anchor");
    await eventually(async () => assert.match(await textOf(said), /again in this month/));
    await page.keyboard.press("Escape");
    await closed(page);
    const caps = async () => (await read<{ caps: object }>(house, `/api/keys/${id}`)).caps;
    await press(page, "Limits");
    await page.getByLabel("Limits of this key").waitFor();
    await page.keyboard.press("Control+A");
    await page.keyboard.type("day=5, minute=2");
    await confirm(page, "Change limits");
    await closed(page);
    assert.deepEqual(await caps(), { minute: 2, day: 5 });
    await page.getByText("2 a minute, 5 a day").waitFor();
    await press(page, "Limits");
    await page.getByLabel("Limits of this key").waitFor();
    await page.keyboard.press("Control+A");
    await page.keyboard.press("Delete");
    await confirm(page, "Change limits");
    await closed(page);
    assert.deepEqual(await caps(), {});
    assert.equal(complaints.filter((text) => !text.includes("409")).length, 0);
  });

  it("an account changes its plan, is suspended and resumed", async () => {
    await using house = await startTestGateway();
    const { key, account } = await house.issue();
    const { page } = await openTab(`${house.adminUrl}/#/accounts/${account}`);
    await press(page, "Change plan");
    await page.keyboard.type("business");
    await confirm(page, "Change plan");
    await closed(page);
    assert.equal(
      (await read<{ plan: string }>(house, `/api/accounts/${account}`)).plan,
      "business",
    );
    await page.getByText("business in production").waitFor();
    await press(page, "Suspend");
    await page.keyboard.type("unpaid");
    await confirm(page, "Suspend");
    await closed(page);
    const state = () =>
      read<{ state: string; suspended: { reason: string } | null }>(
        house,
        `/api/accounts/${account}`,
      );
    assert.deepEqual(
      [(await state()).state, (await state()).suspended?.reason],
      ["suspended", "unpaid"],
    );
    assert.equal((await house.ask(key)).status, 403);
    await press(page, "Resume");
    await confirm(page, "Resume");
    await closed(page);
    assert.equal((await state()).state, "active");
  });

  it("the keyboard is at the control in its place, or at the heading, after an action that removes its own button", async () => {
    await using house = await startTestGateway();
    const { account } = await house.issue();
    for (const [path, body] of [
      ["/api/keys", { account }],
      ["/api/bans", { id: account, for: "1h" }],
    ] as const) {
      await house.admin(path, { method: "POST", body: JSON.stringify(body) });
    }
    const { page, complaints } = await openTab(`${house.adminUrl}/#/accounts/${account}`);
    const stays = (name: string) =>
      eventually(async () => assert.equal(await focused(page), name, "the keyboard is lost"));
    const perform = async (name: string, verb = name) => {
      await press(page, name);
      await confirm(page, verb);
      await closed(page);
    };
    await perform("Suspend");
    await page.getByRole("button", { name: "Resume" }).waitFor();
    await stays("Resume");
    await page.keyboard.press("Enter");
    await page.getByRole("dialog").waitFor();
    await confirm(page, "Resume");
    await closed(page);
    await page.getByRole("button", { name: "Suspend" }).waitFor();
    await stays("Suspend");
    await perform("Lift the ban");
    await page.locator(".banned").waitFor({ state: "detached" });
    await stays(account);
    await perform("Revoke");
    await page.getByText("revoked", { exact: true }).waitFor();
    await stays("Revoke");
    await perform("Revoke");
    await page.getByRole("button", { name: "Revoke" }).waitFor({ state: "detached" });
    assert.equal(await page.evaluate("document.activeElement.ariaLabel"), "Keys");
    assert.deepEqual(complaints, []);
  });

  it("the configuration is reloaded, and a mistake in it is told in the dialog", async () => {
    await using house = await startTestGateway();
    const { page } = await openTab(`${house.adminUrl}/#/configuration`);
    const hash = () => textOf(page.locator(".force code"));
    await page.locator(".force code").waitFor();
    const before = await hash();
    const names = ["free", "pro", "c", "d", "e", "f"];
    const plans = Object.fromEntries(names.map((name) => [name, { minute: 61 }]));
    await house.rewrite({ plans });
    await press(page, "Reload");
    await confirm(page, "Reload");
    await closed(page);
    await eventually(async () => assert.notEqual(await hash(), before));
    assert.equal(await hash(), (await read<{ hash: string }>(house, "/api/config")).hash);
    await page.getByText(`In force: ${await hash()}`, { exact: true }).waitFor();
    await page.locator("summary", { hasText: /^free, pro, c, d, e, f$/ }).waitFor();

    await house.rewrite({ plans: { free: { minute: -1 } } });
    await press(page, "Reload");
    await confirm(page, "Reload");
    const said = page.getByRole("dialog").getByRole("alert");
    await eventually(async () => assert.match(await textOf(said), /tollgate\.yaml:\d+:\d+: /));
    await page.keyboard.press("Escape");
    await closed(page);
  });
});

describe("the admin token", () => {
  it("is asked for, kept for the tab, and in no URL; a wrong one is told", async () => {
    await using house = await startTestGateway({
      config: { admin: { listen: "127.0.0.1:0", token: TOKEN } },
    });
    const { page, complaints } = await openTab(`${house.adminUrl}/`);
    const field = page.locator("#field-token");
    await page.getByText(/^This gateway has an admin token/).waitFor();
    await field.fill("not the token");
    await page.keyboard.press("Enter");
    await page.getByText("The admin token is not valid").waitFor();
    await field.fill(TOKEN);
    await page.keyboard.press("Enter");
    await page.getByText("Ready").waitFor();
    await page.reload();
    await page.getByText("Ready").waitFor();
    assert.equal(await page.getByRole("dialog").count(), 0, "the tab knows it");
    assert.ok(!page.url().includes(TOKEN));
    const stored = "JSON.stringify([{ ...localStorage }, document.cookie])";
    assert.equal(await page.evaluate(stored), '[{},""]');
    const { page: other } = await openTab(`${house.adminUrl}/`);
    await other.locator("#field-token").waitFor();

    const renewed = TOKEN.replace("admin", "newer");
    await house.rewrite({ admin: { listen: "127.0.0.1:0", token: renewed } });
    const headers = { Authorization: `Bearer ${TOKEN}` };
    const reloaded = await house.admin("/api/reload", { method: "POST", body: "{}", headers });
    assert.equal(reloaded.status, 200);
    await page.getByText("The admin token is not valid").waitFor();
    await field.fill(renewed);
    await page.keyboard.press("Enter");
    await page.getByText("Ready").waitFor();
    assert.deepEqual(complaints, []);
  });
});
