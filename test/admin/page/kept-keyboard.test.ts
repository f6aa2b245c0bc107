import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { startTestGateway } from "../../support/gateway/house.ts";
import { eventually } from "../../support/poll.ts";
import { focused, openTab } from "./browser.ts";

describe("a view that is drawn again while a dialog waits for its answer", () => {
  for (const [verb, route, drawn, then] of [
    ["Suspend", "**/suspend", "Resume", "Resume"],
    ["Lift the ban", "**/api/bans/*", undefined, undefined],
  ] as const) {
    it(`leaves the keyboard ${then ? "at the control in its place" : "at the heading"}: ${verb}`, async () => {
      await using house = await startTestGateway();
      const { account } = await house.issue();
      const send = (path: string, body: object) => {
        return house.admin(path, { method: "POST", body: JSON.stringify(body) });
      };
      await send("/api/bans", { id: account, for: "1h" });
      const { page, complaints } = await openTab(`${house.adminUrl}/#/accounts/${account}`);
      const main = page.locator("#main");
      await page.route(route, async (one) => {
        const response = await one.fetch();
        // A change of the records has the view read all of it again.
        await send("/api/keys", { account });
        if (drawn === undefined) await main.locator(".banned").waitFor({ state: "detached" });
        else await main.locator("button", { hasText: drawn }).waitFor();
        await one.fulfill({ response });
      });
      await page.getByRole("button", { name: verb, exact: true }).focus();
      await page.keyboard.press("Enter");
      const dialog = page.getByRole("dialog");
      await dialog.getByRole("button", { name: verb, exact: true }).click();
      await dialog.waitFor({ state: "detached" });
      await eventually(async () => assert.equal(await focused(page), then ?? account), {
        withinMs: 10_000,
      });
      assert.deepEqual(complaints, []);
    });
  }
});
