import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { startTestGateway } from "../../support/gateway/house.ts";
import { openTab } from "./browser.ts";

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
});
