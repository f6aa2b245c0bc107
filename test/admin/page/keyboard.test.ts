import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { startTestGateway } from "../../support/gateway/house.ts";
import { openTab } from "./browser.ts";

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
