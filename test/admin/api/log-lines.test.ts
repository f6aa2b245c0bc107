import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { runVerb } from "../../cli/kit.ts";
import { startTestGateway, type TestGateway } from "../../support/gateway/house.ts";

type Line = Readonly<Record<string, unknown>>;

/** The members of the lines with this name, without those that every line has. */
function linesOf({ said }: TestGateway, name: string): Line[] {
  return said
    .filter(({ msg }) => msg === name)
    .map(({ level: _, time: __, msg: ___, ...members }) => members);
}

async function write(house: TestGateway, method: string, path: string, body: object = {}) {
  const response = await house.admin(path, { method, body: JSON.stringify(body) });
  assert.ok(response.ok, await response.clone().text());
  return (await response.json()) as Line;
}

describe("what an operator does over the API", () => {
  it("stands in the log: a suspension with its end, its end by hand, and a changed key", async () => {
    await using house = await startTestGateway();
    const { account, id } = await house.issue();
    const named = { account, env: "production" };
    const path = `/api/accounts/${account}`;
    const { suspended } = await write(house, "POST", `${path}/suspend`, { for: "1h" });
    const { until } = suspended as { until: number };
    assert.deepEqual(linesOf(house, "account_suspended"), [{ ...named, until }]);
    await write(house, "POST", `${path}/resume`);
    assert.deepEqual(linesOf(house, "account_resumed"), [named]);
    await write(house, "PATCH", `/api/keys/${account}`, { name: "a shop" });
    assert.deepEqual(linesOf(house, "key_changed"), [{ key: id }]);
  });

  it("stands in the log: a ban from the instant of its decision to its end", async () => {
    const nowMs = Date.UTC(2026, 9, 21, 12, 0, 0, 250);
    await using house = await startTestGateway({ now: () => nowMs });
    const { account } = await house.issue();
    await write(house, "POST", "/api/bans", { id: account, for: "90s", reason: "bot" });
    const [ban] = house.said.filter(({ kind }) => kind === "ban");
    const { decidedAt, until, reason } = ban ?? {};
    const end = Math.ceil((nowMs + 90_000) / 1_000);
    assert.deepEqual([decidedAt, until, reason], [nowMs, end, "bot"]);
  });

  it("stands in the log with the records that a command changed through it", async () => {
    await using house = await startTestGateway();
    const { account } = await house.issue();
    const set = ["accounts", "set", account, "--plan", "pro", "--admin", house.adminUrl];
    const said = await runVerb(set);
    assert.equal(said.status, 0, said.err);
    assert.deepEqual(linesOf(house, "records_changed"), [{ changed: 1 }]);
  });

  it("stands in the log where a reset set a window to 0, and not where none ran", async () => {
    await using house = await startTestGateway();
    const { account, key } = await house.issue();
    const path = `/api/accounts/${account}/reset`;
    assert.deepEqual((await write(house, "POST", path)).windows, []);
    assert.deepEqual(linesOf(house, "account_reset"), []);
    await (await house.ask(key)).text();
    const { windows } = await write(house, "POST", path, { windows: ["day"] });
    assert.deepEqual(windows, [{ window: "day", units: 1 }]);
    const [told, ...others] = linesOf(house, "account_reset");
    assert.deepEqual([told, others], [{ account, env: "production", windows }, []]);
  });
});

describe("an import over the API", () => {
  it("tells how many keys were known, and how many of them it ended", async () => {
    await using house = await startTestGateway();
    for (let i = 0; i < 2; i++) await house.issue();
    const exported = await (await house.admin("/api/keys/export")).text();
    const all = exported
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as Line);
    const [first, ...others] = all.filter(({ record }) => record === "key");
    const records = [
      ...all.filter(({ record }) => record === "account"),
      { ...first, revoked: "2026-01-01T00:00:00.000Z" },
      ...others,
    ];
    for (const dryRun of [true, false]) {
      const told = await write(house, "POST", "/api/keys/import", { records, dryRun });
      assert.deepEqual(told, { keys: 0, accounts: 0, known: 2, ended: 1, differing: 0 });
    }
    for (const dryRun of [true, false]) {
      const body = { records: [{ record: "key" }], dryRun };
      const headers = { "Content-Type": "application/json" };
      const init = { method: "POST", headers, body: JSON.stringify(body) };
      const got = await house.admin("/api/keys/import", init);
      const { message } = (await got.json()) as { message: string };
      assert.equal(got.status, 409);
      assert.match(message, /^records\[0\]: /m);
    }
  });
});
