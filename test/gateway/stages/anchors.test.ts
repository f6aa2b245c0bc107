import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "vitest";
import { runVerb } from "../../cli/kit.ts";
import { startTestGateway, type TestGateway } from "../../support/gateway/house.ts";
import { eventually } from "../../support/poll.ts";
import { sendRequest } from "../../support/wire/client.ts";
import { onlyValue } from "../../support/wire/response.ts";

const at = (text: string) => Date.parse(text);
const seconds = (text: string) => at(text) / 1_000;
const PLANS = {
  free: { month: 3, year: 999, included: { month: 2 } },
  pro: { month: 100, day: 100 },
};

type Clock = { nowMs: number };
async function open(clock: Clock, config: object = {}): Promise<TestGateway> {
  return startTestGateway({
    now: () => clock.nowMs,
    config: { plans: PLANS, history: "400d", rateLimitFields: "ietf", ...config },
    environment: { standing: "/v1/_limits" },
  });
}

async function setAnchor(house: TestGateway, id: string, anchor: unknown) {
  const body = JSON.stringify({ anchor });
  const answer = await house.admin(`/api/accounts/${id}`, { method: "PATCH", body });
  return { status: answer.status, told: (await answer.json()) as Record<string, unknown> };
}

async function statuses(house: TestGateway, key: string, count: number): Promise<number[]> {
  const told: number[] = [];
  for (let i = 0; i < count; i++) told.push((await sendRequest(house.port, { key })).status);
  return told;
}

/** The units and the overage of each account in a month, as the CSV has them. */
async function billOf(house: TestGateway, month: string, { nowMs }: Clock) {
  const args = ["usage", "--month", month, "--csv", "--admin", house.adminUrl];
  const said = await runVerb([...args, "--config", house.file], { nowMs });
  const rows = said.out.trim().split("\r\n").slice(1);
  return (account: string) => {
    const own = rows.filter((row) => row.startsWith(`${account},`)).map((row) => row.split(","));
    const sum = (column: number) => own.reduce((all, row) => all + Number(row[column]), 0);
    return { units: sum(5), overage: sum(7) };
  };
}

type Usage = { readonly windows: readonly Record<string, unknown>[] };

describe("an account whose months begin on a day of its own", () => {
  it("keeps the running month, has a short one with the whole limit, and says so everywhere", async () => {
    const clock = { nowMs: at("2026-11-22T12:00:00Z") };
    await using house = await open(clock);
    const { key, account } = await house.issue();
    assert.deepEqual(await statuses(house, key, 2), [200, 200]);
    const set = await setAnchor(house, account, 15);
    assert.deepEqual(
      [set.status, set.told.anchor, set.told.anchorFrom],
      [200, 15, seconds("2026-12-01")],
    );
    const last = await sendRequest(house.port, { key });
    assert.equal(last.status, 200, "what was counted stays, and so does the limit");
    assert.equal(onlyValue(last, "X-RateLimit-Reset"), String(seconds("2026-12-01")));
    assert.deepEqual(await statuses(house, key, 1), [429]);
    for (const [start, end] of [
      ["2026-12-01", "2026-12-15"],
      ["2026-12-15", "2027-01-15"],
    ] as const) {
      clock.nowMs = at(start) - 1;
      assert.deepEqual(await statuses(house, key, 1), [429]);
      clock.nowMs = at(start);
      assert.deepEqual(await statuses(house, key, 3), [200, 200, 200], "the whole limit");
      const refused = await sendRequest(house.port, { key });
      assert.equal(refused.status, 429);
      assert.equal(onlyValue(refused, "X-RateLimit-Reset"), String(seconds(end)));
      assert.equal(onlyValue(refused, "Retry-After"), String(seconds(end) - seconds(start)));
      const days = (at(end) - at(start)) / 1_000;
      const policy = `"month";q=3;w=${days}, "year";q=999;w=${365 * 86_400}`;
      assert.equal(onlyValue(refused, "RateLimit-Policy"), policy);
      const id = onlyValue(refused, "X-Request-Id");
      const why = (await (await house.admin(`/api/explain/${id}`)).json()) as Usage;
      const [told] = why.windows;
      assert.deepEqual([told?.from, told?.reset], [seconds(start), seconds(end)]);
      const entry = await eventually(() => {
        const found = house.lines.find((one) => one.id === id);
        assert.ok(found !== undefined);
        return found;
      });
      assert.equal(entry.monthFrom, seconds(start));
      const standing = await sendRequest(house.port, { key, path: "/v1/_limits" });
      const [month] = (JSON.parse(standing.body.toString()) as Usage).windows;
      assert.deepEqual([month?.used, month?.overage, month?.reset], [3, 1, seconds(end)]);
      const usage = (await (await house.admin(`/api/usage/${account}`)).json()) as Usage;
      assert.deepEqual(usage.windows[0], month);
    }
    await house.law();
  });

  it("has one change in a month: a second is refused and told until when, the same again is none", async () => {
    const clock = { nowMs: at("2026-11-22T12:00:00Z") };
    await using house = await open(clock);
    const { account } = await house.issue();
    for (const wrong of [0, 32, 1.5, -1]) {
      const { status, told } = await setAnchor(house, account, wrong);
      assert.equal(status, 400);
      assert.match(String(told.message), /anchor .*: it must be a day of the month from 1 to 31/);
    }
    assert.equal((await setAnchor(house, account, "15")).status, 400);
    assert.equal((await setAnchor(house, account, 15)).status, 200);
    for (const other of [20, 1]) {
      const { status, told } = await setAnchor(house, account, other);
      assert.equal(status, 409);
      assert.match(String(told.message), /again in this month: .* on day 15 from 2026-12-01 on/);
    }
    assert.equal((await setAnchor(house, account, 15)).status, 200);
    clock.nowMs = at("2026-12-01");
    const next = await setAnchor(house, account, 20);
    assert.deepEqual([next.told.anchor, next.told.anchorFrom], [20, seconds("2026-12-15")]);
    clock.nowMs = at("2026-12-15");
    const shown = await house.admin(`/api/accounts/${account}`);
    const { anchor, anchorFrom } = (await shown.json()) as Record<string, unknown>;
    assert.deepEqual([anchor, anchorFrom], [20, null]);
  });

  it("is made with an anchor from its first month on, by the API and by a command", async () => {
    const clock = { nowMs: at("2026-11-22T12:00:00Z") };
    await using house = await open(clock);
    const { key, account } = await house.issue({ anchor: 20 });
    const answer = await sendRequest(house.port, { key });
    assert.equal(onlyValue(answer, "X-RateLimit-Reset"), String(seconds("2026-12-20")));
    const verb = (...args: string[]) => {
      return runVerb([...args, "--config", house.file], { now: () => clock.nowMs });
    };
    const create = ["keys", "create", "--env", "production", "--plan", "free"];
    const wrong = await verb(...create, "--anchor", "32");
    assert.deepEqual([wrong.status, wrong.out], [64, ""]);
    assert.equal((await verb(...create, "--anchor", "soon")).status, 64);
    assert.equal((await verb(...create, "--account", "acme", "--anchor", "31")).status, 0);
    const shown = await verb("accounts", "show", "acme");
    assert.match(shown.out, /months +begin on day 31\n/);
    const clash = await verb(...create, "--account", "acme", "--anchor", "30");
    assert.equal(clash.status, 1);
    assert.match(clash.err, /anchor 30 to account acme, whose anchor is 31: .*--anchor 30/);
    assert.equal((await verb(...create, "--account", "acme", "--anchor", "31")).status, 0);
    const set = await verb("accounts", "set", "acme", account, "--anchor", "5");
    assert.equal(
      set.out,
      `Account acme is on plan free; its months begin on day 5 from 2026-11-30 on
Account ${account} is on plan free; its months begin on day 5 from 2026-12-20 on\n`,
    );
    const again = await verb("accounts", "set", "acme", "--anchor", "6");
    assert.equal(again.status, 1);
    assert.match(again.err, /Cannot change the anchor of account acme again in this month/);
  });

  it("keeps it through a rotation, an export and import, and a file that was changed by hand", async () => {
    const clock = { nowMs: at("2026-11-22T12:00:00Z") };
    await using house = await open(clock);
    await using other = await open(clock);
    const { id, key, account } = await house.issue({ anchor: 20 });
    await setAnchor(house, account, 5);
    await sendRequest(house.port, { key });
    const verb = (from: TestGateway, stdin: string, ...args: string[]) => {
      return runVerb([...args, "--config", from.file], { now: () => clock.nowMs, stdin });
    };
    const rotated = await verb(house, "", "keys", "rotate", id, "--json");
    const successor = (JSON.parse(rotated.out) as { key: string }).key;
    const exported = (await verb(house, "", "keys", "export")).out;
    assert.match(
      exported,
      /"anchors":\[\{"day":20,"from":"1970-01-01T[^"]*"\},\{"day":5,"from":"2026-12-20T[^"]*"\}\]/,
    );
    const imported = await verb(other, exported, "keys", "import", "-");
    assert.equal(imported.status, 0, imported.err);
    for (const [where, used] of [
      [house, 2],
      [other, 1],
    ] as const) {
      await eventually(async () => {
        assert.equal((await sendRequest(where.port, { key: successor })).status, 200);
      });
      const usage = (await (await where.admin(`/api/usage/${account}`)).json()) as Usage;
      const [month] = usage.windows;
      assert.deepEqual([month?.used, month?.reset], [used, seconds("2026-12-20")]);
      assert.equal((await setAnchor(where, account, 6)).status, 409);
    }
    const file = join(house.directory, "keys.json");
    const text = await readFile(file, "utf8");
    await writeFile(file, text.replace('"day":20', '"day":25'));
    await eventually(async () => {
      const answer = await sendRequest(house.port, { key: successor });
      assert.equal(onlyValue(answer, "X-RateLimit-Reset"), String(seconds("2026-11-25")));
    });
    await writeFile(file, text.replace('"day":20', '"day":0'));
    await eventually(() => {
      assert.match(JSON.stringify(house.said), /anchors.*from 1 to 31/);
    });
  });

  it("is billed by its own months, with the overage of each, as the backend counted", async () => {
    const clock = { nowMs: at("2026-11-02T12:00:00Z") };
    await using house = await open(clock);
    const first = await house.issue();
    const fifteenth = await house.issue({ anchor: 15 });
    const moved = await house.issue();
    let seen = 0;
    const bill = new Map<string, number[]>();
    const counted = (key: string, month: number) => {
      const units = house.backend.seen.length - seen;
      seen = house.backend.seen.length;
      const months = bill.get(key) ?? [0, 0, 0];
      months[month] = (months[month] ?? 0) + units;
      bill.set(key, months);
    };
    // The month that a day belongs to, by its begin: October, November or December.
    const days: readonly (readonly [string, fifteenth: number, moved: number])[] = [
      ["2026-11-02", 0, 1],
      ["2026-11-14", 0, 1],
      ["2026-11-15", 1, 1],
      ["2026-11-30", 1, 1],
      ["2026-12-01", 1, 2],
      ["2026-12-14", 1, 2],
      ["2026-12-15", 2, 2],
      ["2026-12-31", 2, 2],
    ];
    for (const [day, ofFifteenth, ofMoved] of days) {
      clock.nowMs = at(`${day}T00:00:00Z`);
      if (day === "2026-11-15") await setAnchor(house, moved.account, 15);
      for (const [{ key, account }, month] of [
        [first, day < "2026-12" ? 1 : 2],
        [fifteenth, ofFifteenth],
        [moved, ofMoved],
      ] as const) {
        await statuses(house, key, 2);
        counted(account, month);
      }
    }
    // The store drops the year when it is over.
    await house.law();
    clock.nowMs = at("2027-02-01");
    for (const [i, month] of ["2026-10", "2026-11", "2026-12"].entries()) {
      const billed = await billOf(house, month, clock);
      for (const { account } of [first, fifteenth, moved]) {
        const units = bill.get(account)?.[i] ?? 0;
        // The account that moved has two months that begin in December, each with what is included.
        const included = account === moved.account && month === "2026-12" ? 4 : 2;
        const overage = Math.max(0, units - included);
        assert.deepEqual(billed(account), { units, overage }, `${month} of ${account}`);
      }
    }
    const all = [...bill.values()].flat().reduce((sum, units) => sum + units, 0);
    assert.equal(all, house.backend.seen.length);
    assert.deepEqual(bill.get(moved.account), [0, 3, 6]);
    assert.deepEqual(bill.get(fifteenth.account), [3, 3, 3]);
  });
});
