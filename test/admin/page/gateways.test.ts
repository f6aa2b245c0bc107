import assert from "node:assert/strict";
import { setTimeout as pause } from "node:timers/promises";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, it } from "vitest";
import type { GatewayReport } from "../../../src/telemetry/gateway-status.ts";
import { openCrew } from "../../server/workers/kit.ts";
import { startTestUpstream } from "../../support/gateway/backend.ts";
import { startTestGateway, type TestGateway } from "../../support/gateway/house.ts";
import { eventually } from "../../support/poll.ts";
import { startRedis, type TestRedis } from "../../support/redis/redis.ts";
import { checkLook, LOOKS, lookAt, openTab, textOf } from "./browser.ts";

/** The pause after one request of each gateway. */
const PACE_MS = 250;

let redis: TestRedis;
beforeAll(async () => {
  redis = await startRedis();
});
afterAll(async () => {
  await redis.close();
});

/** Asks each gateway in turn until it is ended. */
function askOn(gateways: readonly TestGateway[], key: string): { end(): Promise<void> } {
  let ended = false;
  const asking = (async () => {
    while (!ended) {
      for (const one of gateways) await (await one.ask(key)).text();
      await pause(PACE_MS);
    }
  })();
  return {
    end: () => {
      ended = true;
      return asking;
    },
  };
}

async function rows(page: Page, label: string): Promise<string[][]> {
  const all = await page.getByRole("region", { name: label, exact: true }).locator("tr").all();
  return Promise.all(all.slice(1).map((row) => row.locator("td").allInnerTexts()));
}

describe("the gateways on one store", () => {
  it("are listed, the odd one and the dead one marked, and summed on the overview", async () => {
    const config = { store: redis.url, storePrefix: "list" };
    const client = await redis.client();
    await client.del("list:{0}:status"); // An earlier try left its gateways there.
    await using house = await startTestGateway({ config });
    await using other = await startTestGateway({ config, backend: house.backend });
    await using odd = await startTestGateway({
      config: { ...config, plans: { free: { minute: 5 } } },
      backend: house.backend,
    });
    const told = await eventually(async () => {
      const all = (await (await house.admin("/api/gateways")).json()) as GatewayReport[];
      assert.equal(all.length, 3);
      return all.find(({ self }) => self) as GatewayReport;
    });
    const [seconds] = await client.time();
    const dead = { ...told, name: "zz-dead", version: "0.0.9" };
    const message = `${(Number(seconds) - 60) * 1_000} ${JSON.stringify(dead)}`;
    await client.hset("list:{0}:status", "zz-dead", message);

    const { page, complaints } = await openTab(`${house.adminUrl}/#/gateways`);
    await eventually(async () => {
      const found = await rows(page, "Gateways");
      assert.equal(found.length, 4);
      const states = found.map(([name = "", state = ""]) => {
        const marks = ["this one", "other configuration", "other version"];
        return [marks.filter((mark) => name.includes(mark)).join(), state];
      });
      assert.deepEqual(states.slice(0, 3).sort(), [
        ["", "ready"],
        ["other configuration", "ready"],
        ["this one", "ready"],
      ]);
      assert.deepEqual(states[3]?.[0], "other version");
      assert.match(states[3]?.[1] ?? "", /^silent\s+no news for 6\d s$/);
    });
    const { key } = await house.issue();
    const traffic = askOn([house, other, odd], key);
    await page.getByRole("link", { name: "Overview" }).click();
    // At most 12 a second of three gateways; one of them alone has at most 4.
    await eventually(async () => {
      const sum = await textOf(page.locator('[data-tile="all-requests"]'));
      assert.match(sum, /Requests a second, all 4 gateways/);
      assert.match(sum, /1 without news/);
      const [rate = 0] = (/[\d.]+(?=\/s)/.exec(sum) ?? []).map(Number);
      assert.ok(rate > 4 && rate <= 30, sum);
    }).finally(traffic.end);
    assert.deepEqual(complaints, []);
    for (const look of LOOKS) {
      await page.goto(`${house.adminUrl}/#/gateways`);
      await lookAt(page, look);
      await page.getByText("this one", { exact: true }).waitFor();
      await checkLook(page, look.name, "gateways-four");
      await page.goto(`${house.adminUrl}/#/`);
      await page.locator('[data-tile="all-requests"]').waitFor();
      await checkLook(page, look.name, "overview-four");
    }
  });

  it("are not known while the store is away", async () => {
    const own = await startRedis();
    try {
      await using house = await startTestGateway({ config: { store: own.url } });
      const { page } = await openTab(`${house.adminUrl}/#/gateways`);
      await page.getByText("this one", { exact: true }).waitFor();
      await own.kill();
      await page.getByText("The store does not tell which gateways there are.").waitFor();
      await page.getByText("Not ready").waitFor();
      await checkLook(page, "1280-light", "gateways-store-away");
      await own.restart();
      await page.getByText("this one", { exact: true }).waitFor();
    } finally {
      await own.close();
    }
  });
});

describe("a gateway that stands still", () => {
  it("is said to be without news after 3 s, and its backends are not known, until it goes on", async () => {
    await using crew = await openCrew(redis, { workers: 1 });
    const { page, complaints } = await openTab(`${crew.adminUrl}/#/backends`);
    await page.getByText("Ready").waitFor();
    await page.getByText("up", { exact: true }).waitFor();
    crew.gateway.child.kill("SIGSTOP");
    try {
      const stoppedMs = performance.now();
      await page.getByText(/^No news for \d+ s$/).waitFor();
      assert.ok(performance.now() - stoppedMs > 1_500, "a figure that is late is no silence");
      await page.getByText(/^What is shown is as of \d\d:\d\d:\d\d UTC$/).waitFor();
      await page.getByText("not known, was up").waitFor();
      await page.locator("body.stale").waitFor();
      await checkLook(page, "1280-light", "backends-no-news");
      await page.getByRole("link", { name: "Gateways" }).click();
      await page.getByText("not known", { exact: true }).first().waitFor();
      await page.getByRole("link", { name: "Overview" }).click();
      await checkLook(page, "1280-light", "overview-no-news");
    } finally {
      crew.gateway.child.kill("SIGCONT");
    }
    await page.getByText("Ready", { exact: true }).waitFor();
    await page.getByRole("link", { name: "Backends" }).click();
    await page.getByText("up", { exact: true }).waitFor();
    assert.deepEqual(complaints, []);
  });
});

describe("an environment without a backend that is up", () => {
  it("is told in the head and among the checks, though the other one is ready", async () => {
    const backend = await startTestUpstream();
    const staging = {
      ...{ listen: "127.0.0.1:0", keyTag: "test", upstreams: ["http://127.0.0.1:9"] },
      healthCheck: { path: "/up", every: "100ms" },
    };
    const production = { listen: "127.0.0.1:0", keyTag: "live", upstreams: [backend.origin] };
    const config = { environments: { production, staging } };
    await using house = await startTestGateway({ config, backend });
    const { page } = await openTab(`${house.adminUrl}/`);
    await page.getByText("Down: staging", { exact: true }).waitFor();
    await page.getByText("all of its backends are down").waitFor();
    assert.equal(await page.getByText("Ready", { exact: true }).count(), 0);
    await checkLook(page, "1280-light", "overview-environment-down");
    assert.equal((await house.admin("/readyz")).status, 200, "production takes requests");
  });
});
