import assert from "node:assert/strict";
import type { Page } from "playwright-core";
import { it } from "vitest";
import { startTestGateway, type TestGateway } from "../../support/gateway/house.ts";
import { eventually } from "../../support/poll.ts";
import { fromNoon, openTab, textOf } from "./browser.ts";

/** Presses a button, fills the fields of its dialog, and presses the button of that. */
async function act(page: Page, name: string, verb = name, fields: Fields = {}): Promise<void> {
  await page.getByRole("button", { name, exact: true }).first().click();
  const dialog = page.getByRole("dialog");
  for (const [label, value] of Object.entries(fields)) {
    const field = dialog.getByLabel(label, { exact: true });
    await field.waitFor();
    const isChoice = (await field.and(dialog.locator("select")).count()) > 0;
    if (isChoice) await field.selectOption(value);
    else await field.fill(value);
  }
  await dialog.getByRole("button", { name: verb, exact: true }).click();
}
type Fields = Readonly<Record<string, string>>;

/** The limit of a day that is only observed has a bar of its own. */
async function observes(page: Page): Promise<void> {
  const observed = page.locator("[data-observed=day]");
  assert.match(await textOf(observed), /^day, observed\s+6\d of 40/);
  const bar = observed.locator("meter");
  const names = ["min", "max", "value", "aria-label"];
  const marks = await Promise.all(names.map((name) => bar.getAttribute(name)));
  assert.match(marks.join(), /^0,40,(6\d),\1 of an observed limit of 40 a day$/);
}

/** A new key is shown once. */
async function keyShown(page: Page): Promise<string> {
  const key = await page.getByRole("textbox", { name: "The key" }).inputValue();
  await page.getByRole("button", { name: "I have stored it" }).click();
  return key;
}

/** A change reaches the gateway within a second. */
async function answered(house: TestGateway, key: string, status: number): Promise<void> {
  await eventually(async () => {
    const got = await house.ask(key);
    await got.text();
    assert.equal(got.status, status);
  });
}

it("an operator's day on the page: from the first key to the events", async () => {
  const plans = {
    free: { minute: 60, day: 1000 },
    pro: { minute: 300, day: 10000, observe: { day: 40 } },
  };
  await using house = await startTestGateway({ config: { plans }, now: fromNoon() });
  const { page, complaints } = await openTab(`${house.adminUrl}/#/accounts`);
  await act(page, "Create a key", "Create", { Plan: "free", Name: "Ada's shop" });
  const key = await keyShown(page);
  const refused = await useUp(house, key);

  await page.getByRole("link", { name: "Explain" }).click();
  await page.getByLabel("Request id").fill(refused);
  await page.keyboard.press("Enter");
  await page.getByText("The minute limit is 60 units: 60 were used").waitFor();
  await page.getByRole("main").getByRole("link", { name: /^a_/ }).click();
  await page.locator("[data-window=minute]").waitFor();
  await act(page, "Change plan", "Change plan", { Plan: "pro" });
  await page.getByText("pro in production").waitFor();
  await answered(house, key, 200);
  await observes(page);

  await act(page, "Ban", "Ban", { For: "2h" });
  await answered(house, key, 429);
  await act(page, "Lift the ban");
  await answered(house, key, 200);
  await act(page, "Suspend", "Suspend", { Reason: "unpaid" });
  await page.getByText("unpaid").waitFor();
  await answered(house, key, 403);
  await act(page, "Resume");
  await answered(house, key, 200);
  await act(page, "Rotate", "Rotate", { Grace: "1s" });
  const next = await keyShown(page);
  await answered(house, next, 200);
  await answered(house, key, 401);
  await act(page, "Revoke");
  await page.getByText("revoked", { exact: true }).waitFor();
  await answered(house, next, 401);

  await page.getByRole("link", { name: "Events" }).click();
  const told = page.getByRole("region", { name: "Events" });
  for (const kind of [
    "key issued",
    "account changed",
    "ban lifted",
    "key rotated",
    "key revoked",
  ]) {
    await told.getByText(kind, { exact: true }).first().waitFor();
  }
  await page.getByRole("link", { name: "Overview" }).click();
  const charged = house.lines.reduce((sum, entry) => sum + entry.charged, 0);
  await eventually(async () => {
    const shown = await textOf(page.locator('[data-tile="charged"] dd'));
    assert.equal(Number(/^[\d,]+/.exec(shown)?.[0].replaceAll(",", "")), charged);
  });
  assert.deepEqual(complaints, []);
  await house.law();
});

/** Asks until a minute's limit is used up; gives the id of the refused request. */
async function useUp(house: TestGateway, key: string): Promise<string> {
  // A minute may end meanwhile: no two minutes take so many.
  for (let i = 0; i < 130; i++) {
    const got = await house.ask(key);
    await got.text();
    if (got.status === 429) return got.headers.get("x-request-id") ?? "";
  }
  throw new Error("130 requests of one account were all admitted in a minute");
}
