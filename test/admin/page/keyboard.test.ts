import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { startTestGateway } from "../../support/gateway/house.ts";
import { focused, openTab } from "./browser.ts";

describe("the keyboard behind a dialog that closes", () => {
  it("loses no letter to the button that opened it, however soon somebody goes on", async () => {
    await using house = await startTestGateway();
    const { page, complaints } = await openTab(`${house.adminUrl}/#/accounts`);
    const search = page.getByLabel("Search");
    await search.waitFor();
    for (let i = 0; i < 10; i++) {
      await search.fill("");
      await page.getByRole("button", { name: "Create a key" }).click();
      const dialog = page.getByRole("dialog");
      await dialog.waitFor();
      const { keyboard } = page;
      await Promise.all([keyboard.press("Escape"), keyboard.press("Tab"), keyboard.type("zoo")]);
      await dialog.waitFor({ state: "detached" });
      assert.equal(await search.inputValue(), "zoo");
    }
    assert.deepEqual(complaints, []);
  });
});

describe("the keyboard behind a dialog that is cancelled", () => {
  it("is at the button that opened it, though its account was drawn again since", async () => {
    await using house = await startTestGateway();
    const { account, id } = await house.issue();
    const { page, complaints } = await openTab(`${house.adminUrl}/#/accounts/${account}`);
    const dialog = page.getByRole("dialog");
    for (const [name, reason] of [
      ["Suspend", "tenant=1"],
      ["Revoke", "tenant=2"],
    ] as const) {
      await page.getByRole("button", { name, exact: true }).click();
      await dialog.waitFor();
      const meta = { tenant: reason.split("=")[1] };
      const change = { method: "PATCH", body: JSON.stringify({ meta }) };
      await (await house.admin(`/api/accounts/${account}`, change)).text();
      const named = { method: "PATCH", body: JSON.stringify({ name: reason }) };
      await (await house.admin(`/api/keys/${id}`, named)).text();
      await page.locator(".hint", { hasText: reason }).waitFor();
      await page.locator("td .names", { hasText: reason }).waitFor();
      await page.keyboard.press("Escape");
      await dialog.waitFor({ state: "detached" });
      assert.equal(await focused(page), name);
    }
    assert.deepEqual(complaints, []);
  });
});
