import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { DEPRECATED_API as API } from "../../support/gateway/deprecated-api.ts";
import { startTestGateway } from "../../support/gateway/house.ts";
import { eventually } from "../../support/poll.ts";
import { cells, openTab, textOf } from "./browser.ts";

const NOON = Date.UTC(2026, 6, 15, 12);
const HOUR_MS = 3_600_000;

describe("a deprecated operation", () => {
  it("is marked as gone from its sunset on, and not before", async () => {
    await using house = await startTestGateway({
      environment: { api: "./api.yaml" },
      files: { "api.yaml": API },
    });
    const { page } = await openTab(`${house.adminUrl}/#/deprecations`);
    await page.getByText("GET /v1/older").waitFor();
    const rows = await cells(page, "Deprecated operations");
    const sunsets = Object.fromEntries(rows.map(([operation, , sunset]) => [operation, sunset]));
    assert.match(sunsets["GET /v1/old"] ?? "", /^[\d,]+ days left, 2126-01-01 00:00:00 UTC$/);
    assert.deepEqual(await page.locator("td .badge").allTextContents(), ["gone"]);
    assert.match(sunsets["GET /v1/older"] ?? "", /^gone\s+[\d,]+ d ago, 2020-01-02 00:00:00 UTC$/);
  });

  it("has its own requests, HEAD with GET, beside another one of the same path", async () => {
    const operation = (id: string) => `{ operationId: ${id}, deprecated: true, responses: {} }`;
    const paths = `paths: { /both: { get: ${operation("read")}, delete: ${operation("drop")} } }`;
    await using house = await startTestGateway({
      environment: { api: "./api.yaml" },
      files: { "api.yaml": `openapi: 3.1.0\ninfo: { title: t, version: "1" }\n${paths}\n` },
    });
    const { key } = await house.issue();
    for (const method of ["GET", "HEAD", "DELETE"]) await house.ask(key, "/v1/both", { method });
    const { page } = await openTab(`${house.adminUrl}/#/deprecations`);
    await eventually(async () => {
      const rows = await cells(page, "Deprecated operations");
      const requests = rows.map(([name, , , count]) => [name, count]);
      assert.deepEqual(Object.fromEntries(requests), {
        "GET /v1/both": "2",
        "DELETE /v1/both": "1",
      });
    });
  });
});

describe("deprecated operations", () => {
  it("stand in the order of their sunsets, the first at the top, those without a date last", async () => {
    const operation = (name: string, more = "") =>
      `  /${name}: { get: { operationId: ${name}, deprecated: true, ${more}responses: {} } }`;
    const sunset = (day: string) => `x-sunset: "${day}", `;
    const paths = [
      operation("never"),
      operation("late", sunset("2126-01-01")),
      operation("gone", sunset("2020-01-02")),
      operation("soon", sunset("2125-01-01")),
    ];
    const api = `openapi: 3.1.0\ninfo: { title: t, version: "1" }\npaths:\n${paths.join("\n")}\n`;
    await using house = await startTestGateway({
      environment: { api: "./api.yaml" },
      files: { "api.yaml": api },
    });
    const { page } = await openTab(`${house.adminUrl}/#/deprecations`);
    await page.getByText("GET /v1/never").waitFor();
    const names = (await cells(page, "Deprecated operations")).map(([name]) => name);
    assert.deepEqual(names, ["GET /v1/gone", "GET /v1/soon", "GET /v1/late", "GET /v1/never"]);
  });

  it("show an account that began to call them since the view was opened", async () => {
    await using house = await startTestGateway({
      environment: { api: "./api.yaml" },
      files: { "api.yaml": API },
    });
    const { key, account } = await house.issue();
    const { page, complaints } = await openTab(`${house.adminUrl}/`);
    await page.clock.install();
    await page.getByRole("link", { name: "Deprecations" }).click();
    await page.getByText("No account is known to call them.").waitFor();
    await (await house.ask(key, "/v1/old")).text();
    await page.clock.fastForward(60_000);
    await page.getByRole("link", { name: account, exact: true }).waitFor();
    assert.deepEqual(
      (await cells(page, "Callers")).map(([name, called]) => [name, called]),
      [[account, "GET /v1/old"]],
    );
    assert.deepEqual(complaints, []);
  });

  it("stay with the time of their reading while they cannot be read again", async () => {
    await using house = await startTestGateway({
      environment: { api: "./api.yaml" },
      files: { "api.yaml": API },
    });
    const { page } = await openTab(`${house.adminUrl}/`);
    await page.clock.install();
    await page.getByRole("link", { name: "Deprecations" }).click();
    await page.getByText("No account is known to call them.").waitFor();
    const paths = "**/api/deprecations*";
    await page.route(paths, (route) => route.abort());
    await page.clock.fastForward(60_000);
    const alert = page.locator(".failure");
    await alert.waitFor();
    await page.getByText(/^What is below was read .* ago/).waitFor();
    assert.ok(await page.getByText("GET /v1/older").isVisible());
    assert.ok(await page.getByText("No account is known to call them.").isVisible());
    await page.unroute(paths);
    await page.getByRole("button", { name: "Try again" }).click();
    await alert.waitFor({ state: "detached" });
    assert.equal(await page.getByText(/^What is below was read/).count(), 0);
  });
});

describe("the days to a sunset", () => {
  it("are on the page what the API says, in the list and in events, with the date, and pass with the clock", async () => {
    const sunset = new Date(NOON + 36 * HOUR_MS).toISOString();
    const clock = { nowMs: NOON };
    await using house = await startTestGateway({
      environment: { api: "./api.yaml" },
      files: { "api.yaml": API.replace("2126-01-01", sunset) },
      now: () => clock.nowMs,
    });
    const daysLeft = async () => {
      const [, soon] = (await (await house.admin("/api/deprecations")).json()) as {
        readonly daysLeft: number;
      }[];
      return soon?.daysLeft;
    };
    assert.equal(await daysLeft(), 2);
    const { page } = await openTab(`${house.adminUrl}/#/deprecations`);
    const time = page.getByRole("row", { name: "GET /v1/old " }).locator("td:nth-child(3)");
    const at = "2026-07-17 00:00:00 UTC";
    await time.getByText(`2 days left, ${at}`, { exact: true }).waitFor();
    await page.getByRole("link", { name: "Events" }).click();
    const event = page
      .getByRole("region", { name: "Events" })
      .locator("tr:has-text('sunset') .names");
    const line = "GET /v1/old · within 7 days · production";
    await eventually(async () => {
      assert.equal(await textOf(event), `${line} · 2 days left, ${at}`);
    });
    clock.nowMs += 12 * HOUR_MS + 1;
    assert.equal(await daysLeft(), 1);
    await page.getByText(`${line} · 1 day left, ${at}`, { exact: true }).waitFor();
    clock.nowMs += 26 * HOUR_MS;
    assert.equal(await daysLeft(), 0);
    await page.getByText(`${line} · gone 2 h ago, ${at}`, { exact: true }).waitFor();
    await page.getByRole("link", { name: "Deprecations" }).click();
    await time.getByText(`gone 2 h ago, ${at}`, { exact: true }).waitFor();
  });
});
