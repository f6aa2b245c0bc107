import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { connect } from "node:net";
import { join } from "node:path";
import { describe, it } from "vitest";
import type { UsageReport } from "../../../src/core/keys/usage-reports.ts";
import type { Explanation } from "../../../src/core/quota/explain.ts";
import type { DayReport } from "../../../src/stores/queries/read-history.ts";
import type { RequestListener } from "../../support/gateway/backend.ts";
import { eventually } from "../../support/poll.ts";
import { requestBytes } from "../../support/wire/client.ts";
import { audited, type Line, openAudited } from "../audit-kit.ts";
import { jsonOf, openFolder, runVerb, writeConfig } from "../kit.ts";

const HOLD = 20;
const MAX = 100;

/** A gateway whose backend tells in a field what it used. */
async function openMetered(more: Readonly<Record<string, unknown>> = {}) {
  const tokens = { hold: HOLD, max: MAX, used: ["header x-used"] };
  return openAudited({
    environment: {
      api: null,
      standing: "/v1/_limits",
      costs: [{ match: "POST /v1/chat", meters: { tokens } }],
    },
    config: {
      history: "400d",
      bans: "off",
      plans: {
        free: { day: 1000, meters: { tokens: { day: 100, month: 400 }, rows: "unlimited" } },
        ...more,
      },
    },
  });
}

const used = (units: number): RequestListener => {
  return (_seen, response) => void response.writeHead(200, { "x-used": String(units) }).end("{}");
};

type House = Awaited<ReturnType<typeof openMetered>>;

/** Asks, and waits for the line. */
async function chat(house: House, key: string, units: number): Promise<Line> {
  house.backend.answer(used(units));
  const before = house.lines.length;
  await (await house.ask(key, "/v1/chat", { method: "POST", body: "{}" })).text();
  return eventually(() => {
    assert.ok(house.lines.length > before);
    return house.lines[before] as unknown as Line;
  });
}

const verb = (house: House, ...args: string[]) => runVerb([...args, "--config", house.file]);

/** The windows of an account by their names: used and limit. */
function windowsOf({ windows }: Pick<UsageReport, "windows">) {
  return Object.fromEntries(windows.map(({ window, used: n, limit }) => [window, [n, limit]]));
}

describe("an operator sees of meters", () => {
  it("the windows in usage, the list, the CSV and standing, before and after they are used", async () => {
    await using house = await openMetered();
    const { key, account } = await house.issue();
    const before = jsonOf<UsageReport>(await verb(house, "usage", account, "--json"));
    assert.deepEqual(windowsOf(before), {
      ...{ day: [0, 1000], "tokens.day": [0, 100], "tokens.month": [0, 400] },
    });
    await chat(house, key, 7);
    await chat(house, key, 30);
    const after = jsonOf<UsageReport>(await verb(house, "usage", account, "--json"));
    const all = { day: [2, 1000], "tokens.day": [37, 100], "tokens.month": [37, 400] };
    await eventually(async () => {
      const now = jsonOf<UsageReport>(await verb(house, "usage", account, "--json"));
      assert.deepEqual(windowsOf(now), all);
    });
    assert.equal(after.account, account);
    const [listed] = jsonOf<UsageReport[]>(await verb(house, "usage", "--json"));
    assert.deepEqual(windowsOf(listed as UsageReport), all);
    const csv = (await verb(house, "usage", account, "--csv")).out;
    assert.match(csv, new RegExp(`^${account},production,free,tokens\\.day,37,100,63,\\d+`, "m"));
    const standing = (await (await house.ask(key, "/v1/_limits")).json()) as UsageReport;
    assert.deepEqual(windowsOf(standing), all);
  });

  it("a limit of its own, which accounts set and the API give an account", async () => {
    await using house = await openMetered();
    const { key, account } = await house.issue();
    const set = await verb(house, "accounts", "set", account, "--limit", "tokens.month=55");
    assert.equal(set.status, 0, set.err);
    for (const units of [20, 20]) await chat(house, key, units);
    const refused = await chat(house, key, 20);
    assert.deepEqual([refused.code, refused.holds], ["rate_limited", { tokens: HOLD }]);
    const report = jsonOf<UsageReport>(await verb(house, "usage", account, "--json"));
    assert.deepEqual(windowsOf(report)["tokens.month"], [40, 55]);
    const listed = jsonOf<{ limits: unknown }[]>(await verb(house, "accounts", "list", "--json"));
    assert.deepEqual(listed.find((one) => Object.hasOwn(one, "limits"))?.limits, {
      "tokens.month": 55,
    });
  });

  it("a limit of its own that export and import take to another store, with its anchor", async () => {
    await using house = await openMetered();
    const { account } = await house.issue({ anchor: 15 });
    const own = ["--limit", "tokens.month=900", "--limit", "day=50"];
    assert.equal((await verb(house, "accounts", "set", account, ...own)).status, 0);
    const exported = join(house.directory, "export.jsonl");
    await writeFile(exported, (await verb(house, "keys", "export")).out);
    await using folder = await openFolder();
    const other = await writeConfig(folder);
    const imported = await runVerb(["keys", "import", exported, "--config", other]);
    assert.equal(imported.status, 0, imported.err);
    const shown = await runVerb(["accounts", "show", account, "--config", other, "--json"]);
    const { limits, anchor } = jsonOf<{ limits: object; anchor: number }>(shown);
    assert.deepEqual([limits, anchor], [{ "tokens.month": 900, day: 50 }, 15]);
  });

  it("why a request was refused: the meter, what it held, and when it fits again", async () => {
    await using house = await openMetered();
    const { key, account } = await house.issue();
    for (let i = 0; i < 4; i++) await chat(house, key, 21);
    const { id, windows } = await chat(house, key, 1);
    const said = await verb(house, "explain", String(id), "--json");
    const explanation = jsonOf<Explanation>(said);
    assert.equal(
      explanation.rule,
      `The tokens.day limit is 100 units: 84 were used, and the request holds ${HOLD}`,
    );
    const day = (windows as [string, number, number, number][]).find(
      ([name]) => name === "tokens.day",
    );
    assert.deepEqual([explanation.window?.window, explanation.passesAt], ["tokens.day", day?.[3]]);
    const exhausted = explanation.windows
      .filter((one) => one.exhausted)
      .map(({ window }) => window);
    assert.deepEqual(exhausted, ["tokens.day"]);
    const log = `${house.directory}/explained.log`;
    const { writeFile } = await import("node:fs/promises");
    await writeFile(
      log,
      house.lines.map((entry) => `${JSON.stringify({ msg: "request", ...entry })}\n`).join(""),
    );
    const fromLog = await verb(house, "explain", String(id), "--log", log, "--json");
    assert.equal(jsonOf<Explanation>(fromLog).rule, explanation.rule);
    assert.equal(account, explanation.account);
  });

  it("a column for each meter in the history, and the units of each in JSON", async () => {
    await using house = await openMetered();
    const { key, account } = await house.issue();
    const other = await house.issue();
    for (const units of [7, 0, 300]) await chat(house, key, units);
    await (await house.ask(other.key, "/v1/else")).text();
    const charged = 7 + MAX;
    await eventually(async () => {
      const rows = jsonOf<DayReport[]>(await verb(house, "usage", "--days", "2", "--json"));
      const own = rows.find((row) => row.account === account);
      assert.deepEqual(own?.meters, { tokens: charged });
      assert.equal(rows.find((row) => row.account === other.account)?.meters, undefined);
    });
    const month = new Date().toISOString().slice(0, 7);
    const csv = (await verb(house, "usage", "--month", month, "--csv")).out.split("\r\n");
    assert.equal(csv[0], "account,environment,plan,day,admitted,units,refused,tokens,rows");
    const row = csv.find((line) => line.startsWith(account));
    assert.match(row ?? "", new RegExp(`,3,3,0,${charged},0$`));
    const none = csv.find((line) => line.startsWith(other.account));
    assert.match(none ?? "", /,1,1,0,0,0$/);
    const table = (await verb(house, "usage", account, "--days", "1")).out;
    assert.match(table, /REFUSED +TOKENS +ROWS/);
  });

  it("a meter with the name of a column in a column of its own, which names it a meter's", async () => {
    const units = { hold: HOLD, max: MAX, used: ["header x-used"] };
    await using house = await openAudited({
      environment: {
        api: null,
        costs: [{ match: "POST /v1/chat", meters: { units, overage: units } }],
      },
      config: {
        ...{ history: "400d", bans: "off" },
        plans: { free: { day: 1000, meters: { units: { day: 100 }, overage: { day: 100 } } } },
      },
    });
    const { key, account } = await house.issue();
    for (const told of [7, 8]) await chat(house, key, told);
    await eventually(async () => {
      const csv = (await verb(house, "usage", account, "--days", "1", "--csv")).out.split("\r\n");
      const columns = "account,environment,plan,day,admitted,units,refused";
      assert.equal(csv[0], `${columns},meter.units,meter.overage`);
      assert.match(csv[1] ?? "", /,2,2,0,15,15$/);
    });
    const table = (await verb(house, "usage", account, "--days", "1")).out;
    assert.match(table, /UNITS +REFUSED +METER\.UNITS +METER\.OVERAGE\n/);
  });

  it("that the lines and the counts agree, and one unit that does not", async () => {
    await using house = await openMetered();
    const { key } = await house.issue();
    for (const units of [7, 60, 0]) await chat(house, key, units);
    await eventually(async () => {
      const { status, told } = await audited(house);
      assert.deepEqual([status, told.drift, told.explained], [0, [], []]);
      assert.equal(told.matched, 3, "the day, and the two windows of the meter");
    });
    const edit = (lines: readonly Line[]) => {
      return lines.map((line) => ({ ...line, meters: { tokens: { hold: HOLD, used: 7 } } }));
    };
    const { status, told } = await audited(house, { edit });
    assert.equal(status, 1);
    const drift = told.drift.map(({ window, drift: units }) => [window, units]);
    assert.deepEqual(drift.toSorted(), [
      ["tokens.day", 46],
      ["tokens.month", 46],
    ]);
  });

  it("holds of a stream that is under way as open, in its lines and in the audit", async () => {
    await using house = await openMetered();
    const { key, account } = await house.issue();
    const release = Promise.withResolvers<void>();
    house.backend.answer(async (_seen, response) => {
      response.writeHead(200, { "x-used": "5" }).write("{");
      await release.promise;
      response.end("}");
    });
    const asked = house.ask(key, "/v1/chat", { method: "POST", body: "{}" });
    const response = await asked;
    const open = (await (await house.admin("/api/open")).json()) as Record<string, unknown>[];
    assert.deepEqual(
      open.map((one) => [one.account, one.units, one.meters]),
      [[account, 1, { tokens: HOLD }]],
    );
    const { status, told } = await audited(house);
    assert.deepEqual([status, told.drift], [0, []]);
    assert.ok(
      told.explained.some(({ window, open: units }) => window === "tokens.day" && units === HOLD),
    );
    release.resolve();
    await response.text();
  });

  it("what was settled of an answer that its client has not taken yet, as open", async () => {
    await using house = await openMetered();
    const { key } = await house.issue();
    house.backend.answer((_seen, response) => {
      response.writeHead(200, { "x-used": "0" }).end("x".repeat(60_000));
    });
    const socket = connect(house.port)
      .on("error", () => {})
      .pause();
    const body = requestBytes({ key, method: "POST", path: "/v1/chat" });
    for (let i = 0; i < 200; i++) socket.write(body);
    await eventually(async () => {
      const open = (await (await house.admin("/api/open")).json()) as Record<string, unknown>[];
      assert.deepEqual(
        open.map((one) => one.meters),
        [{ tokens: 0 }],
      );
    });
    const { status, told } = await audited(house);
    assert.deepEqual([status, told.drift], [0, []]);
    socket.destroy();
  });

  it("an event when a request reaches 80 % of a month", async () => {
    await using house = await openMetered({
      small: { day: 1000, meters: { tokens: { month: 100 } } },
    });
    const { key, account } = await house.issue({ plan: "small" });
    for (let i = 0; i < 4; i++) await chat(house, key, 20);
    const [event] = house.said.filter((line) => line.kind === "quota");
    assert.deepEqual(
      [event?.account, event?.window, event?.percent, event?.used, event?.limit],
      [account, "tokens.month", 80, 80, 100],
    );
  });
});
