import assert from "node:assert/strict";
import { it } from "vitest";
import { startTestGateway } from "../../support/gateway/house.ts";
import { eventually } from "../../support/poll.ts";
import { openTab, tabTo, textOf } from "./browser.ts";

it("an account shows the windows of its meters, days with their units, and takes a limit of its own", async () => {
  const tokens = { hold: 20, max: 100, used: ["header x-used"] };
  await using house = await startTestGateway({
    environment: { api: null, costs: [{ match: "GET /v1/pets", meters: { tokens } }] },
    config: {
      history: "400d",
      plans: { free: { day: 1000, meters: { tokens: { month: 5000 } } } },
    },
  });
  const { key, account } = await house.issue();
  house.backend.answer((_seen, response) => {
    response.writeHead(200, { "x-used": "77" }).end("[]");
  });
  await (await house.ask(key)).text();
  const { page, complaints } = await openTab(`${house.adminUrl}/#/accounts/${account}`);
  const shown = page.locator('[data-window="tokens.month"]');
  await eventually(async () => assert.match(await textOf(shown), /77 of 5,000/));
  const days = page.getByRole("region", { name: "Usage by day", exact: true });
  await eventually(async () => assert.match(await textOf(days), /tokens[\s\S]*77/));
  await page.getByRole("button", { name: "Change limits", exact: true }).first().waitFor();
  await tabTo(page, "Change limits");
  await page.keyboard.press("Enter");
  await page.getByRole("dialog").waitFor();
  await page.keyboard.type("tokens.month=9000");
  await tabTo(page, "Change limits");
  await page.keyboard.press("Enter");
  await page.getByRole("dialog").waitFor({ state: "detached" });
  await eventually(async () => assert.match(await textOf(shown), /77 of 9,000/));
  await eventually(async () => {
    assert.match(await textOf(page.locator("main")), /by agreement 9,000 tokens a month/);
  });
  assert.deepEqual(complaints, []);
});

it("a plan shows the windows of its meters, and a meter without a limit", async () => {
  const meters = { tokens: { minute: 900, month: 5_000 }, rows: "unlimited" };
  await using house = await startTestGateway({
    config: { plans: { free: { day: 1_000, meters } } },
  });
  const { page, complaints } = await openTab(`${house.adminUrl}/#/plans`);
  const plans = page.getByRole("region", { name: "Plans", exact: true });
  const words = "1,000 a day, 900 tokens a minute, 5,000 tokens a month, rows without a limit";
  await eventually(async () => assert.ok((await textOf(plans)).includes(words)));
  assert.deepEqual(complaints, []);
});
