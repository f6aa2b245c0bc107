import assert from "node:assert/strict";
import type { Page } from "playwright-core";
import { describe, it } from "vitest";
import { get, issueKeys, openCrew } from "../../server/workers/kit.ts";
import { startTestGateway, type TestGateway } from "../../support/gateway/house.ts";
import { eventually } from "../../support/poll.ts";
import { startRedis } from "../../support/redis/redis.ts";
import { samplesOf } from "../scrape.ts";
import { cells, fromNoon, openTab, textOf } from "./browser.ts";
import { firstMessages, holdStream } from "./live-stream.ts";

const BANS = { strikes: 1, within: "1m", grace: "0s", duration: "10m" };

/** A gateway that has admitted, refused and banned: 60 of an account's 62 requests, 3 strangers. */
async function openUsed(): Promise<TestGateway & { account: string }> {
  const house = await startTestGateway({ config: { bans: BANS }, now: fromNoon() });
  const { key, account } = await house.issue({ name: "the first" });
  for (let i = 0; i < 61; i++) await (await house.ask(key)).text();
  // A strike is later than the first refusal by a millisecond at least.
  const refusedMs = Date.now();
  await eventually(() => assert.ok(Date.now() > refusedMs + 1));
  await (await house.ask(key)).text();
  for (let i = 0; i < 3; i++) await (await fetch(`${house.url}/v1/pets`)).text();
  return Object.assign(house, { account });
}

/** Sums over all series of a metric whose labels fit. */
async function metrics(house: TestGateway): Promise<(name: string, labels?: RegExp) => number> {
  const samples = samplesOf(await (await house.admin("/metrics")).text());
  return (name, labels = /(?:)/) =>
    samples
      .filter(([id]) => (id === name || id.startsWith(`${name}{`)) && labels.test(id))
      .reduce((sum, [, value]) => sum + value, 0);
}

function tile(page: Page, name: string): Promise<string> {
  return textOf(page.locator(`[data-tile="${name}"] dd`));
}

/** The numbers in a text, in order: "1,204 since" is [1204]. */
function numbersIn(text: string): number[] {
  return (text.match(/\d[\d,.]*/g) ?? []).map((one) => Number(one.replaceAll(",", "")));
}

describe("the numbers of the page", () => {
  it("on the overview are those of /metrics, and follow them", async () => {
    await using house = await openUsed();
    const { page, complaints } = await openTab(`${house.adminUrl}/`);
    const sum = await metrics(house);
    await eventually(async () => {
      assert.equal(
        numbersIn(await tile(page, "requests")).at(-1),
        sum("tollgate_http_requests_total"),
      );
      const own = sum("tollgate_http_requests_total", /source="gateway"/);
      assert.equal(numbersIn(await tile(page, "refused")).at(-1), own);
      const limited = sum("tollgate_http_requests_total", /code="429",source="gateway"/);
      assert.equal(numbersIn(await tile(page, "limited")).at(-1), limited);
      const charged = sum("tollgate_charged_total");
      assert.deepEqual(numbersIn(await tile(page, "charged")), [
        charged,
        sum("tollgate_forwards_total"),
      ]);
      assert.deepEqual(numbersIn(await tile(page, "bans")), [1, sum("tollgate_bans_total")]);
    });
    assert.deepEqual(
      [
        sum("tollgate_http_requests_total"),
        sum("tollgate_charged_total"),
        sum("tollgate_bans_total"),
      ],
      [65, 60, 1],
    );
    await (await fetch(`${house.url}/v1/pets`)).text();
    await eventually(async () => {
      assert.equal(numbersIn(await tile(page, "requests")).at(-1), 66);
    });
    assert.equal(await page.locator(".u-wrap canvas").count(), 4, "four plots are drawn");
    assert.deepEqual(complaints, []);
  });

  it("are rates of what happened in each second, in the plots too", async () => {
    await using house = await startTestGateway();
    const { key } = await house.issue({ plan: "business" });
    const { page } = await openTab(`${house.adminUrl}/`);
    await eventually(async () => assert.equal(numbersIn(await tile(page, "requests"))[0], 0));
    // A rate stands for a second, and a look of a busy machine comes too late for it.
    await page.evaluate(`{
      globalThis.rates = [];
      const look = () => rates.push(document.querySelector(".legend dd")?.textContent ?? "");
      const all = { childList: true, characterData: true, subtree: true };
      new MutationObserver(look).observe(document.body, all);
    }`);
    // All forty fall into one reading or two, or are asked again by a machine that is slower; the
    // page never shows more than there were.
    let [seen, asked] = [0, 0];
    await eventually(async () => {
      asked += 40;
      await Promise.all(Array.from({ length: 40 }, async () => (await house.ask(key)).text()));
      await eventually(async () => {
        const numbers = numbersIn(await tile(page, "requests"));
        assert.deepEqual([numbers[0], numbers.at(-1)], [0, asked]);
      });
      const told = await page.evaluate<string[]>("rates.splice(0)");
      seen = Math.max(seen, ...told.map((text) => numbersIn(text)[0] ?? 0));
      return seen >= 15;
    });
    assert.ok(seen <= 45, `${seen} a second`);
  });

  it("of an account, its bans, the plans and the backends are those of the API", async () => {
    await using house = await openUsed();
    const { page, complaints } = await openTab(`${house.adminUrl}/#/accounts/${house.account}`);
    const usage = (await (await house.admin(`/api/usage/${house.account}`)).json()) as {
      windows: { window: string; limit: number; used: number; remaining: number }[];
      ban: { until: number; offences: number };
    };
    for (const { window, limit, used, remaining } of usage.windows) {
      const meter = page.locator(`[data-window="${window}"]`);
      assert.deepEqual(numbersIn(await textOf(meter.locator(".meter-head"))), [used, limit]);
      assert.equal(numbersIn(await textOf(meter.locator(".hint")))[0], remaining);
      assert.equal(await meter.locator("meter").getAttribute("value"), String(used));
    }
    assert.equal(await unixOf(page, ".banned time"), usage.ban.until);
    assert.match(await textOf(page.locator(".banned")), /, offence 1 /);
    // By the clock of the gateway, which is not that of this machine here.
    await eventually(async () => {
      assert.match(await textOf(page.locator(".banned time")), /^in (?:9|10) min$/);
    });

    await page.getByRole("link", { name: "Bans" }).click();
    await eventually(async () => {
      const [row] = await cells(page, "Bans");
      assert.deepEqual([row?.[0], row?.[1], row?.[3]], [house.account, "production", "1"]);
    });
    await page.getByRole("link", { name: "Plans" }).click();
    await eventually(async () => {
      const free = (await cells(page, "Plans")).find(([plan]) => plan?.startsWith("free"));
      assert.deepEqual(free?.slice(-3), ["1", "60", "2"]);
      const [nearest] = await cells(page, "Nearest to a limit");
      assert.deepEqual(nearest, [house.account, "free", "60 of 60 a minute", "100 %"]);
    });
    await page.getByRole("link", { name: "Backends" }).click();
    await eventually(async () => {
      assert.deepEqual(await cells(page, "Backends"), [[house.backend.origin, "production", "up"]]);
    });
    await page.getByRole("link", { name: "Deprecations" }).click();
    await eventually(async () => {
      const [row] = await cells(page, "Deprecated operations");
      assert.equal(row?.[0], "GET /v1/pets/{petId}");
    });
    await page.getByRole("link", { name: "Configuration" }).click();
    const { hash } = (await (await house.admin("/api/config")).json()) as { hash: string };
    await eventually(async () => assert.equal(await textOf(page.locator(".force code")), hash));
    assert.deepEqual(complaints, []);
  });

  it("explain a refusal by its id, and bans by their strikes or by the reason of one by hand", async () => {
    const config = { bans: { ...BANS, strikes: 2 } };
    await using house = await startTestGateway({ config, now: fromNoon() });
    const { key, account } = await house.issue();
    let id = "";
    for (let i = 0; i < 70; i++) {
      const answer = await house.ask(key);
      id = answer.headers.get("x-request-id") ?? "";
      await answer.text();
    }
    const body = JSON.stringify({ id: account, for: "1h", reason: "scrapes" });
    assert.equal((await house.admin("/api/bans", { method: "POST", body })).status, 201);
    const { page, complaints } = await openTab(`${house.adminUrl}/#/accounts/${account}`);
    await eventually(async () => {
      const [byHand, earned] = await cells(page, "Recent bans");
      assert.equal(byHand?.at(-1), "Banned by hand: scrapes");
      assert.equal(earned?.at(-1)?.split("\n").length, 2, "strikes");
    });
    await page.goto(`${house.adminUrl}/#/explain/${id}`);
    const told = (await (await house.admin(`/api/explain/${id}`)).json()) as {
      rule: string;
      windows: { window: string; used: number; limit: number; exhausted: boolean }[];
    };
    assert.equal(await textOf(page.locator(".rule")), `${told.rule}.`);
    const heard = page.locator("#main [role=status]");
    assert.equal(await textOf(heard), `${told.rule}.`, "a screen reader says the rule");
    assert.equal(await heard.locator("time").count(), 0, "and not each second how far an end is");
    const rows = await cells(page, "Windows");
    assert.deepEqual(
      rows.map(([window, used, limit, , , state]) => [window, used, limit, state]),
      told.windows.map(({ window, used, limit, exhausted }) => {
        const [shownUsed, shownLimit] = [used, limit].map((one) => one.toLocaleString("en"));
        return [window, shownUsed, shownLimit, exhausted ? "used up" : "open"];
      }),
    );
    const banned = page.locator("dt", { hasText: "ban until" }).locator("+ dd");
    assert.match(await textOf(banned), /^in (?:9|10) min, 2026-11-21 12:1\d:\d\d UTC$/);
    const usedUp = told.windows.filter(({ exhausted }) => exhausted).length;
    const bad = page.getByRole("region", { name: "Windows", exact: true }).locator(".badge.bad");
    assert.deepEqual([usedUp, await bad.count()], [1, 1]);
    await page.getByLabel("Request id").fill("nobody-sent-this");
    await page.getByRole("button", { name: "Explain" }).click();
    await page.getByText(/^No refusal with this request id/).waitFor();
    assert.deepEqual(complaints, []);
  });

  it("of events are those of the log, those before the page was opened and those after", async () => {
    await using house = await openUsed();
    const { page, complaints } = await openTab(`${house.adminUrl}/#/events`);
    const shown = async () =>
      (await cells(page, "Events")).map(([, event, account]) => [event?.split("\n")[0], account]);
    const logged = () =>
      house.said
        .filter(({ msg }) => msg === "event")
        .map(({ kind, account = "–" }) => [String(kind).replaceAll("_", " "), account]);
    // The ban is told a moment after the answer that it was earned by.
    await eventually(() => assert.ok(logged().some(([kind]) => kind === "ban")));
    await eventually(async () => assert.deepEqual(await shown(), logged().toReversed()));
    await house.issue();
    await eventually(async () => {
      assert.deepEqual(await shown(), logged().toReversed());
      assert.equal((await shown())[0]?.[0], "key issued");
    });
    assert.deepEqual(complaints, []);
  });

  it("are the sums over all workers, whose events are all there", async () => {
    const redis = await startRedis();
    try {
      const [key = "", ...others] = await issueKeys(redis, 6);
      await using crew = await openCrew(redis, { workers: 2, limit: 10 });
      const url = `${crew.url}/v1/animals`;
      await Promise.all(Array.from({ length: 50 }, () => get(url, key)));
      const { page } = await openTab(`${crew.adminUrl}/`);
      const charged = await crew.metric("tollgate_charged_total");
      await eventually(async () => {
        assert.equal(numbersIn(await tile(page, "requests")).at(-1), 50);
        assert.equal(numbersIn(await tile(page, "charged"))[0], charged);
      });
      assert.match(await textOf(page.getByText(/ restarts/)), /^version \S+ · 2 workers/);
      await eventually(async () => {
        const [most] = await cells(page, "Most refused accounts");
        assert.deepEqual(most?.slice(1), ["production", String(50 - charged)]);
      });

      const logged = () => crew.gateway.lines().filter(({ kind }) => kind === "quota").length;
      // Where Redis is late, a worker decides by itself, and tells no quota.
      for (const other of others) {
        for (let i = 0; i < 10 && logged() === 0; i++) await get(url, other);
      }
      await page.getByRole("link", { name: "Events" }).click();
      await eventually(async () => {
        const kinds = (await cells(page, "Events")).map(([, event]) => event?.split("\n")[0]);
        assert.equal(kinds.filter((kind) => kind === "quota").length, logged());
        assert.ok(logged() > 0);
      });
    } finally {
      await redis.close();
    }
  });
});

async function unixOf(page: Page, selector: string): Promise<number> {
  return Number(await page.locator(selector).first().getAttribute("data-unix"));
}

it("an address without a key is named among the most refused, and leads to no account", async () => {
  await using house = await startTestGateway();
  const { hello, figures } = await firstMessages(house);
  const { page } = await openTab("about:blank");
  const of = (account: string) => ({ account, environment: "production", requests: 7 });
  const refused = [of("addr:127.0.0.1"), of("acme")];
  await holdStream(page, [
    ["hello", hello],
    ["figures", { ...figures, refused }],
  ]);
  await page.goto(`${house.adminUrl}/`);
  const shown = page.getByRole("region", { name: "Most refused accounts" });
  await shown.getByText("addr:127.0.0.1", { exact: true }).waitFor();
  assert.deepEqual(await shown.getByRole("link").allInnerTexts(), ["acme"]);
});
