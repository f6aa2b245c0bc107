import assert from "node:assert/strict";
import { appendFile, readFile, writeFile } from "node:fs/promises";
import { describe, it } from "vitest";
import type { KeyReport } from "../../../src/core/keys/record-reports.ts";
import type { DayReport } from "../../../src/stores/queries/read-history.ts";
import { startTestUpstream } from "../../support/gateway/backend.ts";
import { startTestGateway } from "../../support/gateway/house.ts";
import { startTollgate } from "../../support/gateway/processes.ts";
import { eventually } from "../../support/poll.ts";
import { startRedis } from "../../support/redis/redis.ts";
import { openAdmin, send } from "../access/admin-server.ts";
import { freePorts, jsonOf, openFolder, runVerb, writeConfig } from "../kit.ts";

const ASKED = { often: 5, seldom: 2, never: 0 } as const;
const METERED = {
  free: { month: 60, included: { month: 9 }, meters: { tokens: { day: 9 } } },
};
const TODAY = () => new Date().toISOString().slice(0, 10);

/** Three accounts that have asked 5, 2 and 0 times, on the store. */
async function used(store: string): Promise<void> {
  await using place = await openPlace(store);
  const { named, admin } = place;
  const before = TODAY();
  await place.ask();
  await paged(`http://127.0.0.1:${admin}`);
  await eventually(() => tellsLastUse(named, before), { withinMs: 60_000 });
  // Asking the admin listener has made the gateway tell its store. A store that all share needs none.
  if (store !== "memory") await place.gateway.stop();
  // Over midnight there are two days, and nothing else to see here.
  if (before !== TODAY()) return;
  await tellsDays(named, before);
  if (store !== "memory") await tellsEarlierNames(place, before);
}

/** The file no longer has the plan and the environment of the rows. */
async function tellsEarlierNames({ file, named }: Place, day: string): Promise<void> {
  const text = await readFile(file, "utf8");
  const renamed = text.replace(/\bproduction:/, "renamed:").replace(/^ +free:.*\n/m, "");
  assert.doesNotMatch(renamed, /production:|free:/);
  await writeFile(file, renamed);
  const usage = (...args: string[]) => named("usage", "--month", day.slice(0, 7), ...args);
  for (const names of [
    ["--plan", "free"],
    ["--plan", "free", "--env", "production"],
    ["often", "--env", "production"],
  ]) {
    const said = await usage(...names, "--json");
    assert.equal(said.status, 0, said.err);
    const rows = jsonOf<DayReport[]>(said).map(({ account, plan }) => [account, plan]);
    assert.deepEqual(rows, [["often", "free"]], names.join(" "));
  }
  for (const names of [
    ["--plan", "nosuch"],
    ["--env", "nosuch"],
    ["often", "--env", "nosuch"],
  ]) {
    const said = await usage(...names, "--csv");
    assert.deepEqual([said.status, said.out], [64, ""], names.join(" "));
  }
  assert.match((await usage("--plan", "nosuch")).err, /^Unknown plan "nosuch": expected pro/);
  assert.equal((await named("usage", "--plan", "free")).status, 64, "of the counts that run");
}

type Place = Awaited<ReturnType<typeof openPlace>>;

type Named = (...args: string[]) => ReturnType<typeof runVerb>;

async function openPlace(store: string) {
  const things = new AsyncDisposableStack();
  const folder = things.use(await openFolder());
  const backend = things.use(await startTestUpstream());
  const [admin = 0] = await freePorts(1);
  const file = await writeConfig(folder, {
    ...{ admin, store, free: "{ day: 4 }", productionUpstream: backend.port },
    more: "bans: off\nhistory: 400d\n",
  });
  const named = (...args: string[]) => runVerb([...args, "--config", file]);
  const keys = new Map<string, string>();
  for (const account of Object.keys(ASKED)) {
    const plan = account === "often" ? "free" : "pro";
    const args = ["--env", "production", "--plan", plan, "--account", account, "--json"];
    keys.set(account, jsonOf<{ key: string }>(await named("keys", "create", ...args)).key);
  }
  const gateway = things.use(startTollgate(["start", "--config", file]));
  const { urls } = await gateway.line(({ msg }) => msg === "serving");
  const ask = async () => {
    for (const [account, times] of Object.entries(ASKED)) {
      for (let i = 0; i < times; i++) {
        const headers = { Authorization: `Bearer ${keys.get(account)}` };
        const { production } = urls as { production: string };
        await (await fetch(`${production}/v1/pets`, { headers })).text();
      }
    }
  };
  return { file, named, admin, gateway, ask, [Symbol.asyncDispose]: () => things.disposeAsync() };
}

async function tellsLastUse(named: Named, day: string): Promise<void> {
  const reports = jsonOf<KeyReport[]>(await named("keys", "list", "--json"));
  const days = reports.map(({ account, lastUsed }) => [account, lastUsed]);
  assert.deepEqual(days.sort(), [
    ["never", null],
    ["often", day],
    ["seldom", day],
  ]);
}

async function tellsDays(named: Named, day: string): Promise<void> {
  const rows = async (...args: string[]) => {
    const said = await named("usage", "--json", ...args);
    assert.equal(said.status, 0, said.err);
    return jsonOf<DayReport[]>(said);
  };
  const [often, seldom] = await rows("--days", "1");
  const row = { environment: "production", day };
  assert.deepEqual(often, {
    ...{ account: "often", ...row, plan: "free", admitted: 4, units: 4 },
    refused: 1,
  });
  assert.deepEqual(seldom, {
    ...{ account: "seldom", ...row, plan: "pro", admitted: 2, units: 2 },
    refused: 0,
  });
  assert.deepEqual(await rows("seldom", "--days", "30"), [seldom]);
  assert.deepEqual(await rows("--month", day.slice(0, 7), "--plan", "free"), [often]);
  assert.deepEqual(await rows("--month", "2020-01"), []);
  const none = ["usage", "--month", "2020-01"];
  const past = await named(...none);
  assert.deepEqual([past.out, past.err], ["Nothing was used on these days\n", ""]);
  const ahead = await named("usage", "--month", "2999-01", "--csv");
  assert.equal(ahead.err, "warning: 2999-01 has not begun\n");
  assert.deepEqual([ahead.status, ahead.out.split("\r\n").length], [0, 2]);
  assert.equal(
    (await named(...none, "--csv")).out,
    "account,environment,plan,day,admitted,units,refused\r\n",
  );
  assert.deepEqual(await rows("--days", "2", "--env", "staging"), []);
  const { out } = await named("usage", "--csv", "--month", day.slice(0, 7));
  assert.deepEqual(out.split("\r\n"), [
    "account,environment,plan,day,admitted,units,refused",
    `often,production,free,${day},4,4,1`,
    `seldom,production,pro,${day},2,2,0`,
    "",
  ]);
  assert.equal((await named("accounts", "set", "often", "--plan", "pro")).status, 0);
  assert.deepEqual(await rows("often", "--days", "1"), [often], "an upgrade rewrites no day");
  const table = await named("usage", "seldom", "--days", "1");
  assert.match(table.out, /^ACCOUNT .*\nseldom +production +pro +\d{4}-\d\d-\d\d +2 +2 +0\n$/);
  const unknown = await named("usage", "nobody", "--days", "1");
  assert.deepEqual([unknown.status, unknown.out], [1, ""]);
}

/** One row a page: the whole list, by the addresses in Link. */
async function paged(origin: string): Promise<void> {
  const accounts: string[] = [];
  let path: string | undefined = "/api/history?limit=1";
  while (path !== undefined) {
    const answer: Response = await fetch(new URL(path, origin));
    assert.equal(answer.status, 200);
    accounts.push(...((await answer.json()) as DayReport[]).map(({ account }) => account));
    path = /<([^>]*)>; rel="next"/.exec(answer.headers.get("link") ?? "")?.[1];
  }
  assert.deepEqual(accounts, ["often", "seldom"]);
  for (const query of ["days=0", "days=x", "month=2026-13", "days=1&month=2026-10", "limit=0"]) {
    assert.equal((await fetch(`${origin}/api/history?${query}`)).status, 400, query);
  }
}

describe("usage by day", () => {
  it("is told by the running gateway, as JSON, CSV, a table and page by page", async () => {
    await used("memory");
  });

  it("and by the store that all gateways share", async () => {
    const redis = await startRedis();
    try {
      await used(redis.url);
    } finally {
      await redis.close();
    }
  });

  it("is one list, with one head, where so many accounts are read in pieces", async () => {
    const redis = await startRedis();
    try {
      await using house = await startTestGateway({
        config: { store: redis.url, keys: "redis", history: "400d", admin: "off", plans: METERED },
      });
      const named = (...args: string[]) => runVerb([...args, "--config", house.file]);
      const create = ["--env", "production", "--plan", "free", "--count", "501", "--json"];
      const made = jsonOf<{ key: string; account: string }[]>(
        await named("keys", "create", ...create),
      );
      const keys = new Map(made.map(({ account, key }) => [account, key]));
      const listed = jsonOf<{ account: string }[]>(await named("accounts", "list", "--json"));
      const accounts = [listed[0], listed.at(-1)].map((one) => one?.account ?? "");
      for (const key of accounts.map((account) => keys.get(account) ?? "")) {
        await eventually(async () => assert.equal((await house.ask(key, "/v1/pets")).status, 200));
      }
      await house.gateway.stop();
      const rows = jsonOf<DayReport[]>(await named("usage", "--days", "2", "--json"));
      assert.deepEqual(rows.map(({ account }) => account).toSorted(), accounts.toSorted());
      const csv = (await named("usage", "--days", "2", "--csv")).out.trimEnd().split("\r\n");
      assert.deepEqual(
        csv.map((line) => line.split(",")[0]).toSorted(),
        [...accounts, "account"].toSorted(),
      );
      const month = await named("usage", "--month", TODAY().slice(0, 7), "--csv");
      assert.match(month.out, /^account,.*,refused,overage,tokens\r\n.*,1,1,0,0,0\r\n/);
      await appendFile(house.file, "\nbogus: 1\n");
      const sound = (await named("usage", "--days", "2", "--csv")).out.trimEnd().split("\r\n");
      assert.match(sound[0] ?? "", /,refused,tokens$/, "the meters of the sound part of the file");
      assert.deepEqual(sound.toSorted(), csv.toSorted());
    } finally {
      await redis.close();
    }
  });

  it("leaves out an overage that would be too low, because days of the month are no longer kept, with 1", async () => {
    const plans = { free: { month: 60, included: { month: 2 } } };
    const at = (day: number) => Date.UTC(2026, 11, day, 12);
    let nowMs = at(1);
    const config = { history: "30d", plans };
    await using house = await startTestGateway({ config, now: () => nowMs });
    const [old, young] = [await house.issue(), await house.issue()];
    await (await house.ask(old.key)).text();
    nowMs = at(8);
    const late = await house.issue();
    for (const { key } of [old, young, late]) {
      for (let i = 0; i < 3; i++) await (await house.ask(key)).text();
    }
    nowMs = at(31 + 5);
    const month = ["usage", "--month", "2026-12", "--admin", house.adminUrl];
    const csv = await runVerb([...month, "--csv"]);
    const overages = csv.out
      .trimEnd()
      .split("\r\n")
      .map((line) => line.split(","));
    const ofLate = overages.filter(([account]) => account === late.account);
    assert.deepEqual(
      ofLate.map((row) => row.at(-1)),
      ["1"],
    );
    const ofOthers = overages.slice(1).filter(([account]) => account !== late.account);
    assert.deepEqual(new Set(ofOthers.map((row) => row.at(-1))), new Set([""]));
    assert.equal(csv.status, 1);
    assert.match(
      csv.err,
      /^Missing: overage of \S+ and 1 other account: days of its month before 2026-12-06 are no longer kept\. With history of 62d or more a month can be billed while the next one lasts\n$/,
    );
    const json = await runVerb([...month, "--json"]);
    const rows = jsonOf<DayReport[]>(json).filter(({ account }) => account === young.account);
    const why = "days of its month before 2026-12-06 are no longer kept";
    assert.deepEqual(
      rows.map(({ overage, overageUnknown }) => [overage, overageUnknown]),
      [[undefined, why]],
    );
    const whole = await runVerb([...month, "--csv", late.account]);
    assert.deepEqual([whole.status, whole.err], [0, ""]);
  });

  it("prints no half of a JSON value where a page of it cannot be read", async () => {
    const row = { account: "acme", day: "2026-11-21", admitted: 1, units: 1, refused: 0 };
    const environments = { production: { listen: "127.0.0.1:1", keyTag: "live", upstreams: [] } };
    const running = { environments, plans: { free: { day: 9 } }, hash: "x" };
    await using admin = await openAdmin((response, { asked }) => {
      if (asked === "GET /api/config") send(response, 200, running);
      else if (asked.includes("after")) send(response, 503, { message: "The store is gone" });
      else send(response, 200, [row], '</api/history?after=acme>; rel="next"');
    });
    const said = await runVerb(["usage", "--days", "2", "--json", "--admin", admin.origin]);
    assert.deepEqual([said.status, said.out], [1, ""]);
    assert.equal(said.err, "The store is gone\n");
  });

  it("says what it cannot read, with 64, and that history is off, with 1", async () => {
    await using folder = await openFolder();
    const file = await writeConfig(folder, { store: "redis://127.0.0.1:1" });
    for (const [args, says] of [
      [["--days", "0"], /Cannot read --days as a number of days from 1 to 3660: the value is "0"/],
      [["--days", "4000"], /Cannot read --days/],
      [["--month", "2026-13"], /Cannot read --month as a month such as 2026-10/],
      [["--month", "http://me:s3cret@h"], /the value is "http:\/\/\*\*\*@h"/],
      [["--days", "http://me:s3cret@h"], /the value is "http:\/\/\*\*\*@h"/],
      [["--month", "2026-1"], /Cannot read --month/],
      [
        ["--days", "1", "--month", "2026-10"],
        /--days and --month are two periods: give one of them/,
      ],
      [["--days", "1", "--top", "3"], /--top does not go with usage by day: leave it out/],
      [["--days", "1", "--over", "3"], /--over does not go with usage by day: leave it out/],
      [["acme", "--days", "1", "--plan", "free"], /--plan does not go with usage by day of one/],
    ] as const) {
      const said = await runVerb(["usage", ...args, "--config", file]);
      assert.deepEqual([said.status, said.out], [64, ""], args.join(" "));
      assert.match(said.err, says);
    }
    for (const names of [[], ["--plan", "nosuch"]]) {
      const off = await runVerb(["usage", "--days", "1", ...names, "--config", file]);
      assert.deepEqual([off.status, off.out], [1, ""]);
      assert.match(off.err, /history is off in the configuration\. Set history: 400d/);
      // It may have been on before: its days come back with it.
      assert.doesNotMatch(off.err, /There is no/);
      assert.match(off.err, /days of before that are kept can be read again\n$/);
    }
  });
});
