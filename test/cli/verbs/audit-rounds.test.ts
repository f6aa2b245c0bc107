import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, describe, it } from "vitest";
import { openAdmin, send } from "../access/admin-server.ts";
import type { Told as Audited } from "../audit-kit.ts";
import {
  configText,
  type Folder,
  jsonOf,
  openFolder,
  type RunVerbOptions,
  runVerb,
} from "../kit.ts";

const DAY_MS = 86_400_000;
const MIDNIGHT = Date.UTC(2026, 6, 15);
const NOON = MIDNIGHT + DAY_MS / 2;
const OWN = { account: "acme", environment: "production" };
const ADDRESS = "addr:192.0.2.1";

type Told = Audited & { from: number | null; to: number | null };

/** The line of a request that charged one unit, a second before it ended. */
const line = (decidedAt: number, more: object = {}) => ({
  ...{ level: "info", msg: "request", time: decidedAt + 1_000, decidedAt, id: `r-${decidedAt}` },
  ...{ env: "production", account: "acme", key: "k", plan: "free", method: "GET" },
  ...{ route: "/v1/pets", path: "/v1/pets", status: 200, source: "backend", strikes: 0 },
  ...{ decision: "admitted", charged: 1, cost: 1, forwards: 1, durationMs: 1_000 },
  ...{ client: "192.0.2.1", config: "one", ...more },
});
const serving = (time: number) => ({ level: "info", msg: "serving", time });
/** The lines of a gateway that has served all day, and charged as many units. */
const lines = (units: number) => {
  const requests = Array.from({ length: units }, (_, i) => line(NOON - 60_000 + i));
  // A line without a time is no part of the span.
  return [serving(MIDNIGHT), { level: "info", msg: "noted" }, ...requests];
};
const counts = (used: number, more: object = {}) => ({
  ...{ ...OWN, plan: "free", created: MIDNIGHT / 1_000, at: NOON },
  windows: [{ window: "day", used, from: MIDNIGHT, to: MIDNIGHT + DAY_MS }],
  ...more,
});
const open = (units: number) => (units === 0 ? [] : [{ ...OWN, units, decidedAt: NOON - 1 }]);

type Gateway = {
  readonly counts: readonly object[];
  /**
   * The answers to the questions for what is under way, in turn; a number is the status of a failure,
   * a text the processes that did not answer.
   */
  readonly open?: readonly (readonly object[] | number | string)[];
  readonly history?: readonly object[];
  /** The names of the gateways that beat; undefined if they cannot be read. */
  readonly names?: readonly string[];
};

describe("audit", () => {
  let folder: Folder;
  beforeEach(async () => {
    folder = await openFolder();
  });
  afterEach(() => folder[Symbol.asyncDispose]());

  /** Audits these lines beside a gateway that counts so; what it was asked, and when. */
  async function audited(
    logged: readonly object[],
    gateway: Gateway,
    { args = [], more = "", ...options }: RunVerbOptions & { args?: string[]; more?: string } = {},
  ) {
    const asked: { path: string; atMs: number }[] = [];
    const answers = [...(gateway.open ?? [])];
    await using admin = await openAdmin((response, { asked: question }) => {
      const path = decodeURIComponent(question.split(" ")[1] ?? "");
      asked.push({ path, atMs: performance.now() });
      if (path === "/api/open") {
        const answer = answers.shift() ?? [];
        if (typeof answer === "number") return send(response, answer, { message: "Broken" });
        if (typeof answer === "string") response.setHeader("X-Tollgate-Missing", answer);
        return send(response, 200, typeof answer === "string" ? [] : answer);
      }
      if (path.startsWith("/api/counts?")) return send(response, 200, gateway.counts);
      if (path === `/api/counts/${ADDRESS}?env=production`) {
        return send(response, 200, counts(1, { account: ADDRESS, created: null }));
      }
      if (path === "/api/gateways" && gateway.names !== undefined) {
        const rows = gateway.names.map((name) => ({ name, age: 0 }));
        return send(response, 200, rows);
      }
      if (path.startsWith("/api/history?")) return send(response, 200, gateway.history ?? []);
      send(response, 404, { code: "not_found", message: "There is nothing here" });
    });
    const [log, file] = [join(folder.path, "one.log"), join(folder.path, "tollgate.yaml")];
    await writeFile(log, logged.map((one) => `${JSON.stringify(one)}\n`).join(""));
    await writeFile(file, configText({ admin: admin.port, more }));
    const named = ["audit", "--json", "--log", log, "--config", file, ...args];
    const said = await runVerb(named, { nowMs: NOON, ...options });
    const paths = asked.filter(({ path }) => /counts|open/.test(path));
    return { ...said, told: jsonOf<Told>(said), paths };
  }

  it("asks three times while units differ, and waits longer for late charges each time", async () => {
    // A gateway that answers in the end was not killed.
    const late = { counts: [counts(3)], open: [500, [], 500, [], 500, []] };
    const { status, told, paths } = await audited(lines(2), late);
    assert.deepEqual([status, told.drift.map(({ drift }) => drift)], [1, [1]]);
    assert.deepEqual(told.missing, []);
    const round = ["/api/counts?limit=10000", "/api/open", "/api/open"];
    assert.deepEqual(
      paths.map(({ path }) => path),
      [...round, ...round, ...round],
    );
    const waitsMs = [1, 4, 7].map((i) => (paths[i + 1]?.atMs ?? 0) - (paths[i]?.atMs ?? 0));
    for (const [i, leastMs] of [300, 1_000, 2_000].entries()) {
      assert.ok((waitsMs[i] ?? 0) > leastMs - 10, `${waitsMs}`);
    }
  });

  it("asks once more for the counts of an address that only the logs have, and once if all agree", async () => {
    const address = { account: ADDRESS, key: undefined };
    const own = { counts: [counts(2)] };
    const { status, told, paths } = await audited([...lines(2), line(NOON - 5, address)], own);
    assert.deepEqual([status, told.matched, told.accounts, told.drift], [0, 2, 2, []]);
    assert.deepEqual(
      paths.map(({ path }) => path).filter((path) => path !== "/api/open"),
      [
        "/api/counts?limit=10000",
        "/api/counts?limit=10000",
        `/api/counts/${ADDRESS}?env=production`,
      ],
    );
    const gone = await audited([...lines(2), line(NOON - 5, { account: "gone" })], own);
    const rounds = gone.paths.filter(({ path }) => path.startsWith("/api/counts?"));
    assert.deepEqual([gone.status, rounds.length], [0, 2], "nobody knows it, and it is asked once");
    const [unknown] = gone.told.notCompared as { account?: string; why: string }[];
    assert.deepEqual([unknown?.account, gone.told.accounts], ["gone", 2]);
    assert.match(unknown?.why ?? "", /^its counts are not known: /);
    const agreed = await audited(lines(2), own);
    assert.deepEqual([agreed.status, agreed.paths.length], [0, 3]);
    assert.deepEqual([agreed.told.from, agreed.told.to], [MIDNIGHT / 1_000, NOON / 1_000 - 59.999]);
  });

  it("takes what was under way before it read the logs for counted, or for charged if it ended since", async () => {
    for (const [units, used] of [
      [2, 3],
      [3, 3],
    ] as const) {
      const gateway = { counts: [counts(used)], open: [open(1), open(0)] };
      const { status, told, paths } = await audited(lines(units), gateway);
      assert.deepEqual([status, told.drift, paths.length], [0, [], 3], `${units} units`);
    }
  });

  it("takes a gateway that was killed for ended at its last line, and not as the next one began", async () => {
    const again = [...lines(2), serving(NOON)];
    const killed = await audited(again, { counts: [counts(3)] });
    const at = new Date(NOON - 60_000 + 1 + 1_000).toISOString();
    const why = `1 unit more: a gateway ended without a last line at ${at}, and what was open in it is not known`;
    assert.deepEqual([killed.status, killed.told.explained.map((one) => one.why)], [0, [why]]);
  });

  it("explains by an outage that goes on what was charged since it began, and finds a unit of before that is missing", async () => {
    const away = { msg: "event", kind: "store_away", gateway: "g", time: NOON - 30_000 };
    const logged = [...lines(2), line(NOON - 41_000), away];
    const why = "1 unit fewer: a gateway is away from the store";
    const since = await audited(logged, { counts: [counts(2)] });
    assert.deepEqual([since.status, since.told.explained.map((one) => one.why)], [0, [why]]);
    const before = await audited(logged, { counts: [counts(1)] });
    assert.deepEqual([before.status, before.told.drift.map(({ drift }) => drift)], [1, [-2]]);
  });

  it("names all that is missing: lines, changes, and gateways that did not answer, and shows how far it is", async () => {
    let nowMs = NOON;
    const now = () => {
      nowMs += 2_000;
      return nowMs;
    };
    const reset = { level: "info", msg: "event", kind: "bans_lifted", time: NOON };
    const changed = line(NOON - 60_000, { config: "two" });
    const reload = { level: "info", msg: "event", kind: "config_reloaded", hash: "two" };
    const reloaded = { ...reload, time: NOON - 60_000 };
    const logged = [...lines(1), reloaded, changed, reset, { msg: "request", id: 5 }];
    const { status, told, err } = await audited(
      logged,
      { counts: [counts(2)] },
      {
        ...{ args: ["--admin", "http://127.0.0.1:1"], isErrTty: true, now },
      },
    );
    assert.match(told.missing[0] ?? "", /^1 damaged line left out, the first at .*one\.log:7$/);
    assert.deepEqual(told.missing.slice(1), [
      "the configuration changed: 2 are in the log, one, two",
      "requests under way are not known: Cannot ask the gateway at http://127.0.0.1:1 (--admin): nothing listens there. Is it running?",
    ]);
    assert.equal(status, 0, "what is compared agrees");
    assert.ok(err.startsWith("\rReading: ") && err.endsWith("\r\x1b[K"), err);
  });

  it("calls more units than the lines have no drift while a process of the gateway does not answer, and fewer all the same", async () => {
    const why = "requests under way are not known: no answer from worker 1 of the gateway";
    const silent = Array(6).fill("worker 1");
    const more = await audited(lines(2), { counts: [counts(3)], open: silent });
    const notCompared = more.told.notCompared.map((one) => [one.window, one.why]);
    assert.deepEqual([more.told.drift, notCompared], [[], [["day", why]]]);
    assert.deepEqual([more.told.missing, more.paths.length], [[why], 9]);
    const soon = { counts: [counts(3)], open: ["worker 1", "worker 1", open(1), open(1)] };
    const answered = await audited(lines(2), soon);
    const whys = answered.told.explained.map((one) => one.why);
    assert.deepEqual([answered.status, whys], [0, ["1 unit is under way"]]);
    assert.deepEqual(answered.told.missing, []);
    for (const [used, asked] of [
      [1, silent],
      [3, [[], "worker 1", [], "worker 1", [], "worker 1"]],
    ] as const) {
      const { status, told } = await audited(lines(2), { counts: [counts(used)], open: asked });
      assert.deepEqual([status, told.drift.map(({ drift }) => drift)], [1, [used - 2]]);
      assert.deepEqual(told.missing, [why]);
    }
  });

  it("calls more units than the lines have no drift while a gateway beats that was not asked, and fewer all the same", async () => {
    const why = "requests under way are not known: 1 of 2 running gateways told them";
    const verdicts = async (used: number, ...names: string[]) => {
      const { status, told } = await audited(lines(2), { counts: [counts(used)], names });
      const notCompared = told.notCompared.map((one) => [one.window, one.why]);
      return [status, told.drift.map(({ drift }) => drift), notCompared];
    };
    assert.deepEqual(await verdicts(3, "a", "b"), [1, [], [["day", why]]]);
    assert.deepEqual(await verdicts(1, "a", "b"), [1, [-1], []]);
    assert.deepEqual(await verdicts(3, "a"), [1, [1], []]);
    assert.deepEqual(await verdicts(2, "a", "b"), [0, [], []]);
  });

  it("passes a month that runs by its days that are over, and asks once though one of them differs", async () => {
    const yesterday = MIDNIGHT - DAY_MS / 2;
    const noted = { level: "info", msg: "noted", time: NOON };
    const logged = [serving(yesterday - DAY_MS), line(yesterday), noted];
    const month = async (units: number) => {
      const day = { ...OWN, day: "2026-07-14", plan: "free", units };
      const gateway = { counts: [counts(0, { windows: [] })], history: [day] };
      const options = { args: ["--month", "2026-07"], more: "history: 400d\n" };
      const { status, told, paths } = await audited(logged, gateway, options);
      const drift = told.drift.map((one) => [one.window, one.drift]);
      return [status, told.matched, drift, told.notCompared, paths.length];
    };
    assert.deepEqual(await month(1), [0, 1, [], [], 3]);
    assert.deepEqual(await month(2), [1, 0, [["2026-07-14", 1]], [], 3]);
  });

  it("compares nothing of a day that runs or has no history, says so once, and passes a day without units", async () => {
    const none = { counts: [counts(0, { windows: [] })] };
    const notCompared = async (gateway: Gateway, ...args: string[]) => {
      const { status, told } = await audited(lines(0), gateway, { args });
      return [status, told.notCompared];
    };
    const today = {
      window: "2026-07-15",
      why: "it is not over, and no window of its length counts",
    };
    assert.deepEqual(await notCompared({ counts: [] }, "--day", "2026-07-15"), [1, [today]]);
    const month = { window: "2026-07", why: "there is no history" };
    assert.deepEqual(await notCompared(none, "--month", "2026-07"), [1, [month]]);
    const idle = await audited([serving(MIDNIGHT - 2 * DAY_MS), ...lines(0)], none, {
      ...{ args: ["--day", "2026-07-14"], more: "history: 400d\n" },
    });
    assert.deepEqual([idle.status, idle.told.matched, idle.told.notCompared], [0, 0, []]);
  });
});
