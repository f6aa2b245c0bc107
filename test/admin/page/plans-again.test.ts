import assert from "node:assert/strict";
import { afterAll, beforeAll, describe, it } from "vitest";
import { startTestGateway } from "../../support/gateway/house.ts";
import { eventually } from "../../support/poll.ts";
import { startRedis, type TestRedis } from "../../support/redis/redis.ts";
import { cells, focused, openTab } from "./browser.ts";

let redis: TestRedis;
beforeAll(async () => {
  redis = await startRedis();
});
afterAll(async () => {
  await redis.close();
});

describe("the accounts of a plan", () => {
  it("are counted again when one more is made, and those nearest to a limit are read again by a button", async () => {
    await using house = await startTestGateway();
    const { key, account } = await house.issue();
    const { page, complaints } = await openTab(`${house.adminUrl}/#/plans`);
    const accounts = async () => {
      const rows = await cells(page, "Plans");
      return Object.fromEntries(rows.map(([plan = "", , count]) => [plan.split("\n")[0], count]));
    };
    await eventually(async () => assert.equal((await accounts()).free, "1"));
    await page.getByText("No account has used anything in a running window.").waitFor();
    await house.issue();
    await eventually(async () => assert.equal((await accounts()).free, "2"));
    await (await house.ask(key)).text();
    await page.getByRole("button", { name: "Refresh" }).click();
    await page.getByRole("link", { name: account, exact: true }).waitFor();
    assert.equal(await focused(page), "Refresh", "the keyboard is where it was");
    assert.deepEqual(complaints, []);
  });
});

describe("the accounts nearest to a limit", () => {
  it("are shown again once the store is back, with the time at which they were read", async () => {
    await using house = await startTestGateway({ config: { store: redis.url } });
    const { key, account } = await house.issue();
    await (await house.ask(key)).text();
    const { page, complaints } = await openTab(`${house.adminUrl}/#/backends`);
    await page.getByText("Ready", { exact: true }).waitFor();
    redis.stop();
    await page.getByText(/^store: /).waitFor();
    await page.evaluate(`location.hash = "#/plans"`);
    const told = page.getByRole("alert").getByText(/store is unavailable/);
    await told.waitFor();
    redis.cont();
    await told.waitFor({ state: "detached" });
    await page.getByText("Nearest to a limit").waitFor();
    const [[nearest] = []] = await cells(page, "Nearest to a limit");
    assert.equal(nearest, account);
    await page.getByText(/^Last read (now|\d+ s ago)$/).waitFor();
    assert.deepEqual(complaints, []);
  });
});
