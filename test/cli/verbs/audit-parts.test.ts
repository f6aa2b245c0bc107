import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "vitest";
import { each } from "../../support/each.ts";
import { startTestUpstream } from "../../support/gateway/backend.ts";
import type { TestGateway } from "../../support/gateway/house.ts";
import { eventually } from "../../support/poll.ts";
import { audited, line, openAudited } from "../audit-kit.ts";
import { jsonOf, runVerb } from "../kit.ts";

const API = `openapi: 3.1.0
info: { title: t, version: 1.0.0 }
paths:
  /status: { get: { operationId: status, security: [], responses: {} } }
`;

/** A noon that does not move: no hour ends between two requests. */
const NOON = Date.UTC(2026, 5, 1, 12);
/** No window ends while a test runs. */
const CONFIG = { history: "400d", plans: { free: { month: 900 } } };

/** Caps a key by a command, and waits for the gateway to have read it. */
async function setCap(house: TestGateway, id: string, window: string): Promise<void> {
  const set = ["keys", "set", id, "--cap", `${window}=50`, "--config", house.file];
  assert.equal((await runVerb(set)).status, 0);
  await eventually(async () => {
    const shown = await (await house.admin(`/api/usage/${id}`)).json();
    assert.match(JSON.stringify(shown), new RegExp(`key\\.${window}`));
  });
  await eventually(() => assert.ok(house.said.some(({ msg }) => msg === "caps_added")));
}

describe("audit", () => {
  it("compares the limits of each key, also of one that was rotated, and names the key that drifts", async () => {
    await using house = await openAudited({ config: CONFIG });
    const one = await house.issue({ caps: { month: 50, year: 90 } });
    const more = { account: one.account, environment: undefined, plan: undefined };
    const other = await house.issue({ ...more, caps: { month: 50 } });
    const free = await house.issue(more);
    const rotate = { method: "POST", body: "{}" };
    const answer = await house.admin(`/api/keys/${one.id}/rotate`, rotate);
    const successor = (await answer.json()) as { id: string; key: string };
    for (const { key } of [one, successor, one, other, free, free]) {
      await (await house.ask(key)).text();
    }
    await eventually(() => assert.equal(house.lines.length, 6));
    const all = await audited(house);
    assert.deepEqual([all.status, all.told.drift, all.told.explained], [0, [], []]);
    assert.equal(all.told.matched, 4, "of the account, two of one key, one of another");
    const short = await audited(house, { leaveOut: 1 });
    assert.equal(short.status, 1);
    const windows = short.told.drift.map(({ window, drift }) => [window, drift]);
    assert.deepEqual(windows.toSorted(), [
      [`key.month of ${one.id}, ${successor.id}`, 1],
      [`key.year of ${one.id}, ${successor.id}`, 1],
      ["month", 1],
    ]);
  });

  it("explains windows that a reload took away and another one put back, before the account calls again", async () => {
    const api = (limits: string) => `openapi: 3.1.0
info: { title: t, version: 1.0.0 }
paths:
  /few: { get: { operationId: few, ${limits}responses: {} } }
`;
    const plans = { free: { month: 900, year: 900 } };
    const limited = api("x-limits: { year: 100 }, ");
    await using house = await openAudited({
      config: { ...CONFIG, plans },
      files: { "few.yaml": limited },
      api: "./few.yaml",
    });
    const { key, id } = await house.issue();
    const calls = async (count: number) => {
      const before = house.lines.length;
      for (let i = 0; i < count; i++) await (await house.ask(key, "/v1/few")).text();
      await eventually(() => assert.equal(house.lines.length, before + count));
    };
    const reload = async (text: string, config: object) => {
      await writeFile(join(house.directory, "few.yaml"), text);
      await house.rewrite({
        ...CONFIG,
        admin: { listen: new URL(house.adminUrl).host },
        ...config,
      });
      const answer = await house.admin("/api/reload", { method: "POST", body: "{}" });
      assert.equal(answer.status, 200, await answer.text());
    };
    await calls(3);
    await reload(api(""), {});
    await calls(2);
    await reload(limited, { plans });
    const { status, told } = await audited(house);
    assert.deepEqual([status, told.drift], [0, []]);
    const why =
      "2 units fewer: the configuration was changed, and only what the last one charged is counted";
    assert.deepEqual(told.explained.map((one) => [one.window, one.why]).toSorted(), [
      ["few.year", why],
      ["year", why],
    ]);
    const short = await audited(house, { leaveOut: 1 });
    assert.equal(short.status, 1, `a charge of ${id} without a line`);
  });

  it("explains a cap that a key got later, and what a reset of it took to the unit", async () => {
    await using house = await openAudited({ config: CONFIG });
    const { id, key, account } = await house.issue();
    const other = await house.issue({
      account,
      env: undefined,
      plan: undefined,
      caps: { month: 9 },
    });
    await (await house.ask(key)).text();
    await setCap(house, id, "month");
    for (const each of [key, key, other.key]) await (await house.ask(each)).text();
    const resets = { method: "POST", body: "{}" };
    assert.equal((await house.admin(`/api/accounts/${account}/reset`, resets)).status, 200);
    await (await house.ask(key)).text();
    await eventually(() => assert.equal(house.lines.length, 5));
    const { status, told } = await audited(house);
    assert.deepEqual([status, told.drift], [0, []]);
    const ofKeys = told.explained.filter(({ window }) => window.startsWith("key."));
    assert.deepEqual(
      new Map(ofKeys.map(({ window, why }) => [window, why])),
      new Map([
        [`key.month of ${id}`, "1 unit fewer: the cap of the key was set in the window"],
        [`key.month of ${other.id}`, "1 unit was reset"],
      ]),
    );
    assert.equal((await audited(house, { bare: true })).status, 1, "without the lines it is drift");
  });

  it("takes no request of a rotated key for a cap that its successor alone got", async () => {
    await using house = await openAudited({ config: CONFIG });
    const one = await house.issue({ caps: { month: 50 } });
    const rotate = { method: "POST", body: "{}" };
    const answer = await house.admin(`/api/keys/${one.id}/rotate`, rotate);
    const successor = (await answer.json()) as { id: string; key: string };
    await setCap(house, successor.id, "year");
    for (const { key } of [one, successor, one]) await (await house.ask(key)).text();
    await eventually(() => assert.equal(house.lines.length, 3));
    const { status, told } = await audited(house, { bare: true });
    assert.deepEqual([status, told.drift, told.explained, told.matched], [0, [], [], 3]);
  });

  it("tells no drift of a count that two keys share once one of them loses the cap, or gets another one", async () => {
    await using house = await openAudited({ config: CONFIG });
    /** A rotated key and its successor, with as many requests, before one of them is changed. */
    const used = async (
      account: string | undefined,
      change: "former" | "successor",
      cap: object,
    ) => {
      const of = account === undefined ? {} : { account, env: undefined, plan: undefined };
      const one = await house.issue({ ...of, caps: { month: 50 } });
      const rotate = { method: "POST", body: JSON.stringify({ grace: "24h" }) };
      const answer = await house.admin(`/api/keys/${one.id}/rotate`, rotate);
      const next = (await answer.json()) as { id: string; key: string };
      for (const { key } of [one, one, next]) await (await house.ask(key)).text();
      const id = change === "former" ? one.id : next.id;
      const body = JSON.stringify(cap);
      const changed = await house.admin(`/api/keys/${id}`, { method: "PATCH", body });
      assert.equal(changed.status, 200, await changed.text());
      const left = change === "former" ? next.id : one.id;
      return { account: one.account, id, left };
    };
    const { account, left } = await used(undefined, "successor", { dropCaps: true });
    const others = [
      await used(account, "former", { dropCaps: true }),
      await used(account, "successor", { dropCaps: true, caps: { year: 70 } }),
    ];
    await eventually(() => {
      assert.equal(house.lines.length, 9);
      assert.ok(house.said.some(({ msg }) => msg === "caps_added"));
    });
    const whys = (told: Awaited<ReturnType<typeof audited>>["told"]) => {
      return new Map(told.explained.map(({ window, why }) => [window, why]));
    };
    const why = "more: the cap of the key was changed in the window";
    const first = await audited(house);
    assert.deepEqual([first.status, first.told.drift], [0, []]);
    assert.deepEqual(
      whys(first.told),
      new Map([
        [`key.month of ${left}`, `1 unit ${why}`],
        [`key.month of ${others[0]?.left}`, `2 units ${why}`],
        [`key.month of ${others[1]?.left}`, `1 unit ${why}`],
        [`key.year of ${others[1]?.id}`, "1 unit fewer: the cap of the key was set in the window"],
      ]),
    );
    const resets = { method: "POST", body: "{}" };
    assert.equal((await house.admin(`/api/accounts/${account}/reset`, resets)).status, 200);
    const reset = await audited(house);
    assert.deepEqual([reset.status, reset.told.drift], [0, []]);
  });

  it("reads every log that a shell has put in the place of --log *.log", async () => {
    await using house = await openAudited({ config: CONFIG });
    const { key } = await house.issue();
    for (let i = 0; i < 3; i++) await (await house.ask(key)).text();
    await eventually(() => assert.equal(house.lines.length, 3));
    const others = house.lines.slice(0, 2).map((entry, i) => {
      return { file: join(house.directory, `other-${i}.log`), text: `${JSON.stringify(entry)}\n` };
    });
    for (const { file, text } of others) await writeFile(file, text);
    const args = others.map(({ file }) => file);
    const { status, told } = await audited(house, { leaveOut: 2, args });
    assert.deepEqual([status, told.charged, told.drift], [0, 3, []]);
  });

  it("says of a single line that is damaged where it is", async () => {
    await using house = await openAudited({ config: CONFIG });
    const { key } = await house.issue();
    await (await house.ask(key)).text();
    await eventually(() => assert.equal(house.lines.length, 1));
    const { told } = await audited(house, {
      edit: (lines) => {
        const { decidedAt: time } = line(lines, 0);
        return [...lines, { msg: "request", id: 5 }, { msg: "counter_regression", time }];
      },
    });
    assert.match(told.missing.join("\n"), /the store lost charges \(counter_regression: 1\)/);
    assert.match(told.missing.join("\n"), /^1 damaged line left out, the first at .*\.log:\d+$/m);
  });

  it("asks for the counts of an address in every environment of which the logs have it", async () => {
    const backend = await startTestUpstream();
    const environment = (keyTag: string) => ({
      ...{ listen: "127.0.0.1:0", keyTag, basePath: "/v1", public: "open" },
      ...{ api: "./api.yaml", upstreams: [backend.origin] },
    });
    const environments = { production: environment("live"), staging: environment("test") };
    await using house = await openAudited({
      backend,
      now: () => NOON,
      files: { "api.yaml": API },
      config: { environments, plans: { free: { month: 900 }, open: { hour: 100 } } },
    });
    for (const url of each(Object.values(house.gateway.urls))) {
      assert.equal((await fetch(`${url}/v1/status`)).status, 200);
    }
    await eventually(() => assert.equal(house.lines.length, 2));
    const { told } = await audited(house, { nowMs: NOON });
    assert.deepEqual([told.accounts, told.drift, told.missing], [2, [], []]);
    const [{ account = "" } = {}] = house.lines;
    for (const environment of Object.keys(environments)) {
      for (const verb of ["usage", "accounts reset"]) {
        const args = [...verb.split(" "), account, "--env", environment, "--json"];
        const of = jsonOf(await runVerb([...args, "--config", house.file]));
        assert.deepEqual([of.account, of.environment], [account, environment], verb);
      }
    }
  });

  it("compares the month that an account with an anchor has, from its start", async () => {
    const today = new Date().getUTCDate();
    await using house = await openAudited({ config: CONFIG });
    const anchored = await house.issue({ anchor: (today % 28) + 1 });
    for (let i = 0; i < 3; i++) await (await house.ask(anchored.key)).text();
    await eventually(() => assert.equal(house.lines.length, 3));
    const { status, told } = await audited(house);
    assert.deepEqual([status, told.drift, told.matched], [0, [], 1]);
    const short = await audited(house, { leaveOut: 1 });
    assert.deepEqual([short.status, short.told.drift[0]?.drift], [1, 1]);
  });
});
