import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { each } from "../../support/each.ts";
import { startTestGateway } from "../../support/gateway/house.ts";
import { openTab } from "./browser.ts";

describe("a page without a stream, because sixteen others have one", () => {
  it("offers every operation of an account, and the section that explains a request", async () => {
    await using house = await startTestGateway();
    const { account } = await house.issue();
    const leave = new AbortController();
    const watch = () => fetch(`${house.adminUrl}/api/events`, { signal: leave.signal });
    const streams = await Promise.all(Array.from({ length: 16 }, watch));
    assert.ok(each(streams).every(({ status }) => status === 200));
    const { page, complaints } = await openTab(`${house.adminUrl}/#/accounts/${account}`);
    await page.getByText("At most 16 watch at a time: close another page").waitFor();
    await page.getByRole("button", { name: "Add key" }).waitFor();
    assert.deepEqual(await page.locator("main .heading button").allInnerTexts(), [
      ...["Add key", "Change plan", "Change limits", "Change anchor"],
      ...["Reset usage", "Ban", "Suspend"],
    ]);
    await page.getByRole("link", { name: "Explain" }).waitFor();
    await page.getByRole("button", { name: "Suspend" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Suspend" }).click();
    await page.getByRole("button", { name: "Resume" }).waitFor();
    assert.deepEqual(complaints, []);
    leave.abort();
  });
});
