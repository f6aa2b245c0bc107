import assert from "node:assert/strict";
import type { Page } from "playwright-core";
import { describe, it } from "vitest";
import { startTestGateway } from "../../support/gateway/house.ts";
import { eventually } from "../../support/poll.ts";
import { cells, focused, openTab, textOf } from "./browser.ts";

/** The ten accounts nearest to a limit have a place of their own: an error there leaves the plans. */
async function nearestApart(page: Page): Promise<void> {
  await page.route("**/api/usage?*", (route) => route.abort());
  await page.getByRole("link", { name: "Plans" }).click();
  await page.getByText("The gateway does not answer").waitFor();
  await page.getByRole("region", { name: "Plans", exact: true }).waitFor();
  await page.unroute("**/api/usage?*");
  await page.getByRole("button", { name: "Try again" }).click();
  await page.getByRole("region", { name: "Nearest to a limit", exact: true }).waitFor();
  assert.equal((await cells(page, "Nearest to a limit")).length, 10);
}

describe("the callers of what goes away", () => {
  it("are those of the API, those with most requests first, and no more than fifty of an operation", async () => {
    await using house = await startTestGateway();
    const made = (await house.issue({ count: 53 })) as unknown as { key: string }[];
    for (const { key } of made) await (await house.ask(key, "/v1/pets/7")).text();
    // Two of the earliest call again, and again: they are not the latest, but come first.
    const again = made.slice(3, 5).map(({ key }, i) => Array.from({ length: 2 - i }, () => key));
    for (const key of again.flat()) await (await house.ask(key, "/v1/pets/7")).text();
    for (const { key } of made.slice(5)) await (await house.ask(key, "/v1/pets")).text();
    const { page, complaints } = await openTab(`${house.adminUrl}/#/deprecations`);
    const told = await house.admin("/api/deprecations");
    const [operation] = (await told.json()) as {
      method: string;
      route: string;
      environment: string;
      accounts: { account: string; requests: number }[];
    }[];
    assert.equal(operation?.accounts.length, 53);
    await page.getByRole("region", { name: "Callers" }).waitFor();
    const rows = await cells(page, "Callers");
    const name = `${operation?.method} ${operation?.route}`;
    assert.deepEqual(
      rows.map((row) => row.slice(0, 4)),
      [
        ...(operation?.accounts ?? [])
          .toSorted((a, b) => b.requests - a.requests)
          .slice(0, 50)
          .map(({ account, requests }) => [account, name, "production", String(requests)]),
        ["3 more, with fewer requests", name, "production", "–"],
      ],
    );
    assert.deepEqual(
      rows.slice(0, 3).map((row) => row[3]),
      ["3", "2", "1"],
    );
    const [requests] = (await cells(page, "Deprecated operations")).map((row) => row[3]);
    await eventually(() => assert.equal(requests, "56"));

    await nearestApart(page);
    assert.deepEqual(complaints, []);
  });
});

describe("a long list", () => {
  it("of keys or of bans is paged, so that the document stays small", async () => {
    await using house = await startTestGateway();
    const { account } = await house.issue();
    await house.issue({ account, plan: undefined, environment: undefined, count: 119 });
    const others = (await house.issue({ count: 59 })) as unknown as { account: string }[];
    for (const { account: id } of [...others, { account }]) {
      const body = JSON.stringify({ id, for: "1h" });
      assert.equal((await house.admin("/api/bans", { method: "POST", body })).status, 201);
    }
    const { page, complaints } = await openTab(`${house.adminUrl}/#/accounts/${account}`);
    const seen = new Set<string>();
    for (const shown of ["1 to 50", "51 to 100", "101 to 120"]) {
      await page.getByText(`${shown} of 120`, { exact: true }).waitFor();
      for (const [id] of await cells(page, "Keys")) seen.add(id ?? "");
      if (shown === "51 to 100") assert.equal(await focused(page), "Next", "the keyboard is there");
      if (shown !== "101 to 120") await page.getByRole("button", { name: "Next" }).click();
    }
    assert.equal(seen.size, 120);
    assert.equal(await focused(page), "Previous", "where there is no next page");
    await page.getByRole("button", { name: "Previous" }).click();
    await page.getByText("51 to 100 of 120", { exact: true }).waitFor();
    assert.equal(await focused(page), "Previous");

    await page.getByRole("link", { name: "Bans" }).click();
    await page.getByText("1 to 50 of 60", { exact: true }).waitFor();
    await page.getByRole("button", { name: "Next" }).click();
    await page.getByText("51 to 60 of 60", { exact: true }).waitFor();
    assert.equal((await cells(page, "Bans")).length, 10);
    // All bans of a page may have ended since.
    const headers = { "X-Total-Count": "50" };
    await page.route(/after=/, (route) => route.fulfill({ headers, json: [] }));
    await page.getByRole("button", { name: "Refresh" }).click();
    await page.getByText("1 to 50 of 60", { exact: true }).waitFor();
    assert.equal((await cells(page, "Bans")).length, 50);
    const elements = await page.evaluate<number>("document.querySelectorAll('*').length");
    assert.ok(elements < 1_000, `${elements} elements`);
    assert.deepEqual(complaints, []);
  });
});

describe("the clock of the computer", () => {
  it("may be wrong by a day: instants are told by that of the gateway", async () => {
    await using house = await startTestGateway();
    const { account } = await house.issue({ expires: "2h" });
    const body = JSON.stringify({ id: account, for: "3h" });
    await house.admin("/api/bans", { method: "POST", body });
    const { page } = await openTab(`${house.adminUrl}/`);
    await page.addInitScript("const real = Date.now; Date.now = () => real() + 86_400_000;");
    await page.goto(`${house.adminUrl}/?#/accounts/${account}`);
    await eventually(async () => {
      assert.match(await textOf(page.locator(".banned time")), /^in [23] h$/);
      const [key] = await cells(page, "Keys");
      assert.match(key?.[1] ?? "", /^works\s+ends in [12] h, /);
    });
  });
});

describe("on a phone, where no mouse opens a title", () => {
  it("the end of a ban, a suspension and a key, and when an event happened, are read to the second", async () => {
    await using house = await startTestGateway();
    const { account } = await house.issue({ expires: "90d" });
    const post = (path: string, body: object) =>
      house.admin(path, { method: "POST", body: JSON.stringify(body) });
    await post("/api/bans", { id: account, for: "1h" });
    await post(`/api/accounts/${account}/suspend`, { for: "2h" });
    const read = async <T>(path: string) => (await (await house.admin(path)).json()) as T;
    const words = (seconds = 0) =>
      `${new Date(seconds * 1_000).toISOString().slice(0, 19).replace("T", " ")} UTC`;
    const [ban] = await read<{ until: number }[]>("/api/bans");
    const [key] = await read<{ expires: number }[]>("/api/keys");
    const { suspended } = await read<{ suspended: { until: number } }>(`/api/accounts/${account}`);
    const viewport = { width: 390, height: 780 };
    const { page } = await openTab(`${house.adminUrl}/#/bans`, { viewport });
    const isRead = async (seconds?: number) =>
      page.locator("#main").getByText(words(seconds)).first().waitFor();
    await isRead(ban?.until);
    await page.goto(`${house.adminUrl}/#/accounts/${account}`);
    for (const end of [ban?.until, suspended.until, key?.expires]) await isRead(end);
    await page.goto(`${house.adminUrl}/#/events`);
    await page.locator("tbody tr").first().waitFor();
    const [[when] = []] = await cells(page, "Events");
    assert.match(when ?? "", /, \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC$/);
  });
});

describe("two who change the same account", () => {
  it("each see what the other did, without a reload of the page", async () => {
    await using house = await startTestGateway();
    const { account } = await house.issue();
    const { page } = await openTab(`${house.adminUrl}/`);
    await page.getByText("Ready").waitFor();
    await page.clock.install();
    await page.evaluate(`location.hash = "#/accounts/${account}"`);
    await page.getByRole("button", { name: "Suspend" }).waitFor();
    await page.getByRole("button", { name: "Change plan" }).focus();
    const body = JSON.stringify({ reason: "by somebody else" });
    await house.admin(`/api/accounts/${account}/suspend`, { method: "POST", body });
    await page.clock.fastForward(11_000);
    await page.getByText("by somebody else").waitFor();
    assert.equal(await page.getByRole("button", { name: "Suspend" }).count(), 0);
    assert.equal(await focused(page), "Change plan", "the keyboard stays where it was");
    const resume = page.getByRole("button", { name: "Resume" });
    await resume.click();
    await house.admin(`/api/accounts/${account}/resume`, { method: "POST", body: "{}" });
    await page.getByRole("dialog").getByRole("button", { name: "Resume" }).click();
    const said = await textOf(page.getByRole("dialog").getByRole("alert"));
    assert.match(said, /not suspended/);
  });

  it("each keep the keyboard on the key that they were at, though another comes", async () => {
    await using house = await startTestGateway();
    const { account } = await house.issue();
    const more = () => {
      return house.admin("/api/keys", { method: "POST", body: JSON.stringify({ account }) });
    };
    await more();
    const { page } = await openTab(`${house.adminUrl}/`);
    await page.getByText("Ready").waitFor();
    await page.clock.install();
    await page.evaluate(`location.hash = "#/accounts/${account}"`);
    const rows = page.getByRole("region", { name: "Keys", exact: true }).locator("tbody tr");
    const second = rows.nth(1);
    await second.getByRole("button", { name: "Rotate" }).focus();
    const id = await textOf(second.locator(".id"));
    await more();
    await page.clock.fastForward(11_000);
    await eventually(async () => assert.equal(await rows.count(), 3));
    assert.match(
      String(await page.evaluate("document.activeElement.closest('tr').innerText")),
      RegExp(id),
    );
    assert.equal(await focused(page), "Rotate");
  });
});

describe("the plans", () => {
  it("of 500 by 40 environments are drawn as 200 rows, and a search finds each of the others", async () => {
    await using house = await startTestGateway();
    const { page } = await openTab("about:blank");
    const names = (of: string, length: number) =>
      Array.from({ length }, (_, i) => `${of}${String(i).padStart(3, "0")}`);
    const each = (all: readonly string[], value: unknown) =>
      Object.fromEntries(all.map((name) => [name, value]));
    const [plans, environments] = [names("plan", 500), names("env", 40)];
    const config = { plans: each(plans, { minute: 60 }), environments: each(environments, {}) };
    const reports = plans.map((plan) => ({ plan, accounts: 6, environments: { env000: 6 } }));
    await page.route("**/api/config", (route) => route.fulfill({ json: config }));
    await page.route("**/api/plans", (route) => route.fulfill({ json: reports }));
    await page.goto(`${house.adminUrl}/#/plans`);
    await page.getByText("200 of 20,000 rows, without 19,800 that a search finds").waitFor();
    assert.equal((await cells(page, "Plans")).length, 200);
    await page.getByLabel("Search").fill("PLAN499 env039");
    await page.getByText("1 of 20,000 rows", { exact: true }).waitFor();
    assert.match((await cells(page, "Plans"))[0]?.[0] ?? "", /plan499.*env039/s);
    await page.getByLabel("Search").fill("nothing such");
    await page.getByText("Nothing fits this search.").waitFor();
    await page.getByLabel("Search").fill("");
    await page.getByText("200 of 20,000 rows, without 19,800 that a search finds").waitFor();
  });
});
