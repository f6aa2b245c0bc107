import assert from "node:assert/strict";
import type { Locator } from "playwright-core";
import { describe, it } from "vitest";
import { DEPRECATED_API } from "../../support/gateway/deprecated-api.ts";
import { startTestGateway } from "../../support/gateway/house.ts";
import { eventually } from "../../support/poll.ts";
import { cells, focused, fromNoon, openTab, textOf } from "./browser.ts";

const BANS = { strikes: 1, within: "1m", grace: "0s", duration: "10m" };

/** The facts of a list of settings: each name with its value. */
async function factsOf(list: Locator): Promise<Record<string, string>> {
  const [names, values] = await Promise.all([
    list.locator("dt").allInnerTexts(),
    list.locator("dd").allInnerTexts(),
  ]);
  return Object.fromEntries(names.map((name, i) => [name, values[i] ?? ""]));
}

describe("the bar of a window", () => {
  it("is near from 80 % of the limit on, and full at the limit", async () => {
    await using house = await startTestGateway({
      config: { plans: { free: { hour: 10, day: 1_000 } } },
      now: fromNoon(),
    });
    const { key, account } = await house.issue();
    const { page } = await openTab(`${house.adminUrl}/#/accounts/${account}`);
    const bar = page.locator('[data-window="hour"] meter');
    await bar.waitFor();
    assert.deepEqual([await bar.getAttribute("min"), await bar.getAttribute("max")], ["0", "10"]);
    let used = 0;
    for (const [to, state] of [
      [7, ""],
      [8, "near"],
      [9, "near"],
      [10, "full"],
    ] as const) {
      for (; used < to; used++) await (await house.ask(key)).text();
      await eventually(async () => {
        assert.equal(await bar.getAttribute("value"), String(to));
        assert.equal(await bar.getAttribute("class"), state);
        assert.equal(await bar.getAttribute("aria-label"), `${to} of 10 used in this hour`);
      });
    }
  });
});

describe("a list that the store has only in part", () => {
  it("says what is missing below its entries", async () => {
    await using house = await startTestGateway();
    const { account } = await house.issue();
    const body = JSON.stringify({ id: account, for: "1h" });
    await house.admin("/api/bans", { method: "POST", body });
    const { page } = await openTab(`${house.adminUrl}/`);
    await page.route("**/api/bans?*", async (route) => {
      const response = await route.fetch();
      const headers = { ...response.headers(), "x-tollgate-missing": "buckets 3 at 10.0.0.7:7001" };
      await route.fulfill({ response, headers });
    });
    await page.getByRole("link", { name: "Bans" }).click();
    const missing = "Incomplete, without buckets 3 at 10.0.0.7:7001";
    await page.getByText(missing).waitFor();
    assert.deepEqual(
      (await cells(page, "Bans")).map(([id]) => id),
      [account],
    );
    await house.admin(`/api/bans/${account}`, { method: "DELETE" });
    await page.getByRole("button", { name: "Refresh" }).click();
    await page.getByRole("region", { name: "Bans" }).waitFor({ state: "detached" });
    await page.getByText(missing).waitFor();
    assert.equal(await page.getByText("No account is banned.").count(), 0, "it is not known");
    await page.unroute("**/api/bans?*");
    await page.getByRole("button", { name: "Refresh" }).click();
    await page.getByText(missing).waitFor({ state: "detached" });
    await page.getByText("No account is banned.").waitFor();
  });

  it("says so below the accounts nearest to a limit as well", async () => {
    await using house = await startTestGateway();
    const { key, account } = await house.issue();
    await (await house.ask(key)).text();
    const { page } = await openTab(`${house.adminUrl}/`);
    await page.route("**/api/usage?top=10", async (route) => {
      const response = await route.fetch();
      const headers = { ...response.headers(), "x-tollgate-missing": "buckets 3 at 10.0.0.7:7001" };
      await route.fulfill({ response, headers });
    });
    await page.getByRole("link", { name: "Plans" }).click();
    const missing = "Incomplete, without buckets 3 at 10.0.0.7:7001";
    await page.getByText(missing).waitFor();
    const [nearest] = await cells(page, "Nearest to a limit");
    assert.equal(nearest?.[0], account);
    await house.admin(`/api/accounts/${account}/reset`, { method: "POST", body: "{}" });
    await page.getByRole("link", { name: "Bans" }).click();
    await page.getByRole("link", { name: "Plans" }).click();
    await page.getByText(missing).waitFor();
    assert.equal(await page.getByText("No account has used anything").count(), 0, "not known");
  });

  it("says so of callers and days that a worker did not tell of, and not that there are none", async () => {
    await using house = await startTestGateway({
      config: { history: "30d" },
      environment: { api: "./api.yaml" },
      files: { "api.yaml": DEPRECATED_API },
    });
    const { account } = await house.issue();
    const { page, complaints } = await openTab(`${house.adminUrl}/`);
    let missing = "workers 1 2";
    await page.route(/\/api\/(?:deprecations|history)/, async (route) => {
      const response = await route.fetch();
      const headers = { ...response.headers(), "x-tollgate-missing": missing };
      await route.fulfill({ response, headers });
    });
    const told = () => page.getByText(`Incomplete, without ${missing}`, { exact: true }).waitFor();
    await page.getByRole("link", { name: "Deprecations" }).click();
    await told();
    assert.equal(await page.getByText("No account is known to call them.").count(), 0);
    await page.evaluate(`location.hash = "#/accounts/${account}"`);
    await told();
    assert.equal(await page.getByText("Nothing was used in the last 30 days.").count(), 0);
    missing = "worker 3";
    await page.reload();
    await told();
    assert.deepEqual(complaints, []);
  });

  it("offers no page after the last one and none before the first", async () => {
    await using house = await startTestGateway();
    await house.issue({ count: 100 });
    const { page } = await openTab(`${house.adminUrl}/#/accounts`);
    const state = async () => [
      await page.getByRole("button", { name: "Previous" }).isEnabled(),
      await page.getByRole("button", { name: "Next" }).isEnabled(),
    ];
    await page.getByText("1 to 50 of 100", { exact: true }).waitFor();
    assert.deepEqual(await state(), [false, true]);
    await page.getByRole("button", { name: "Next" }).click();
    await page.getByText("51 to 100 of 100", { exact: true }).waitFor();
    assert.deepEqual(await state(), [true, false]);
  });

  it("shows the answer to the last search, if that to an earlier one comes after it", async () => {
    await using house = await startTestGateway();
    for (const account of ["early", "late"]) await house.issue({ account });
    const { page } = await openTab(`${house.adminUrl}/#/accounts`);
    await page.getByText("2 accounts", { exact: true }).waitFor();
    const held = Promise.withResolvers<() => Promise<void>>();
    await page.route("**/api/accounts?*q=early*", async (route) => {
      const response = await route.fetch();
      held.resolve(() => route.fulfill({ response }));
    });
    await page.getByLabel("Search").fill("early");
    const release = await held.promise;
    await page.getByLabel("Search").fill("late");
    const found = async () => (await cells(page, "Accounts")).map(([id]) => id);
    await eventually(async () => assert.deepEqual(await found(), ["late"]));
    const answered = page.waitForResponse(/q=early/);
    await release();
    await (await answered).finished();
    // By the answer to a further request the page has read the one before.
    await page.evaluate("fetch('/livez').then((response) => response.text())");
    assert.deepEqual(await found(), ["late"]);
  });
});

describe("a dialog", () => {
  it("sends its request once, however often its button is pressed while it is under way", async () => {
    await using house = await startTestGateway();
    const { account } = await house.issue();
    const { page } = await openTab(`${house.adminUrl}/#/accounts/${account}`);
    const release = Promise.withResolvers<void>();
    let sent = 0;
    await page.route("**/api/keys", async (route) => {
      sent += 1;
      await release.promise;
      await route.continue();
    });
    await page.getByRole("button", { name: "Add key" }).click();
    const dialog = page.getByRole("dialog");
    const create = dialog.getByRole("button", { name: "Create", exact: true });
    await create.waitFor();
    // Somebody else changes the plan meanwhile: the key takes that of its account.
    const change = { method: "PATCH", body: JSON.stringify({ plan: "pro" }) };
    assert.equal((await house.admin(`/api/accounts/${account}`, change)).status, 200);
    await create.click();
    await eventually(() => assert.equal(sent, 1));
    await dialog.getByLabel("Name").press("Enter");
    assert.equal(await create.isDisabled(), true);
    release.resolve();
    await page.getByRole("textbox", { name: "The key" }).waitFor();
    await page.getByRole("button", { name: "I have stored it" }).click();
    await eventually(async () => assert.equal((await cells(page, "Keys")).length, 2));
    assert.equal(sent, 1);
  });
});

describe("an explanation", () => {
  it("has what the request cost and what it was charged, who decided, and when", async () => {
    await using house = await startTestGateway({ config: { bans: BANS }, now: fromNoon() });
    const { key, account, id: keyId } = await house.issue();
    let id = "";
    for (let i = 0; i < 61; i++) {
      const answer = await house.ask(key);
      id = answer.headers.get("x-request-id") ?? "";
      await answer.text();
    }
    const { page } = await openTab(`${house.adminUrl}/#/explain/${id}`);
    await page.locator(".rule").waitFor();
    const facts = await factsOf(page.locator("dl.settings"));
    assert.match(facts.decided ?? "", / by the /);
    await page.route("**/api/explain/*", async (route) => {
      const response = await route.fetch();
      await route.fulfill({ response, json: { ...(await response.json()), decidedBy: null } });
    });
    await page.reload();
    await page.locator(".rule").waitFor();
    const { decided } = await factsOf(page.locator("dl.settings"));
    assert.doesNotMatch(decided ?? "by", /by/, "nobody knows");
    const { request, answer, environment, plan, cost } = facts;
    assert.deepEqual(
      { request, answer, account: facts.account, environment, plan, key: facts.key, cost },
      {
        ...{ request: "GET /v1/pets", answer: "429 rate_limited", account },
        ...{ environment: "production", plan: "free", key: keyId, cost: "1, charged 0" },
      },
    );
  });
});

describe("an account with a ban by hand after one that is not remembered", () => {
  it("is said to have one earlier ban that is not remembered: that by hand is no offence", async () => {
    await using house = await startTestGateway();
    const { account } = await house.issue();
    const body = JSON.stringify({ id: account, for: "1h" });
    await house.admin("/api/bans", { method: "POST", body });
    const { page } = await openTab(`${house.adminUrl}/`);
    const shown = page.getByText(/not remembered by this gateway/);
    await page.route("**/api/bans/*", async (route) => {
      const response = await route.fetch();
      const told = (await response.json()) as { ban: object };
      await route.fulfill({ response, json: { ...told, ban: { ...told.ban, offences: 1 } } });
    });
    await page.goto(`${house.adminUrl}/#/accounts/${account}`);
    await page.getByText("Banned by hand").waitFor();
    assert.match(await textOf(shown), /^1 earlier ban is not remembered/);
  });
});

describe("a gateway without news for 12 s", () => {
  it("is asked again over a new connection", async () => {
    await using house = await startTestGateway();
    const { page } = await openTab(`${house.adminUrl}/`);
    await page.clock.install();
    await page.reload();
    await page.getByText("Ready", { exact: true }).waitFor();
    const again = page.waitForRequest("**/api/events");
    await page.clock.fastForward(13_000);
    await again;
    await page.getByText("Ready", { exact: true }).waitFor();
  });
});

describe("the page of an account", () => {
  it("leaves the keyboard on the button that lifts its ban, though its usage goes on", async () => {
    await using house = await startTestGateway();
    const { account, key } = await house.issue({ limits: { day: 9 } });
    const { page } = await openTab(`${house.adminUrl}/`);
    const ban = { until: Math.ceil(Date.now() / 1_000) + 600, offences: 1 };
    await page.route("**/api/usage/*", async (route) => {
      const response = await route.fetch();
      await route.fulfill({ response, json: { ...(await response.json()), ban } });
    });
    await page.goto(`${house.adminUrl}/#/accounts/${account}`);
    await page.getByRole("button", { name: "Lift the ban" }).focus();
    await (await house.ask(key)).text();
    await page.getByText("1 of 9", { exact: true }).waitFor();
    assert.equal(await focused(page), "Lift the ban");
  });

  it("lists its bans, the latest first", async () => {
    await using house = await startTestGateway();
    const { account } = await house.issue();
    for (const [reason, hours] of [
      ["the first one", 1],
      ["the second one", 2],
    ]) {
      const body = JSON.stringify({ id: account, for: `${hours}h`, reason });
      assert.equal((await house.admin("/api/bans", { method: "POST", body })).status, 201);
    }
    const { page } = await openTab(`${house.adminUrl}/#/accounts/${account}`);
    await page.getByText("the first one").waitFor();
    const rows = await cells(page, "Recent bans");
    const whys = rows.map((row) => /the \w+ one/.exec(row.at(-1) ?? "")?.[0]);
    assert.deepEqual(whys, ["the second one", "the first one"]);
  });

  it("says of a ban that was lifted when that was, or if another gateway lifted it, that it ended early", async () => {
    await using house = await startTestGateway();
    const { account } = await house.issue();
    const body = JSON.stringify({ id: account, for: "1h" });
    assert.equal((await house.admin("/api/bans", { method: "POST", body })).status, 201);
    const { page } = await openTab(`${house.adminUrl}/#/accounts/${account}`);
    const end = async () => (await cells(page, "Recent bans"))[0]?.[1] ?? "";
    await eventually(async () => assert.match(await end(), /^in (?:1 h|59 min)$/));
    await page.getByRole("button", { name: "Lift the ban" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Lift the ban" }).click();
    await eventually(async () => assert.match(await end(), /^lifted (?:now|\d+ s ago)$/));
    await page.route("**/api/bans/*", async (route) => {
      const response = await route.fetch();
      const told = (await response.json()) as { bans: { lifted?: number }[] };
      for (const ban of told.bans) delete ban.lifted;
      await route.fulfill({ response, json: told });
    });
    await page.reload();
    await eventually(async () => assert.equal(await end(), "ended early"));
  });

  it("says of a ban that was only observed that it was, and counts it among no others", async () => {
    await using house = await startTestGateway();
    const { account } = await house.issue();
    const { page } = await openTab(`${house.adminUrl}/`);
    const until = Math.ceil(Date.now() / 1_000) + 600;
    const strikes = [{ at: until - 700 }];
    const ban = { window: "minute", at: until - 700, until, offences: 1, strikes };
    const json = {
      bans: [{ ...ban, until: until - 1, observed: true }, ban],
      ban: { ...ban, offences: 1, imposed: false, reason: null },
    };
    await page.route("**/api/bans/*", (route) => route.fulfill({ json }));
    await page.goto(`${house.adminUrl}/#/accounts/${account}`);
    await page.getByRole("region", { name: "Recent bans" }).waitFor();
    const rows = await cells(page, "Recent bans");
    assert.deepEqual(
      rows.map(([, ends, limit]) => [ends?.replace(/\d+/, "N"), limit]),
      [
        ["in N min", "minute"],
        ["only observed", "minute"],
      ],
    );
    json.ban.offences = 2;
    await page.reload();
    await page.getByText(/^1 earlier ban is not remembered/).waitFor();
  });

  it("says of a ban whose cause nobody knows any more when it ends, not when it began, and no reason of one by hand that has none", async () => {
    await using house = await startTestGateway();
    const { account } = await house.issue();
    const { page } = await openTab(`${house.adminUrl}/`);
    const unknown = { at: null, imposed: null as boolean | null, reason: null, strikes: [] };
    await page.route("**/api/bans/*", async (route) => {
      const response = await route.fetch();
      const ban = { ...unknown, until: Date.now() / 1_000 + 600, offences: 1 };
      await route.fulfill({ response, json: { ...(await response.json()), ban } });
    });
    await page.goto(`${house.adminUrl}/#/accounts/${account}`);
    await page.getByText("What earned it is not remembered: the log has its event.").waitFor();
    const [row] = await cells(page, "Recent bans");
    assert.deepEqual([row?.[0], row?.[2]], ["not remembered", "–"]);
    assert.equal(await page.getByText(/not remembered by this gateway/).count(), 0);
    assert.match(row?.[1] ?? "", /^in \d+ min/);
    unknown.imposed = true;
    await page.reload();
    await page.getByText("Banned by hand", { exact: true }).waitFor();
  });

  it("asks for it as long as it is open, and no longer", async () => {
    await using house = await startTestGateway();
    const { account } = await house.issue();
    const { page } = await openTab(`${house.adminUrl}/`);
    await page.clock.install();
    await page.goto(`${house.adminUrl}/#/accounts/${account}`);
    await page.locator('[data-window="minute"] meter').waitFor();
    const asked: string[] = [];
    page.on("request", (request) => asked.push(request.url()));
    const ofAccount = () => asked.filter((url) => url.includes(account));
    await page.clock.runFor(5_000);
    await eventually(() => assert.ok(ofAccount().length > 1));
    await page.getByRole("link", { name: "Overview" }).click();
    await page.locator("[data-tile]").first().waitFor();
    asked.length = 0;
    await page.clock.runFor(15_000);
    await page.evaluate(() => fetch("/livez").then((response) => response.text()));
    assert.ok(asked.some((url) => url.endsWith("/livez")));
    assert.deepEqual(ofAccount(), []);
  });
});
