import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { startTestGateway, type TestGateway } from "../../support/gateway/house.ts";
import { eventually } from "../../support/poll.ts";
import { startRedis } from "../../support/redis/redis.ts";
import { cells, openTab, textOf } from "./browser.ts";
import { firstMessages, holdStream, streamTo } from "./live-stream.ts";

async function write(house: TestGateway, method: string, path: string, body: object = {}) {
  const response = await house.admin(path, { method, body: JSON.stringify(body) });
  assert.ok(response.ok, await response.clone().text());
  await response.arrayBuffer();
}

describe("keys and accounts on the page", () => {
  it("a key that was revoked offers nothing to do, and an account without another is marked", async () => {
    await using house = await startTestGateway();
    const [ended, working] = [await house.issue(), await house.issue()];
    await write(house, "POST", `/api/keys/${ended.id}/revoke`);
    const { page } = await openTab(`${house.adminUrl}/#/accounts`);
    await page.getByText("2 accounts", { exact: true }).waitFor();
    const rows = await cells(page, "Accounts");
    assert.deepEqual(
      rows.map(([account, plan, environment, keys]) => [account, plan, environment, keys]),
      [
        [working.account, "free", "production", "1"],
        [ended.account, "free", "production", "none"],
      ],
    );
    await page.locator("td .badge.warn").getByText("none", { exact: true }).waitFor();
    for (const [account, state, actions] of [
      [ended.account, /^revoked/, "–"],
      [working.account, /^works$/, "Limits\nRotate\nRevoke"],
    ] as const) {
      await page.goto(`${house.adminUrl}/#/accounts/${account}`);
      await page.getByRole("heading", { level: 1, name: account }).waitFor();
      await eventually(async () => {
        const [key] = await cells(page, "Keys");
        assert.match(key?.[1] ?? "", state);
        assert.equal(key?.at(-1)?.replaceAll(/\s+/g, "\n"), actions);
      });
    }
  });

  it("an account that is suspended for a time says until when, and why, and one with an anchor its day", async () => {
    await using house = await startTestGateway();
    const { account } = await house.issue();
    const how = { for: "119m", reason: "unpaid" };
    await write(house, "POST", `/api/accounts/${account}/suspend`, how);
    const { page } = await openTab(`${house.adminUrl}/#/accounts/${account}`);
    const lead = page.locator(".lead");
    // Whole hours that are left, as a clock shows them.
    await eventually(async () => {
      assert.match(await textOf(lead), /suspended unpaid until in 1 h, [-\d]{10} [:\d]{8} UTC$/);
    });
    await write(house, "POST", `/api/accounts/${account}/suspend`, { reason: "leaked" });
    await page.reload();
    await eventually(async () => assert.match(await textOf(lead), /suspended leaked$/));
    const labels = page.locator("p.hint.words");
    assert.equal(await labels.count(), 0, "it has no metadata");
    const anchorFrom = Date.now() / 1_000 + 7_230;
    const meta = { tenant: "42", tier: "gold" };
    for (const [changed, months] of [
      [{ anchor: 20, meta }, "day 20"],
      [{ anchor: 20, anchorFrom }, "day 20 from in 2 h on"],
      [{ anchor: 1, anchorFrom }, "day 1 from in 2 h on"],
    ] as const) {
      await page.route(`**/api/accounts/${account}`, async (route) => {
        const response = await route.fetch();
        await route.fulfill({ response, json: { ...(await response.json()), ...changed } });
      });
      await page.reload();
      const expected = `free in production, months from ${months} suspended leaked`;
      await eventually(async () => assert.equal(await textOf(lead), expected));
      if ("meta" in changed) assert.equal(await textOf(labels), "tenant=42 · tier=gold");
      await page.getByRole("button", { name: "Change anchor" }).click();
      const day = await page.getByLabel("Day of the month").inputValue();
      assert.equal(day, String(changed.anchor));
    }
    // The account is read again on changes, and the gateway ends before the page does.
    await page.unrouteAll({ behavior: "ignoreErrors" });
  });

  it("a later page of keys has its places only about, once keys were added before it", async () => {
    await using house = await startTestGateway();
    const { account } = await house.issue();
    await house.issue({ account, count: 59 });
    const { page } = await openTab(`${house.adminUrl}/#/accounts/${account}`);
    await page.getByRole("button", { name: "Next" }).click();
    await page.getByText("51 to 60 of 60", { exact: true }).waitFor();
    await house.issue({ account, count: 3 });
    await page.getByText("about 51 to 60 of 63", { exact: true }).waitFor();
    await page.getByRole("button", { name: "Previous" }).click();
    await page.getByText("1 to 50 of 63", { exact: true }).waitFor();
  });

  it("usage by day has the newest day first", async () => {
    const clock = { nowMs: Date.UTC(2026, 9, 20, 12) };
    await using house = await startTestGateway({
      config: { history: "30d" },
      now: () => clock.nowMs,
    });
    const { key, account } = await house.issue();
    for (const [day, requests] of [
      [20, 3],
      [21, 1],
      [23, 2],
    ] as const) {
      clock.nowMs = Date.UTC(2026, 9, day, 12);
      for (let i = 0; i < requests; i++) await (await house.ask(key)).text();
    }
    const { page } = await openTab(`${house.adminUrl}/#/accounts/${account}`);
    await eventually(async () => {
      const days = (await cells(page, "Usage by day")).map(([day, units]) => [day, units]);
      assert.deepEqual(days, [
        ["2026-10-23", "2"],
        ["2026-10-21", "1"],
        ["2026-10-20", "3"],
      ]);
    });
  });

  it("a ban is listed with its reason, and its lift, as soon as the usage of the account tells them", async () => {
    await using house = await startTestGateway();
    const { account } = await house.issue();
    const { page } = await openTab(`${house.adminUrl}/#/accounts/${account}`);
    await page.getByText(/^This gateway remembers no ban/).waitFor();
    // The account as a whole is not read again.
    await page.route(`**/api/accounts/${account}`, () => {});
    await write(house, "POST", "/api/bans", { id: account, for: "1h", reason: "theirs" });
    await page.getByText("Banned by hand: theirs").waitFor();
    await write(house, "DELETE", `/api/bans/${account}`);
    await page
      .getByRole("region", { name: "Recent bans" })
      .getByText(/^lifted/)
      .waitFor();
  });

  it("that are gone from the store are told as gone by the list and by the page of an account", async () => {
    const redis = await startRedis();
    try {
      await using house = await startTestGateway({ config: { store: redis.url, keys: "redis" } });
      const { account } = await house.issue();
      const { page } = await openTab(`${house.adminUrl}/#/accounts`);
      await page.getByText("1 account", { exact: true }).waitFor();
      const other = await openTab(`${house.adminUrl}/#/accounts/${account}`);
      await (await redis.client()).flushall();
      const gone = /: 1 key and 1 account are gone from .*, and no command deleted them\. /;
      for (const tab of [page, other.page]) {
        const told = () => textOf(tab.locator("p.empty"));
        await eventually(async () => assert.match(await told(), gone));
        await tab.reload();
        await eventually(async () => assert.match(await told(), gone));
      }
      const counted = page.locator("p.hint[role=status]").first();
      await eventually(async () => assert.equal(await counted.textContent(), ""));
    } finally {
      await redis.close();
    }
  });

  it("a ban that another one replaced is told so, also once the second is lifted", async () => {
    await using house = await startTestGateway();
    const { account } = await house.issue();
    await write(house, "POST", "/api/bans", { id: account, for: "24h" });
    await write(house, "POST", "/api/bans", { id: account, for: "10m" });
    const { page } = await openTab(`${house.adminUrl}/#/accounts/${account}`);
    const isEach = async (...ends: readonly RegExp[]) => {
      await eventually(async () => {
        const rows = await cells(page, "Recent bans");
        assert.equal(rows.length, ends.length);
        for (const [i, end] of ends.entries()) assert.match(rows[i]?.[1] ?? "", end);
      });
    };
    await isEach(/^in (?:10|9) min/, /^replaced/);
    await write(house, "DELETE", `/api/bans/${account}`);
    await isEach(/^lifted/, /^replaced/);
  });

  it("a ban that takes the place of another one is listed, though their number is as before", async () => {
    await using house = await startTestGateway();
    const [first, second, third] = [await house.issue(), await house.issue(), await house.issue()];
    const ban = ({ account }: { readonly account: string }) => {
      return write(house, "POST", "/api/bans", { id: account, for: "1h" });
    };
    await ban(first);
    const { page } = await openTab(`${house.adminUrl}/#/bans`);
    await page.getByText("Ready", { exact: true }).waitFor();
    const listed = async () => (await cells(page, "Bans")).map(([account]) => account);
    await eventually(async () => assert.deepEqual(await listed(), [first.account]));
    await Promise.all([write(house, "DELETE", `/api/bans/${first.account}`), ban(second)]);
    await eventually(async () => assert.deepEqual(await listed(), [second.account]));
    await ban(third);
    await eventually(async () => assert.equal((await listed()).length, 2));
    const [, last] = await listed();
    await page.getByRole("button", { name: "Lift" }).nth(1).focus();
    await ban(first);
    await eventually(async () => assert.equal((await listed()).length, 3));
    const row = await page.evaluate("document.activeElement.closest('tr')?.innerText");
    assert.ok(String(row).startsWith(`${last}`), "the keyboard stays at the same ban");
  });
});

describe("a list of bans that is older than the first figures", () => {
  it("is read again with them, because a ban may have changed between the two", async () => {
    await using house = await startTestGateway();
    const [first, second] = [await house.issue(), await house.issue()];
    const ban = { for: "1h" };
    await write(house, "POST", "/api/bans", { ...ban, id: first.account });
    const { page } = await openTab(`${house.adminUrl}/#/plans`);
    const release = Promise.withResolvers<void>();
    await page.route("**/api/events", async (route) => {
      await release.promise;
      await route.continue();
    });
    await page.goto(`${house.adminUrl}/?again#/bans`);
    const listed = async () => (await cells(page, "Bans")).map(([account]) => account);
    await eventually(async () => assert.deepEqual(await listed(), [first.account]));
    await write(house, "DELETE", `/api/bans/${first.account}`);
    await write(house, "POST", "/api/bans", { ...ban, id: second.account });
    release.resolve();
    await eventually(async () => assert.deepEqual(await listed(), [second.account]));
  });
});

describe("the configuration on the page", () => {
  it("is that in force after it was reloaded elsewhere, without a reload of the page", async () => {
    await using house = await startTestGateway();
    const { page } = await openTab(`${house.adminUrl}/#/configuration`);
    await page.getByText("free, pro, business, enterprise", { exact: true }).click();
    const plans = page.locator("pre").filter({ hasText: '"enterprise"' });
    await plans.waitFor();
    await house.rewrite({ plans: { free: { minute: 7 } } });
    await write(house, "POST", "/api/reload");
    await page.getByText("free", { exact: true }).click();
    assert.match(await textOf(page.locator("pre").filter({ hasText: '"minute": 7' })), /"free"/);
    await page.getByRole("link", { name: "Plans" }).click();
    await page.getByText("7 a minute", { exact: true }).waitFor();
    await house.rewrite({ plans: { free: { minute: 8 } } });
    await write(house, "POST", "/api/reload");
    await page.getByText("8 a minute", { exact: true }).waitFor();
  });

  it("names what the last reload was refused for, with the accounts of a plan that it would drop", async () => {
    await using house = await startTestGateway();
    const { account } = await house.issue();
    await house.issue({ account: "payer", plan: "pro" });
    const { page, complaints } = await openTab(`${house.adminUrl}/#/configuration`);
    await page.getByText("in force since").waitFor();
    await house.rewrite({ plans: { free: { minute: 60 } } });
    const refused = await house.admin("/api/reload", { method: "POST", body: "{}" });
    assert.equal(refused.status, 409);
    const [told, drop] = [
      page.locator(".force"),
      /Cannot drop the plan pro by a reload: the account payer has it/,
    ];
    await told.getByText(drop).waitFor();
    assert.equal((await textOf(told)).split("Cannot drop").length, 2, "each reason once");
    await house.rewrite({ plans: { pro: { minute: 60 } } });
    await house.admin("/api/reload", { method: "POST", body: "{}" });
    await told.getByText(new RegExp(`the plan free by a reload: the account ${account}`)).waitFor();
    await eventually(async () => assert.doesNotMatch(await textOf(told), drop));
    assert.deepEqual(complaints, []);
  });

  it("says why the last reload was refused, once it was, and shows six names of a setting at most", async () => {
    await using house = await startTestGateway();
    const { hello, figures } = await firstMessages(house);
    const { page } = await openTab("about:blank");
    const send = await holdStream(page, [
      ["hello", hello],
      ["figures", figures],
    ]);
    await page.route("**/api/config", (route) => route.fulfill({ status: 502, body: "" }));
    await page.goto(`${house.adminUrl}/#/configuration`);
    const again = page.getByRole("button", { name: "Try again" });
    await again.waitFor();
    const six = { a: 1, b: 2, c: 3, d: 4, e: 5, f: 6 };
    const json = { hash: "0", six, seven: { ...six, g: 7 } };
    await page.route("**/api/config", (route) => route.fulfill({ json }));
    const names = page.locator("summary");
    // The view also asks by itself once the stream has told it the routes: the button goes then.
    await Promise.any([again.click(), names.first().waitFor()]);
    await names.first().waitFor();
    assert.deepEqual(await names.allInnerTexts(), ["a, b, c, d, e, f", "a, b, c, d, e, f …"]);
    const checks = { config: { ok: false, why: "plans is missing" } };
    send([["figures", { ...figures, checks }]]);
    await page.getByText(/last reload refused\s*plans is missing$/).waitFor();
    // The clock went back by an hour between the two.
    for (const [why, number, hour] of [
      ["an old reason", 9_001, 2],
      ["a new reason", 9_002, 1],
    ] as const) {
      const told = { kind: "config_refused", number, time: hour * 3_600_000, why };
      send([["happened", told]]);
    }
    await page.getByText(/last reload refused\s*plans is missing\s*a new reason$/).waitFor();
  });
});

describe("an admin token", () => {
  it("is asked for once in a tab, and again in another one", async () => {
    const token = "canary-admin-token-0123456789abcdef";
    await using house = await startTestGateway({
      config: { admin: { listen: "127.0.0.1:0", token } },
    });
    const { page, complaints } = await openTab(`${house.adminUrl}/`);
    await page.getByRole("textbox", { name: "Token" }).fill(token);
    await page.getByRole("button", { name: "Continue" }).click();
    await page.getByText("Ready", { exact: true }).waitFor();
    await page.reload();
    await page.getByText("Ready", { exact: true }).waitFor();
    assert.equal(await page.getByRole("dialog").count(), 0);
    const other = await openTab(`${house.adminUrl}/`);
    await other.page.getByRole("dialog").waitFor();
    assert.deepEqual([...complaints, ...other.complaints], []);
  });
});

/** How many points of the first plot are in a colour, and no grey, that far from its left edge. */
const COLOURED = `(shares) => {
  const canvas = document.querySelector(".chart canvas");
  const [outer, inner] = [canvas, document.querySelector(".u-over")].map((one) => one.getBoundingClientRect());
  return shares.map((share) => {
    const x = (inner.left - outer.left + share * inner.width) * (canvas.width / outer.width);
    const { data } = canvas.getContext("2d").getImageData(Math.round(x), 0, 2, canvas.height);
    let count = 0;
    for (let i = 0; i < data.length; i += 4) {
      const [r, g, b, alpha] = data.slice(i, i + 4);
      if (alpha > 0 && Math.max(r, g, b) - Math.min(r, g, b) > 60) count += 1;
    }
    return count;
  });
}`;

describe("the overview, of figures that are rare", () => {
  it("tells log lines that were dropped, and leaves the time without readings open in its plots", async () => {
    await using house = await startTestGateway();
    const { hello, figures } = await firstMessages(house);
    const at = (agoS: number, answered: number) => ({
      ...figures,
      ...{ atMs: figures.atMs - agoS * 1_000, answered: { 200: answered } },
    });
    // Ten a second, then nothing known for ten minutes, then twenty a second.
    const readings = [at(640, 0), at(635, 50), at(630, 100), at(15, 200), at(10, 300), at(5, 400)];
    const messages = [
      ["hello", { ...hello, readings }],
      ["figures", { ...at(0, 500), logDropped: 3 }],
    ] as const;
    const { page } = await openTab(`${house.adminUrl}/#/plans`);
    await streamTo(page, messages);
    await page.goto(`${house.adminUrl}/?again#/`);
    await page.getByText(/ · 3 log lines dropped · /).waitFor();
    const shown = page.locator(".legend dd").first();
    await eventually(async () => assert.equal(await textOf(shown), "20/s"));
    const plot = page.locator(".u-over").first();
    const { width = 0 } = (await plot.boundingBox()) ?? {};
    for (const [share, rate] of [
      [0.005, "10/s"],
      [0.3, "–"],
      [0.995, "20/s"],
    ] as const) {
      await plot.hover({ position: { x: Math.max(1, share * width), y: 40 } });
      await eventually(async () => assert.equal(await textOf(shown), rate));
    }
    const [known = 0, between] = await page.evaluate<number[]>(`(${COLOURED})([0.002, 0.3])`);
    assert.ok(known > 20, `the area below the line is coloured: ${known}`);
    assert.equal(between, 0, "no line leads over what is not known");
    await page.mouse.down();
    await plot.hover({ position: { x: width / 2, y: 60 } });
    const selected = page.locator(".u-select").first();
    assert.equal(await selected.evaluate((one) => one.clientWidth), 0, "nothing is selected");
    const widths = () =>
      page.locator(".canvas, .canvas .u-wrap").evaluateAll((all) => {
        return all.map((one) => one.clientWidth);
      });
    const [wide = 0, filled] = await widths();
    assert.ok(wide > 400 && filled === wide, `${filled} px of ${wide}`);
    await page.setViewportSize({ width: 500, height: 860 });
    await eventually(async () => {
      const [canvas = 0, drawn] = await widths();
      assert.ok(canvas < 500);
      assert.equal(drawn, canvas);
    });

    // A table is not drawn again for the same figures, which come with each stream: the keyboard stays in it.
    await page.getByRole("link", { name: "Plans" }).click();
    const plans = page.getByRole("region", { name: "Plans", exact: true });
    const first = await plans.elementHandle();
    for (let i = 0; i < 2; i++) await page.waitForRequest("**/api/events");
    assert.equal(await first?.evaluate((one) => one.isConnected), true);
  });
});
