import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { runVerb } from "../../cli/kit.ts";
import { startTestGateway, type TestGateway } from "../../support/gateway/house.ts";
import { eventually } from "../../support/poll.ts";
import { useRedis } from "../../support/redis/redis-of-file.ts";
import { sendRequest } from "../../support/wire/client.ts";

const { server } = await useRedis();
const JULY = Date.UTC(2026, 6, 14, 12);
const DAY = 86_400_000;
const PLANS = {
  free: { month: 10, included: { month: 4 } },
  pro: { month: 10, day: 10, included: { month: 6 } },
  flat: { month: 10 },
};

const eventsOf = (houses: readonly TestGateway[], kind: string) => {
  return houses.flatMap(({ said }) => said.filter((line) => line.kind === kind));
};

describe("units that are in the price of a plan", () => {
  it("are told in usage and at standing, and the overage above them, up to the limit", async () => {
    await using house = await startTestGateway({
      now: () => JULY,
      config: { plans: PLANS },
      environment: { standing: "/v1/_limits" },
    });
    const { key, id } = await house.issue();
    type Told = { readonly windows: Record<string, unknown>[] };
    const told = ({ windows }: Told) => {
      return windows.map(({ window, used, included, overage }) => [
        window,
        used,
        included,
        overage,
      ]);
    };
    const usage = async () => {
      return told((await (await house.admin(`/api/usage/${id}`)).json()) as Told);
    };
    assert.deepEqual(await usage(), [["month", 0, 4, 0]]);
    for (const used of [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]) {
      assert.equal((await sendRequest(house.port, { key })).status, 200);
      assert.deepEqual(await usage(), [["month", used, 4, Math.max(0, used - 4)]]);
    }
    assert.equal((await sendRequest(house.port, { key })).status, 429);
    assert.deepEqual(await usage(), [["month", 10, 4, 6]]);
    const standing = await sendRequest(house.port, { key, path: "/v1/_limits" });
    assert.deepEqual(told(JSON.parse(standing.body.toString())), [["month", 10, 4, 6]]);
    const text = await runVerb(["usage", id, "--admin", house.adminUrl, "--config", house.file]);
    assert.match(text.out, /included: 4, overage: 6/);
    const flat = await house.issue({ plan: "flat" });
    const admin = ["--admin", house.adminUrl, "--config", house.file];
    const rows = async (...args: string[]) => {
      const { out } = await runVerb(["usage", "--csv", ...args, ...admin]);
      return out
        .trim()
        .split("\r\n")
        .map((row) => row.split(",").slice(3));
    };
    const names = ["window", "used", "limit", "remaining", "reset"];
    const reset = String(Date.UTC(2026, 7, 1) / 1_000);
    assert.deepEqual((await rows()).toSorted(), [
      ["month", "0", "10", "10", reset, "", ""],
      ["month", "10", "10", "0", reset, "4", "6"],
      [...names, "included", "overage"],
    ]);
    assert.deepEqual(await rows(flat.id), [names, ["month", "0", "10", "10", reset]]);
    const shown = (await (await house.admin(`/api/usage/${flat.id}`)).json()) as {
      windows: object[];
    };
    assert.equal("included" in (shown.windows[0] ?? {}), false);
    await house.law();
  });

  it("are told as an event when overage begins, once over two gateways", async () => {
    const config = { store: server.url, keys: "redis", storePrefix: "included", plans: PLANS };
    await using one = await startTestGateway({ config });
    await using other = await startTestGateway({ config });
    const { key, id, account } = await one.issue();
    await eventually(async () => {
      assert.equal((await other.admin(`/api/usage/${id}`)).status, 200);
    });
    for (let i = 0; i < 4; i++) await sendRequest([one, other][i % 2]?.port ?? 0, { key });
    assert.deepEqual(eventsOf([one, other], "overage"), []);
    for (let i = 0; i < 6; i++) await sendRequest([one, other][i % 2]?.port ?? 0, { key });
    await eventually(() => assert.equal(eventsOf([one, other], "overage").length, 1));
    const [told] = eventsOf([one, other], "overage");
    assert.deepEqual(
      [told?.account, told?.plan, told?.window, told?.included, told?.used, told?.limit],
      [account, "free", "month", 4, 5, 10],
    );
  });

  it("are told as an event, with the first request after a change of the plan, and not again if they were told", async () => {
    const config = { store: server.url, keys: "redis", storePrefix: "moved", plans: PLANS };
    await using one = await startTestGateway({ config });
    await using other = await startTestGateway({ config });
    const houses = [one, other];
    const admitted = async (port: number, key: string) => {
      assert.equal((await sendRequest(port, { key })).status, 200);
    };
    const moved = await one.issue({ plan: "flat" });
    const raised = await one.issue({ plan: "free" });
    await eventually(async () => {
      assert.equal((await other.admin(`/api/usage/${raised.id}`)).status, 200);
    });
    for (const { key } of [moved, raised]) {
      for (let i = 0; i < 5; i++) await admitted(houses[i % 2]?.port ?? 0, key);
    }
    const toldOf = ({ account }: { readonly account: string }) => {
      const all = eventsOf(houses, "overage").filter((line) => line.account === account);
      return all.map(({ plan, included, used, limit }) => [plan, included, used, limit]);
    };
    await eventually(() => assert.deepEqual(toldOf(raised), [["free", 4, 5, 10]]));
    assert.deepEqual(toldOf(moved), []);
    const move = async ({ account }: { readonly account: string }, plan: string) => {
      const change = { method: "PATCH", body: JSON.stringify({ plan }) };
      assert.equal((await one.admin(`/api/accounts/${account}`, change)).status, 200);
      await eventually(async () => {
        for (const house of houses) {
          const shown = (await (await house.admin(`/api/usage/${account}`)).json()) as object;
          assert.equal("plan" in shown && shown.plan, plan);
        }
      });
    };
    await move(moved, "free");
    await move(raised, "pro");
    await admitted(one.port, raised.key);
    await move(raised, "free");
    for (const { port } of houses) {
      await admitted(port, moved.key);
      await admitted(port, raised.key);
    }
    await eventually(() => assert.equal(toldOf(moved).length, 1));
    const [[plan, included, used] = []] = toldOf(moved);
    assert.deepEqual([plan, included, used === 6 || used === 7], ["free", 4, true]);
    assert.deepEqual(toldOf(raised), [["free", 4, 5, 10]]);
  });

  it("make the bill of a month that is over, by the plan of its last day, equal to what the backend saw", async () => {
    let nowMs = JULY;
    await using house = await startTestGateway({
      now: () => nowMs,
      config: { plans: PLANS, history: "400d" },
    });
    const { key, account } = await house.issue();
    const flat = await house.issue({ plan: "flat" });
    const spend = async (count: number, by = key) => {
      for (let i = 0; i < count; i++) await sendRequest(house.port, { key: by });
    };
    await spend(3);
    await spend(5, flat.key);
    nowMs += DAY;
    await spend(2);
    const change = { method: "PATCH", body: JSON.stringify({ plan: "pro" }) };
    assert.equal((await house.admin(`/api/accounts/${account}`, change)).status, 200);
    nowMs += DAY;
    await spend(4);
    nowMs = Date.UTC(2026, 7, 3, 12);
    await spend(1);
    const said = await runVerb(
      ["usage", "--month", "2026-07", "--csv", "--admin", house.adminUrl, "--config", house.file],
      {
        now: () => nowMs,
      },
    );
    const [head, ...rows] = said.out.trim().split("\r\n").join("\n").split("\n");
    assert.equal(head, "account,environment,plan,day,admitted,units,refused,overage");
    const of = (name: string) =>
      rows.filter((row) => row.startsWith(`${name},`)).map((row) => row.split(",").slice(2));
    assert.deepEqual(of(account), [
      ["free", "2026-07-14", "3", "3", "0", "0"],
      ["free", "2026-07-15", "2", "2", "0", "0"],
      ["pro", "2026-07-16", "4", "4", "0", "3"],
    ]);
    assert.deepEqual(of(flat.account), [["flat", "2026-07-14", "5", "5", "0", "0"]]);
    const billed = rows.reduce((sum, row) => sum + Number(row.split(",")[5]), 0);
    assert.equal(billed + 1, house.backend.seen.length);
    const days = await runVerb(
      ["usage", "--days", "40", "--csv", "--admin", house.adminUrl, "--config", house.file],
      {
        now: () => nowMs,
      },
    );
    assert.equal(days.out.includes("overage"), false);
  });
});
