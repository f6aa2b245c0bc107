import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { startTestGateway, type TestGateway } from "../../support/gateway/house.ts";
import { eventually } from "../../support/poll.ts";
import { startRedis } from "../../support/redis/redis.ts";
import { cells, checkLook, fromNoon, openTab, textOf } from "./browser.ts";

const BANS = { strikes: 1, within: "1m", grace: "0s", duration: "10m" };

type Reading = { readonly atMs: number; readonly answered: Record<string, number> };

/** The readings that a page gets when it is opened now. */
async function readings(house: TestGateway): Promise<Reading[]> {
  const response = await house.admin("/api/events");
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  while (!text.includes("\n\n")) text += (await reader?.read())?.value ?? "";
  await reader?.cancel();
  const [, data = "{}"] = /^event: hello\ndata: (.*)\n\n/.exec(text) ?? [];
  return (JSON.parse(data) as { readings: Reading[] }).readings;
}

async function useUp(house: TestGateway, key: string, requests: number): Promise<void> {
  for (let i = 0; i < requests; i++) await (await house.ask(key)).text();
}

describe("the plots of a page that is opened late", () => {
  it("have what happened while nobody looked", async () => {
    await using house = await startTestGateway();
    const { key } = await house.issue();
    await useUp(house, key, 40);
    const known = await eventually(async () => {
      const all = await readings(house);
      const counts = all.map(({ answered }) => answered["200"] ?? 0);
      assert.deepEqual([counts[0], counts.at(-1)], [0, 40]);
      assert.ok(counts.length >= 4, "quiet for longer than the first rates of the page");
      return all.map(({ atMs }, i) => ({ atMs, count: counts[i] ?? 0 }));
    });
    // A busy machine takes more than one reading to answer them all.
    const rates = known.slice(1).map(({ atMs, count }, i) => {
      const before = known[i] ?? { atMs: 0, count: 0 };
      return (count - before.count) / ((atMs - before.atMs) / 1_000);
    });
    const most = Math.max(...rates);
    assert.ok(most > 0);
    const { page, complaints } = await openTab(`${house.adminUrl}/`);
    const shown = page.locator(".legend dd").first();
    await eventually(async () => assert.equal(await textOf(shown), "0/s"));
    const plot = page.locator(".u-over").first();
    const { width = 0 } = (await plot.boundingBox()) ?? {};
    const seen: string[] = [];
    for (let x = 2; x < width; x += 6) {
      await plot.hover({ position: { x, y: 40 } });
      seen.push(await textOf(shown));
    }
    assert.ok(
      seen.some((text) => Number.parseFloat(text) >= 0.9 * most),
      `${most}: ${seen.join()}`,
    );
    const label = await page.locator(".canvas").first().getAttribute("aria-label");
    assert.match(label ?? "", /^Requests per second over the last 15 minutes: all, answered 5xx$/);
    assert.deepEqual(complaints, []);
  });
});

describe("the usage of an account by day", () => {
  it("has the newest day first, and each beside the busiest", async () => {
    let nowMs = Date.UTC(2026, 10, 20, 12);
    const config = { history: "30d", plans: { free: { month: 1000 } } };
    await using house = await startTestGateway({ config, now: () => nowMs });
    const { key, account } = await house.issue();
    await useUp(house, key, 2);
    nowMs += 86_400_000;
    await useUp(house, key, 5);
    const { page } = await openTab(`${house.adminUrl}/#/accounts/${account}`);
    await eventually(async () => {
      const rows = (await cells(page, "Usage by day")).map(([day, units]) => [day, units]);
      assert.deepEqual(rows, [
        ["2026-11-21", "5"],
        ["2026-11-20", "2"],
      ]);
    });
    const bars = await page.evaluate(
      `[...document.querySelectorAll("td meter")].map(({ value, max }) => [value, max])`,
    );
    assert.deepEqual(bars, [
      [5, 5],
      [2, 5],
    ]);
    await house.law();
  });
});

describe("the most refused accounts", () => {
  it("are on the overview, the most refused first", async () => {
    await using house = await startTestGateway({ now: fromNoon() });
    const [first, second] = [await house.issue(), await house.issue()];
    await useUp(house, first.key, 63);
    await useUp(house, second.key, 65);
    const { page } = await openTab(`${house.adminUrl}/`);
    await eventually(async () => {
      assert.deepEqual(await cells(page, "Most refused accounts"), [
        [second.account, "production", "5"],
        [first.account, "production", "3"],
      ]);
    });
    await page.getByRole("link", { name: second.account }).click();
    await page.getByRole("heading", { level: 1, name: second.account }).waitFor();
  });
});

describe("bans", () => {
  it("leave the list and the number in force as they end, and those of elsewhere come in", async () => {
    let aheadMs = 0;
    await using house = await startTestGateway({ now: () => Date.now() + aheadMs });
    const { account } = await house.issue();
    const { account: other } = await house.issue();
    const ban = (id: string, length: string) => {
      const body = JSON.stringify({ id, for: length });
      return house.admin("/api/bans", { method: "POST", body });
    };
    const { page } = await openTab(`${house.adminUrl}/#/bans`);
    await page.getByText("No account is banned.").waitFor();
    assert.equal((await ban(account, "1h")).status, 201);
    assert.equal((await ban(other, "2h")).status, 201);
    const listed = async () => (await cells(page, "Bans")).map(([id]) => id).sort();
    await eventually(async () => assert.deepEqual(await listed(), [account, other].sort()));
    aheadMs = 3_600_000;
    await eventually(async () => assert.deepEqual(await listed(), [other]));
    await page.getByRole("link", { name: "Overview" }).click();
    await page.locator('[data-tile="bans"]').getByText("1", { exact: true }).waitFor();
  });

  it("that ran to their end did not end early, within the second that it is rounded up to either", async () => {
    let nowMs = Date.UTC(2026, 10, 21, 12, 0, 5, 100);
    await using house = await startTestGateway({ now: () => nowMs });
    const { account } = await house.issue();
    const body = JSON.stringify({ id: account, for: "200ms" });
    assert.equal((await house.admin("/api/bans", { method: "POST", body })).status, 201);
    nowMs += 300;
    const { page } = await openTab("about:blank");
    // The clock of the page stands where the figures set it, and is that of the gateway.
    await page.clock.setFixedTime(nowMs);
    await page.goto(`${house.adminUrl}/#/accounts/${account}`);
    await page.getByText("Ready", { exact: true }).waitFor();
    const ended = async () => (await cells(page, "Recent bans"))[0]?.[1];
    await eventually(async () => assert.equal(await ended(), "in 1 s"));
    nowMs += 60_000;
    await page.reload();
    await page.getByText("Ready", { exact: true }).waitFor();
    await eventually(async () => assert.equal(await ended(), "59 s ago"));
  });

  it("that this gateway does not remember are said not to be remembered", async () => {
    const redis = await startRedis();
    try {
      const config = { store: redis.url, bans: BANS };
      const before = await startTestGateway({ config });
      const { key, account, id } = await before.issue();
      assert.ok(id);
      for (let i = 0; i < 200; i++) {
        const answer = await before.ask(key);
        const text = await answer.text();
        if (text.includes("banned")) break;
      }
      const keys = { [key]: { account } };
      const { page: known } = await openTab(`${before.adminUrl}/#/accounts/${account}`);
      await eventually(async () => {
        assert.equal((await cells(known, "Recent bans")).length, 1);
        assert.equal(await known.getByText(/not remember/).count(), 0);
      });
      await known.close();
      await before[Symbol.asyncDispose]();
      // Another gateway has seen none of it: the store knows the ban in force, and not the event.
      await using house = await startTestGateway({ config, keys });
      const client = await redis.client();
      const path = `${house.adminUrl}/#/accounts/${account}`;
      const { page, complaints } = await openTab(path);
      await eventually(async () => {
        const [row] = await cells(page, "Recent bans");
        assert.equal(row?.length, 4);
        assert.match(row?.at(-1) ?? "", /^(?:\d+ (?:s|min) ago|now)/, "its strikes, by the store");
      });
      const [cause = ""] = (await client.keys("tg:w*")).filter((one) => one.includes(account));
      await client.del(cause);
      const { account: never } = await house.issue();
      await page.reload();
      await page.getByText("What earned it is not remembered: the log has its event.").waitFor();
      await checkLook(page, "1280-light", "account-ban-forgotten");
      await page.goto(`${house.adminUrl}/#/accounts/${never}`);
      await page
        .getByText(
          /^This gateway remembers no ban of the account: those .* that other gateways told/,
        )
        .waitFor();
      assert.deepEqual(complaints, []);
    } finally {
      await redis.close();
    }
  });
});

describe("a third ban, of which the gateway remembers one", () => {
  it("says how many earlier ones it does not remember", async () => {
    const bans = { strikes: 1, within: "1m", grace: "0s", duration: "300ms", factor: 1 };
    const redis = await startRedis();
    try {
      const config = { store: redis.url, plans: { free: { day: 5 } } };
      const short = { ...config, bans: { ...bans, forgetAfter: "1h" } };
      const before = await startTestGateway({ config: short });
      const { key, account } = await before.issue();
      const banned = (house: TestGateway) => {
        return house.said.filter(({ kind, msg }) => kind === "ban" && msg === "event").length;
      };
      const askUntil = async (house: TestGateway, count: number) => {
        await eventually(async () => {
          await (await house.ask(key)).text();
          assert.equal(banned(house), count);
        });
      };
      await askUntil(before, 2);
      await before[Symbol.asyncDispose]();
      const long = { ...config, bans: { ...bans, duration: "10m", forgetAfter: "1h" } };
      await using house = await startTestGateway({ config: long, keys: { [key]: { account } } });
      await askUntil(house, 1);
      const { page } = await openTab(`${house.adminUrl}/#/accounts/${account}`);
      await page
        .getByText("2 earlier bans are not remembered by this gateway: the log has their events.")
        .waitFor();
    } finally {
      await redis.close();
    }
  });
});

describe("an account", () => {
  it("shows its usage by day, and says so where that is not kept", async () => {
    const nowMs = fromNoon();
    await using house = await startTestGateway({ config: { history: "30d" }, now: nowMs });
    const { key, account } = await house.issue();
    await useUp(house, key, 63);
    const { page } = await openTab(`${house.adminUrl}/#/accounts/${account}`);
    await eventually(async () => {
      const [row] = await cells(page, "Usage by day");
      const day = new Date(nowMs()).toISOString().slice(0, 10);
      assert.deepEqual(row, [day, "60", "", "60", "3", "free"]);
    });
    const { account: idle } = await house.issue();
    await page.goto(`${house.adminUrl}/#/accounts/${idle}`);
    await page.getByText("Nothing was used in the last 30 days.").waitFor();
    await using off = await startTestGateway({ config: { history: "off" } });
    const { account: without } = await off.issue();
    const { page: other } = await openTab(`${off.adminUrl}/#/accounts/${without}`);
    await other.getByText(/^Usage by day is not counted: history is off/).waitFor();
    assert.equal(await other.getByRole("alert").count(), 0, "nothing has failed");
  });
});

describe("events", () => {
  it("are filtered by kind, and the choice stays as more of them happen", async () => {
    await using house = await startTestGateway();
    const { account } = await house.issue();
    const body = JSON.stringify({ reason: "unpaid" });
    await house.admin(`/api/accounts/${account}/suspend`, { method: "POST", body });
    const { page, complaints } = await openTab(`${house.adminUrl}/#/events`);
    const kinds = async () => (await cells(page, "Events")).map(([, one]) => one?.split("\n")[0]);
    await eventually(async () => assert.ok((await kinds()).includes("account changed")));
    const choice = page.getByLabel("Kind");
    await choice.selectOption("key_issued");
    await eventually(async () => assert.deepEqual(await kinds(), ["key issued"]));
    await house.issue();
    await eventually(async () => assert.deepEqual(await kinds(), ["key issued", "key issued"]));
    assert.equal(await choice.inputValue(), "key_issued");
    const texts = await choice.locator("option").allInnerTexts();
    assert.ok(texts.includes("key issued (2)"), texts.join());
    await choice.selectOption("");
    await eventually(async () => assert.ok((await kinds()).includes("account changed")));
    assert.deepEqual(complaints, []);
  });
});
